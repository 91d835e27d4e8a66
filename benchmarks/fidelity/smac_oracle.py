"""One battle of the embedded engine in plain NumPy: the specification of the compiled kernel, as simple as possible.

Slow, for tests and benchmarks only. Arrays have one entry per unit; all arithmetic is in single precision and in the
kernel's order, so that the two agree to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fp3o.envs.smac import constants as k
from fp3o.envs.smac.battle import BEAM, BLAST, DIRECT, MISSILE, Battles, Rules, Steering
from fp3o.envs.smac.layouts import ATTACK, EAST, MAP_SIZE, NORTH, SOUTH, WEST, Array
from fp3o.envs.smac.terrain import Ground
from fp3o.envs.smac.units import LOOPS_PER_STEP

Float = np.float32
_DIRECTIONS = {NORTH: (0, 2), SOUTH: (0, -2), EAST: (2, 0), WEST: (-2, 0)}


def one_battle(battles: Battles, slot: int) -> Battles:
    """Views of one slot's state: arrays [U], [A], or [1] where there is one number per slot."""
    return Battles(*(array[slot] if array.ndim == 2 else array[slot : slot + 1] for array in battles))


def step(rules: Rules, ground: Ground, s: Steering, b: Battles, actions: Array) -> None:
    """Eight game loops under one set of actions [A]."""
    give_orders(rules, b, actions)
    for loop in range(LOOPS_PER_STEP):
        if b.tick[0] % rules.scan_period == 0:
            order = shuffled(b)
        choose_targets(rules, ground, s, b, order)
        mode = attack(rules, b)
        if loop % 2 == 0:
            near = neighbours(rules, b)
            steer(rules, ground, s, b, mode, near)
        move(rules, ground, s, b, mode, near)
        strike(rules, b)
        recover(rules, b)
        b.tick[0] += 1


def uniform(b: Battles, units: Array, purpose: np.uint64) -> Array:
    """Random numbers of these units in the current game loop."""

    def scramble(h: Array) -> Array:
        h = (h ^ (h >> np.uint64(30))) * k.MIX_1
        h = (h ^ (h >> np.uint64(27))) * k.MIX_2
        mixed: Array = h ^ (h >> np.uint64(31))
        return mixed

    place = (b.episode.astype(np.uint64) << np.uint64(32)) ^ b.tick.astype(np.uint64)
    use = (units.astype(np.uint64) << np.uint64(8)) ^ purpose
    h = scramble(scramble(scramble(b.seed + k.GOLDEN_RATIO) ^ place) + use * k.GOLDEN_RATIO)
    return (h >> np.uint64(40)).astype(Float) * Float(1.0 / 16777216.0)


def distances(b: Battles, u: int) -> Array:
    dx, dy = b.x - b.x[u], b.y - b.y[u]
    distance: Array = np.sqrt(dx * dx + dy * dy)
    return distance


def walkable(ground: Ground, layer: Array | int, x: Array, y: Array) -> Array:
    column, row = np.floor(Float(2) * x).astype(int), np.floor(Float(2) * y).astype(int)
    size = 2 * MAP_SIZE
    inside = (column >= 0) & (row >= 0) & (column < size) & (row < size)
    free: Array = ground.walkable[layer, np.clip(column, 0, size - 1), np.clip(row, 0, size - 1)]
    return inside & free


def striking(rules: Rules, b: Battles) -> Array:
    """Which units are between the two hits of an attack."""
    between: Array = (b.strikes > 0) & (rules.blow == DIRECT)
    return between


def break_off(rules: Rules, b: Battles, who: Array) -> None:
    """Cancel attacks of these units (a mask) whose hit, or second hit, has not landed yet."""
    b.has_spot[who] = False
    b.cooldown[who & (b.windup > 0)] = 0
    b.windup[who] = 0
    b.strikes[who & striking(rules, b)] = 0


def give_orders(rules: Rules, b: Battles, actions: Array) -> None:
    b.last_action[:] = actions
    for a, action in enumerate(actions.tolist()):
        if not b.alive[a] or rules.scripted[a]:
            continue
        target = rules.agents + action - ATTACK if action >= ATTACK else -1
        b.moving[a] = action in _DIRECTIONS
        if b.moving[a]:
            east, north = _DIRECTIONS[action]
            b.goal_x[a], b.goal_y[a] = float(b.x[a]) + east, float(b.y[a]) + north
        if target != b.target[a]:
            break_off(rules, b, np.arange(len(b.x)) == a)
        b.target[a] = target


def find_spot(
    rules: Rules, ground: Ground, s: Steering, b: Battles, u: int, v: int
) -> tuple[np.float32, np.float32, np.float32]:
    """The nearest free place beside v for u: its cost (huge if there is none), x and y relative to v."""
    dx, dy = b.x[u] - b.x[v], b.y[u] - b.y[v]
    distance = max(np.sqrt(dx * dx + dy * dy), k.TINY)
    beside = k.SNUG * (rules.reach[u] + rules.radius[u] + rules.radius[v])
    index = np.arange(len(b.x))
    foes = (index < rules.agents) != (u < rules.agents)
    stands = b.fighting | foes
    x = np.where(stands, b.x, b.x[b.target] + b.spot_x) - b.x[v]
    y = np.where(stands, b.y, b.y[b.target] + b.spot_y) - b.y[v]
    near = beside + Float(2)
    counts = (stands | b.has_spot) & b.alive & (rules.layer == rules.layer[u]) & (x * x + y * y < near * near)
    counts &= (index != u) & (index != v)
    taken = s.occupied * (rules.separation[u] + rules.separation)
    scale = beside / distance
    dx, dy = dx * scale, dy * scale
    cost = distance - beside + s.detour * beside * k.PLACE_ANGLE
    place_x = dx * k.PLACE_COS - dy * k.PLACE_SIN
    place_y = dx * k.PLACE_SIN + dy * k.PLACE_COS
    gap_x, gap_y = place_x[:, None] - x, place_y[:, None] - y
    blocked = ((gap_x * gap_x + gap_y * gap_y < taken * taken) & counts).any(axis=1)
    free = walkable(ground, int(rules.layer[u]), b.x[v] + place_x, b.y[v] + place_y) & ~blocked
    if not free.any():
        return k.HUGE, Float(0), Float(0)
    best = int(np.where(free, cost, k.HUGE).argmin())
    return cost[best], place_x[best], place_y[best]


def shuffled(b: Battles) -> Array:
    """The order in which units choose targets."""
    order = np.arange(len(b.x))
    draw = uniform(b, order, k.PURPOSE_ORDER)
    for last in range(len(order) - 1, 0, -1):
        other = int(draw[last] * Float(last + 1))
        order[[last, other]] = order[[other, last]]
    return order


def acquire(b: Battles, units: Array, attacker: int) -> None:
    """These units (a mask) attack whoever has hit them or a friend."""
    begin = units & (b.chase != k.CHASING)
    b.post_x[begin], b.post_y[begin] = b.x[begin], b.y[begin]
    b.chase[units] = k.CHASING
    b.target[units] = attacker


def mind_leash(rules: Rules, b: Battles) -> None:
    """End chases that have led too far, and the ways back from them."""
    dx, dy = b.x - b.post_x, b.y - b.post_y
    away = dx * dx + dy * dy
    chasing, returning = b.chase == k.CHASING, b.chase == k.RETURNING
    far = chasing & (b.target >= 0) & (away > rules.leash * rules.leash) & (b.windup <= 0) & ~striking(rules, b)
    b.chase[returning & (away <= rules.leash_reset * rules.leash_reset)] = k.FREE
    b.chase[chasing & (b.target < 0)] = k.FREE
    b.chase[far] = k.RETURNING
    b.target[far] = -1
    b.has_spot[far] = False


def choose_targets(rules: Rules, ground: Ground, s: Steering, b: Battles, order: Array) -> None:
    lost = (b.target >= 0) & ~b.alive[b.target]
    break_off(rules, b, lost)
    b.target[lost] = -1
    mind_leash(rules, b)
    looks = b.tick[0] % rules.scan_period == 0
    for u in order[(b.alive & (rules.scripted | (b.target >= 0)))[order]].tolist():
        t = int(b.target[u])
        gaps = distances(b, u) - rules.radius[u] - rules.radius
        if t >= 0:
            if not looks or b.windup[u] > 0 or striking(rules, b)[u]:
                continue
            if gaps[t] <= rules.reach[u] or not (rules.scripted[u] or rules.melee[u]):
                b.has_spot[u] = False
                continue
        foes = range(rules.agents, len(b.x)) if u < rules.agents else range(rules.agents)
        best, best_score, best_spot = -1, k.HUGE, (False, Float(0), Float(0))
        b.has_spot[u] = False
        for v in foes if rules.scripted[u] else [t]:
            limit = rules.scan[u] + (k.FOLLOW if v == t else Float(0))
            chased = v == t and b.chase[u] == k.CHASING
            if not b.alive[v] or (rules.scripted[u] and gaps[v] > limit and not chased):
                continue
            score = gaps[v] - k.STICKINESS if v == t else gaps[v]
            if score >= best_score:
                continue
            spot = (False, Float(0), Float(0))
            if rules.melee[u] and gaps[v] < k.SPOT_RANGE:
                cost, x, y = find_spot(rules, ground, s, b, u, v)
                spot = (bool(cost < k.HUGE), x, y)
                score = score + (cost - gaps[v] if spot[0] else s.no_place)
            if score < best_score:
                best, best_score, best_spot = v, score, spot
        b.target[u] = best
        if best != t and b.chase[u] == k.CHASING:
            b.chase[u] = k.FREE
        b.has_spot[u], b.spot_x[u], b.spot_y[u] = best_spot


def attack(rules: Rules, b: Battles) -> Array:
    """Wind-ups and shots; returns each unit's mode."""
    units = np.arange(len(b.x))
    agents = rules.agents
    ordered = np.zeros(len(b.x), bool)
    ordered[:agents] = b.moving
    has = b.alive & (b.target >= 0)
    dx, dy = rules.order_x - b.x, rules.order_y - b.y
    marching = rules.scripted & ((dx * dx + dy * dy > k.ARRIVED * k.ARRIVED) | (b.chase == k.RETURNING))
    walks = b.alive & np.where(b.target >= 0, True, marching | (~rules.scripted & ordered))
    dx, dy = b.x[b.target] - b.x, b.y[b.target] - b.y
    distance = np.sqrt(dx * dx + dy * dy)
    reach = rules.reach + rules.radius + rules.radius[b.target]
    between = has & striking(rules, b)
    winding = has & ~between & (b.windup > 0)
    broken = winding & (distance > reach + rules.slop)
    b.windup[broken] = 0
    b.cooldown[broken] = 0
    winding &= ~broken
    ready = has & ~between & ~winding & ~broken & (distance <= reach)
    fighting = winding | ready | between
    b.fighting[:] = fighting
    b.windup[winding] -= Float(1)
    struck = winding & (b.windup <= k.HALF)
    b.windup[struck] = 0
    starts = ready & (b.cooldown <= 0)
    draw = uniform(b, units, k.PURPOSE_COOLDOWN)
    b.cooldown[starts] += (rules.period + rules.noise_low + rules.noise_span * draw)[starts]
    slow = starts & (rules.damage_point > 0)
    b.windup[slow] = rules.damage_point[slow]
    fires = struck | (starts & ~slow)
    b.victim[fires] = b.target[fires]
    b.strikes[fires] = rules.hits[fires]
    b.flight[fires] = 0
    missiles, beams = fires & (rules.blow == MISSILE), fires & (rules.blow == BEAM)
    b.flight[missiles] = Float(1) + distance[missiles] / rules.missile_speed[missiles]
    b.flight[beams] = Float(1) + rules.delay[beams]
    scale = Float(1) / np.maximum(distance, k.TINY)
    b.aim_x[beams] = (dx * scale)[beams]
    b.aim_y[beams] = (dy * scale)[beams]
    return np.where(fighting, k.FIGHTING, np.where(walks, k.MOVING, k.IDLE))


def neighbours(rules: Rules, b: Battles) -> Array:
    """[U, U] which units may collide during the next two loops."""
    dx, dy = b.x - b.x[:, None], b.y - b.y[:, None]
    near = rules.separation[:, None] + rules.separation + k.NEIGHBOUR_MARGIN
    pairs: Array = (
        (dx * dx + dy * dy < near * near) & b.alive & b.alive[:, None] & (rules.layer == rules.layer[:, None])
    )
    np.fill_diagonal(pairs, False)
    return pairs


def goal_of(rules: Rules, ground: Ground, b: Battles, u: int) -> tuple[Any, Any]:
    """The point that a walking unit heads for."""
    t = int(b.target[u])
    if t >= 0 and b.has_spot[u]:
        x, y = toward_spot(b, u, t)
    elif t >= 0:
        x, y = b.x[t], b.y[t]
    elif b.chase[u] == k.RETURNING:
        x, y = b.post_x[u], b.post_y[u]
    elif rules.scripted[u]:
        x, y = rules.order_x[u], rules.order_y[u]
    else:
        x, y = b.goal_x[u], b.goal_y[u]
    if not ground.convex and rules.layer[u] == 0:
        there = ground.node[min(max(int(x), 0), MAP_SIZE - 1), min(max(int(y), 0), MAP_SIZE - 1)]
        first = ground.way[ground.node[int(b.x[u]), int(b.y[u])], there]
        if first != there:
            return ground.node_x[first], ground.node_y[first]
    return x, y


def toward_spot(b: Battles, u: int, t: int) -> tuple[Any, Any]:
    dx, dy = b.x[u] - b.x[t], b.y[u] - b.y[t]
    spot_x, spot_y = b.spot_x[u], b.spot_y[u]
    distance = max(np.sqrt(dx * dx + dy * dy), k.TINY)
    beside = max(np.sqrt(spot_x * spot_x + spot_y * spot_y), k.TINY)
    if dx * spot_x + dy * spot_y >= k.AROUND_COS * distance * beside:
        return b.x[t] + spot_x, b.y[t] + spot_y
    scale = max(distance, beside + k.ORBIT) / distance
    sine = k.AROUND_SIN if dx * spot_y - dy * spot_x >= 0 else -k.AROUND_SIN
    return b.x[t] + scale * (dx * k.AROUND_COS - dy * sine), b.y[t] + scale * (dx * sine + dy * k.AROUND_COS)


def steer(rules: Rules, ground: Ground, s: Steering, b: Battles, mode: Array, near: Array) -> None:
    b.velocity_x[:] = 0
    b.velocity_y[:] = 0
    index = np.arange(len(b.x))
    odd = np.arange(len(k.HEADINGS)) % 2 == 1
    for u in np.nonzero(mode == k.MOVING)[0].tolist():
        goal_x, goal_y = goal_of(rules, ground, b, u)
        dx, dy = goal_x - b.x[u], goal_y - b.y[u]
        distance = np.sqrt(dx * dx + dy * dy)
        if distance <= k.TINY:
            continue
        ahead_x, ahead_y = dx / distance, dy / distance
        heading_x = ahead_x * k.HEADING_COS - ahead_y * k.HEADING_SIN
        heading_y = ahead_x * k.HEADING_SIN + ahead_y * k.HEADING_COS
        look_x, look_y = s.look_ahead * heading_x, s.look_ahead * heading_y
        rel_x, rel_y = b.x - b.x[u], b.y - b.y[u]
        gap_x, gap_y = rel_x - look_x[:, None], rel_y - look_y[:, None]
        close = rules.separation[u] + rules.separation
        hits = (gap_x * gap_x + gap_y * gap_y < close * close) & near[u] & b.alive & (index != b.target[u])
        hits &= rel_x * heading_x[:, None] + rel_y * heading_y[:, None] > 0
        foes = (index < rules.agents) != (u < rules.agents)
        cost = np.where(foes, s.enemy_load, np.where(mode == k.FIGHTING, s.attacker_load, s.friend_load))
        load = np.cumsum(np.where(hits, cost, Float(0)), axis=1, dtype=Float)[:, -1]
        walls = ~walkable(ground, int(rules.layer[u]), b.x[u] + look_x, b.y[u] + look_y)
        best = 0
        if load[0] != 0:
            load[1:] += np.where(walls[1:], s.attacker_load, Float(0))
            score = k.HEADING_COS - load
            score[1:] += np.where(odd[1:] == (b.side[u] > 0), s.side_bonus, Float(0))
            best = int(score.argmax())
        if best > 0:
            b.side[u] = 1 if odd[best] else -1
        speed = rules.speed[u] if b.target[u] >= 0 else min(rules.speed[u], distance)
        b.velocity_x[u] = speed * heading_x[best]
        b.velocity_y[u] = speed * heading_y[best]


def move(rules: Rules, ground: Ground, s: Steering, b: Battles, mode: Array, near: Array) -> None:
    index = np.arange(len(b.x))
    moving = mode == k.MOVING
    mobility = k.MOBILITIES[mode]
    x, y = b.x + np.where(moving, b.velocity_x, Float(0)), b.y + np.where(moving, b.velocity_y, Float(0))
    together = near & b.alive & b.alive[:, None]
    close = rules.separation[:, None] + rules.separation
    for _ in range(2):
        dx, dy = x[:, None] - x, y[:, None] - y
        square = dx * dx + dy * dy
        distance = np.sqrt(square)
        same = distance <= k.TINY
        overlap = np.where(same, close, close - distance)
        dx = np.where(same, np.where(index[:, None] < index, Float(1), Float(-1)), dx)
        dy = np.where(same, Float(0), dy)
        distance = np.where(same, Float(1), distance)
        share = s.push * overlap * mobility[:, None] / (mobility[:, None] + mobility) / distance
        share = np.where(together & (square < close * close), share, Float(0))
        x, y = x + np.cumsum(share * dx, axis=1)[:, -1], y + np.cumsum(share * dy, axis=1)[:, -1]
    layer = rules.layer.astype(int)
    both = walkable(ground, layer, x, y)
    only_x = ~both & walkable(ground, layer, x, b.y)
    only_y = ~both & ~only_x & walkable(ground, layer, b.x, y)
    b.x[:] = np.where(b.alive & (both | only_x), x, b.x)
    b.y[:] = np.where(b.alive & (both | only_y), y, b.y)


def hit(rules: Rules, b: Battles, u: int, v: int) -> None:
    damage = rules.raw[u, v]
    absorbed = min(b.shield[v], damage)
    b.shield[v] -= absorbed
    damage = damage - absorbed
    if damage > 0:
        damage = min(max(damage - rules.armour[v], k.LEAST), b.health[v])
        b.health[v] -= damage
    b.lost[v] += absorbed + damage
    b.quiet[v] = 0
    idle = rules.scripted[v] and b.target[v] < 0
    if idle and not rules.calls:
        b.target[v] = u
    elif idle:
        acquire(b, np.arange(len(b.x)) == v, u)
    if rules.calls and rules.scripted[v]:
        call_for_help(rules, b, u, v)


def call_for_help(rules: Rules, b: Battles, u: int, v: int) -> None:
    """v, hit by u, calls its friends near by: those that are not hitting anybody turn to u."""
    if b.call_wait[v] > 0 or not b.alive[u]:
        return
    b.call_wait[v] = rules.help_period
    index = np.arange(len(b.x))
    friends = ((index < rules.agents) == (v < rules.agents)) & (index != v) & b.alive & rules.scripted
    dx, dy = b.x - b.x[v], b.y - b.y[v]
    reach = rules.help_radius + rules.radius
    answer = friends & ~b.fighting & (b.chase != k.RETURNING) & (dx * dx + dy * dy <= reach * reach)
    others = b.target >= 0
    if rules.redirects == k.NEARER:
        theirs_x, theirs_y = b.x[b.target] - b.x, b.y[b.target] - b.y
        theirs = np.sqrt(theirs_x * theirs_x + theirs_y * theirs_y) - rules.radius[b.target]
        others &= ~(distances(b, u) - rules.radius[u] < theirs - k.STICKINESS)
    if rules.redirects != k.ALWAYS:
        answer &= ~others
    b.has_spot[answer] = False
    acquire(b, answer, u)


def foes_of(rules: Rules, b: Battles, u: int) -> list[int]:
    """Living units of the other side."""
    index = np.arange(len(b.x))
    living: list[int] = np.nonzero(b.alive & ((index < rules.agents) != (u < rules.agents)))[0].tolist()
    return living


def strike(rules: Rules, b: Battles) -> None:
    pending = b.strikes > 0
    b.flight[pending & (b.flight > k.HALF)] -= Float(1)
    for u in np.nonzero(pending & (b.flight <= k.HALF))[0].tolist():
        v, blow = int(b.victim[u]), rules.blow[u]
        if blow == BLAST:
            b.strikes[u] = 0
            if b.alive[u]:
                b.lost[u] += b.health[u]
                b.health[u] = 0
        elif blow == BEAM:
            for w in foes_of(rules, b, u):
                dx, dy = b.x[w] - b.x[v], b.y[w] - b.y[v]
                beyond = max(abs(dy * b.aim_x[u] - dx * b.aim_y[u]) - rules.area[u], Float(0))
                across = dx * b.aim_x[u] + dy * b.aim_y[u]
                touch = rules.area_margin[u] + rules.radius[w]
                if beyond * beyond + across * across <= touch * touch:
                    for _ in range(b.strikes[u]):
                        hit(rules, b, u, w)
            b.strikes[u] = 0
        else:
            b.strikes[u] -= 1
            b.flight[u] = rules.delay[u]
            if b.alive[v] and (blow == MISSILE or b.alive[u]):
                hit(rules, b, u, v)
            if not (b.alive[u] and b.alive[v]):
                b.strikes[u] = 0
    while True:
        dying = b.alive & (b.health <= 0)
        b.alive[dying] = False
        for array in (b.health, b.windup, b.cooldown, b.velocity_x, b.velocity_y, b.has_spot, b.fighting):
            array[dying] = 0
        b.target[dying] = -1
        bursting = np.nonzero(dying & (rules.blow == BLAST))[0].tolist()
        if not bursting:
            return
        for u in bursting:
            for w in foes_of(rules, b, u):
                dx, dy = b.x[w] - b.x[u], b.y[w] - b.y[u]
                reach = rules.area[u] + rules.radius[w]
                if dx * dx + dy * dy <= reach * reach:
                    hit(rules, b, u, w)


def recover(rules: Rules, b: Battles) -> None:
    alive = b.alive
    b.cooldown[alive] = np.where(b.cooldown > 0, b.cooldown - Float(1), Float(0))[alive]
    b.quiet[alive] += 1
    b.call_wait[alive & (b.call_wait > 0)] -= 1
    healing = alive & (rules.regeneration > 0) & (b.health < rules.max_health)
    gain = np.minimum(rules.regeneration, rules.max_health - b.health)
    b.health[healing] += gain[healing]
    b.regained[healing] += gain[healing]
    recharging = alive & (b.shield < rules.max_shield) & (b.quiet > k.SHIELD_QUIET)
    gain = np.minimum(k.SHIELD_GAIN, rules.max_shield - b.shield)
    b.shield[recharging] += gain[recharging]
    b.regained[recharging] += gain[recharging]
