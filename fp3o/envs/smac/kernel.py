"""One step of many battles: eight game loops each, then reward, outcome, reset and what the agents see.

All arithmetic is in single precision and in a fixed order; `oracle.py` does the same in plain NumPy. Order within a
game loop: targets, attacks, headings, motion, separation, walls, damage and deaths, recovery. Damage is applied before
deaths are counted, so both sides can die at once. Numbers without a source are calibrated or assumed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import prange

from fp3o.envs.compiled import compiled, in_parallel, inlined, uncounted
from fp3o.envs.smac.battle import BEAM, BLAST, DIRECT, MISSILE, Battles, Rules, SteeringNumbers
from fp3o.envs.smac.layouts import (
    ATTACK,
    MAP_SIZE,
    NORTH,
    WEST,
    Array,
    Encoding,
    move_goal,
    settle,
    write_available,
    write_features,
)
from fp3o.envs.smac.terrain import Ground
from fp3o.envs.smac.units import LEAST_DAMAGE, LOOPS_PER_SECOND, LOOPS_PER_STEP, SHIELD_DELAY, SHIELD_RATE

F = np.float32
ZERO, ONE, TWO, HALF = F(0), F(1), F(2), F(0.5)
LEAST = F(LEAST_DAMAGE)
SHIELD_QUIET = int(SHIELD_DELAY * LOOPS_PER_SECOND)
SHIELD_GAIN = F(SHIELD_RATE / LOOPS_PER_SECOND)
RETARGET = 4  # game loops after which a unit that follows a target looks for a better one
LEASH = F(3)  # cells beyond its scan range up to which a unit follows a target
STICKINESS = F(0.25)  # cells by which a new target must be nearer than the current one
ARRIVED = F(2)  # cells from an order's point at which a unit has arrived
TINY, HUGE = F(1e-6), F(1e9)
NOWHERE = F(math.nan)  # coordinate of a unit that is in nobody's way: comparing a distance to it is always false
ROUNDING = F(
    0.01
)  # cells, far more than rounding errors: what is further away than a rule's distance plus this is ruled out
SPOT_RANGE = F(3)  # cells from its target at which a melee unit starts to look for a free place beside it
SNUG = F(0.95)  # such a place is this fraction of the reach away, so that a unit that arrives is in range
ORBIT = F(0.8)  # cells outside those places at which a unit walks around its target
NEIGHBOUR_MARGIN = F(0.8)  # cells: lists are used for two loops, that is 2 · 2 · 0.185 of motion, plus the look-ahead
# A unit's mode, and its mobility: the larger, the more it is moved in a collision. A fighting unit hardly moves.
IDLE, MOVING, FIGHTING = 0, 1, 2
MOBILITIES = np.array([0.5, 1.0, 0.02], np.float32)  # by mode
# Headings tried around an obstacle: angles (degrees) from the straight line.
HEADINGS = (0.0, 35.0, -35.0, 70.0, -70.0, 100.0, -100.0, 138.0, -138.0)
HEADING_COS = np.array([math.cos(math.radians(angle)) for angle in HEADINGS], np.float32)
HEADING_SIN = np.array([math.sin(math.radians(angle)) for angle in HEADINGS], np.float32)
# Places beside a target: angles (degrees) from the direction in which the unit comes.
PLACES = (0.0, 40.0, -40.0, 80.0, -80.0, 120.0, -120.0, 160.0, -160.0)
PLACE_COS = np.array([math.cos(math.radians(place)) for place in PLACES], np.float32)
PLACE_SIN = np.array([math.sin(math.radians(place)) for place in PLACES], np.float32)
PLACE_ANGLE = np.array([abs(math.radians(place)) for place in PLACES], np.float32)
AROUND_COS, AROUND_SIN = F(math.cos(math.radians(50.0))), F(math.sin(math.radians(50.0)))

STEP, BEGIN, SHOW = range(3)
PURPOSE_COOLDOWN, PURPOSE_SPAWN_X, PURPOSE_SPAWN_Y, PURPOSE_SIDE, PURPOSE_ORDER = range(5)
MIX_1, MIX_2, GOLDEN_RATIO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)


@uncounted
def scramble(h: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64, a hash: every bit of the input changes every bit of the output."""
    h = (h ^ (h >> np.uint64(30))) * MIX_1
    h = (h ^ (h >> np.uint64(27))) * MIX_2
    return h ^ (h >> np.uint64(31))


@uncounted
def moment(seed: np.uint64, episode: int, tick: int) -> np.uint64:
    """The hash of a game loop, from which `uniform` draws."""
    place = (np.uint64(episode) << np.uint64(32)) ^ np.uint64(tick)
    return scramble(scramble(seed + GOLDEN_RATIO) ^ place)


@uncounted
def uniform(now: np.uint64, unit: int, purpose: int) -> np.float32:
    """A random number in [0, 1) that is a hash of the arguments, so that there is no generator state to save."""
    use = (np.uint64(unit) << np.uint64(8)) ^ np.uint64(purpose)
    h = scramble(now + use * GOLDEN_RATIO)
    return F(h >> np.uint64(40)) * F(1.0 / 16777216.0)


@uncounted
def reset_battle(rules: Rules, b: Battles, n: int) -> None:
    """Start battle n's current episode: both armies at their start positions, allies sorted by type, x, y."""
    units = rules.kind.shape[0]
    start = moment(b.seed[n], b.episode[n], 0)
    b.tick[n] = 0
    b.step[n] = 0
    b.running[n] = True
    b.total[n] = 0.0
    for u in range(units):
        right = TWO * uniform(start, u, PURPOSE_SPAWN_X) - ONE
        up = TWO * uniform(start, u, PURPOSE_SPAWN_Y) - ONE
        x, y = rules.spawn_x[u] + rules.jitter * right, rules.spawn_y[u] + rules.jitter * up
        i = u
        while (
            0 < i < rules.agents
            and rules.kind[i - 1] == rules.kind[i]
            and (b.x[n, i - 1] > x or (b.x[n, i - 1] == x and b.y[n, i - 1] > y))
        ):
            b.x[n, i] = b.x[n, i - 1]
            b.y[n, i] = b.y[n, i - 1]
            i -= 1
        b.x[n, i] = x
        b.y[n, i] = y
    for u in range(units):
        b.health[n, u] = rules.max_health[u]
        b.shield[n, u] = rules.max_shield[u]
        b.cooldown[n, u] = ZERO
        b.windup[n, u] = ZERO
        b.flight[n, u] = ZERO
        b.aim_x[n, u] = ZERO
        b.aim_y[n, u] = ZERO
        b.velocity_x[n, u] = ZERO
        b.velocity_y[n, u] = ZERO
        b.lost[n, u] = ZERO
        b.regained[n, u] = ZERO
        b.spot_x[n, u] = ZERO
        b.spot_y[n, u] = ZERO
        b.has_spot[n, u] = False
        b.fighting[n, u] = False
        b.quiet[n, u] = 0
        b.target[n, u] = -1
        b.victim[n, u] = -1
        b.strikes[n, u] = 0
        b.side[n, u] = 1 if uniform(start, u, PURPOSE_SIDE) < HALF else -1
        b.alive[n, u] = True
    for a in range(rules.agents):
        b.last_action[n, a] = -1
        b.goal_x[n, a] = ZERO
        b.goal_y[n, a] = ZERO
        b.moving[n, a] = False


class Work(NamedTuple):
    """Tables of a scenario's pairs of units, and working memory; one per thread, used by one battle after another."""

    near: Array  # [U, U] squared distance below which two units overlap
    close: Array  # [U, U] squared distance below which they are neighbours; −1, never, if on different layers
    taken: Array  # [U, U] squared distance below which one takes the other's place beside a target; −1 likewise
    spread: Array  # [U] cells around a place within which a unit can take it
    order: Array  # [U] in which units choose targets
    mode: Array  # [U]
    place_x: Array  # [2, U] where a unit stands, or is about to, in the eyes of allies (0) and of enemies (1)
    place_y: Array
    neighbours: Array  # [U, U] of each unit, in ascending order
    crowd: Array  # [U] their number
    pair_u: Array  # [U (U − 1) / 2] the same as pairs, u < v, in ascending order
    pair_v: Array
    pair_near: Array  # `near` of the pair
    block_x: Array  # [U] units in the way, relative to the point of interest …
    block_y: Array
    block_square: Array  # … squared distance at which they are …
    block_load: Array  # … and what it costs
    new_x: Array  # [U]
    new_y: Array
    push_x: Array
    push_y: Array
    mobility: Array
    dying: Array
    vitality: Array  # [U] health plus shield before the step
    alive_before: Array


@compiled
def make_work(rules: Rules, s: SteeringNumbers) -> Work:
    """Working memory with the tables filled in."""
    units = rules.kind.shape[0]
    pairs = units * (units - 1) // 2
    w = Work(
        near=np.zeros((units, units), np.float32),
        close=np.zeros((units, units), np.float32),
        taken=np.zeros((units, units), np.float32),
        spread=np.zeros(units, np.float32),
        order=np.zeros(units, np.int64),
        mode=np.zeros(units, np.int8),
        place_x=np.zeros((2, units), np.float32),
        place_y=np.zeros((2, units), np.float32),
        neighbours=np.zeros((units, units), np.uint16),
        crowd=np.zeros(units, np.int32),
        pair_u=np.zeros(pairs, np.uint16),
        pair_v=np.zeros(pairs, np.uint16),
        pair_near=np.zeros(pairs, np.float32),
        block_x=np.zeros(units, np.float32),
        block_y=np.zeros(units, np.float32),
        block_square=np.zeros(units, np.float32),
        block_load=np.zeros(units, np.float32),
        new_x=np.zeros(units, np.float32),
        new_y=np.zeros(units, np.float32),
        push_x=np.zeros(units, np.float32),
        push_y=np.zeros(units, np.float32),
        mobility=np.zeros(units, np.float32),
        dying=np.zeros(units, np.bool_),
        vitality=np.zeros(units, np.float64),
        alive_before=np.zeros(units, np.bool_),
    )
    for u in range(units):
        for v in range(units):
            both = rules.separation[u] + rules.separation[v]
            margin = both + NEIGHBOUR_MARGIN
            place = s.occupied * both
            together = rules.layer[u] == rules.layer[v]
            w.near[u, v] = both * both
            w.close[u, v] = margin * margin if together else -ONE
            w.taken[u, v] = place * place if together else -ONE
            w.spread[u] = max(w.spread[u], min(place + ROUNDING, TWO))
    return w


@inlined
def one_battle(b: Battles, n: int) -> Battles:
    """Views of battle n's state: arrays [U], [A], or [1] where there is one number per battle."""
    return Battles(
        x=b.x[n],
        y=b.y[n],
        health=b.health[n],
        shield=b.shield[n],
        cooldown=b.cooldown[n],
        windup=b.windup[n],
        flight=b.flight[n],
        aim_x=b.aim_x[n],
        aim_y=b.aim_y[n],
        velocity_x=b.velocity_x[n],
        velocity_y=b.velocity_y[n],
        lost=b.lost[n],
        regained=b.regained[n],
        spot_x=b.spot_x[n],
        spot_y=b.spot_y[n],
        quiet=b.quiet[n],
        target=b.target[n],
        victim=b.victim[n],
        strikes=b.strikes[n],
        side=b.side[n],
        has_spot=b.has_spot[n],
        fighting=b.fighting[n],
        alive=b.alive[n],
        last_action=b.last_action[n],
        goal_x=b.goal_x[n],
        goal_y=b.goal_y[n],
        moving=b.moving[n],
        seed=b.seed[n : n + 1],
        episode=b.episode[n : n + 1],
        tick=b.tick[n : n + 1],
        step=b.step[n : n + 1],
        running=b.running[n : n + 1],
        total=b.total[n : n + 1],
    )


@uncounted
def striking(blow: int, strikes: int) -> bool:
    """Whether a unit is between the two hits of an attack; it stands still then (catalogue: PsiBladesBurst is
    channeled)."""
    return strikes > 0 and blow == DIRECT


@uncounted
def break_off(rules: Rules, b: Battles, u: int) -> None:
    """Cancel an attack whose hit, or second hit, has not landed yet."""
    b.has_spot[u] = False
    if b.windup[u] > ZERO:
        b.windup[u] = ZERO
        b.cooldown[u] = ZERO
    if striking(rules.blow[u], b.strikes[u]):
        b.strikes[u] = 0


@inlined
def give_orders(rules: Rules, b: Battles, actions: Array) -> None:
    """Set targets and goals from the agents' actions; a new order cancels an attack that has not hit yet."""
    for a in range(rules.agents):
        action = actions[a]
        b.last_action[a] = action
        if not b.alive[a] or rules.scripted[a]:
            continue
        target = -1
        b.moving[a] = False
        if action >= ATTACK:
            target = rules.agents + action - ATTACK
        elif NORTH <= action <= WEST:
            b.moving[a] = True
            goal_x, goal_y = move_goal(action, float(b.x[a]), float(b.y[a]))
            b.goal_x[a] = F(goal_x)
            b.goal_y[a] = F(goal_y)
        if target != b.target[a]:
            break_off(rules, b, a)
        b.target[a] = target


@uncounted
def length(dx: np.float32, dy: np.float32) -> np.float32:
    """Length of a vector. Takes numbers, as small functions do: passing all arrays would cost more than their work."""
    return F(math.sqrt(dx * dx + dy * dy))


@uncounted
def walkable(planes: Array, layer: int, x: np.float32, y: np.float32) -> bool:
    """Whether a unit's centre may be at (x, y)."""
    column, row = math.floor(TWO * x), math.floor(TWO * y)
    if column < 0 or row < 0 or column >= 2 * MAP_SIZE or row >= 2 * MAP_SIZE:
        return False
    return bool(planes[layer, column, row])


@inlined
def own_place(b: Battles, u: int) -> tuple[np.float32, np.float32]:
    """Where u stands and fights, or is about to; NOWHERE if it is dead or just walks."""
    x, y = NOWHERE, NOWHERE
    if b.alive[u] and b.fighting[u]:
        x, y = b.x[u], b.y[u]
    elif b.alive[u] and b.has_spot[u]:
        t = b.target[u]
        x, y = b.x[t] + b.spot_x[u], b.y[t] + b.spot_y[u]
    return x, y


@inlined
def mark_places(rules: Rules, b: Battles, w: Work) -> None:
    """Places that units of each side find taken: by enemies where they are, by friends where they fight or will."""
    for u in range(rules.kind.shape[0]):
        friends = 0 if u < rules.agents else 1
        w.place_x[friends, u], w.place_y[friends, u] = own_place(b, u)
        w.place_x[1 - friends, u] = b.x[u] if b.alive[u] else NOWHERE
        w.place_y[1 - friends, u] = b.y[u] if b.alive[u] else NOWHERE


@inlined
def find_spot(
    rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, w: Work, u: int, v: int
) -> tuple[np.float32, np.float32, np.float32]:
    """The nearest free place beside v from which u can hit v: its cost in cells (HUGE if there is none), x and y
    relative to v."""
    centre_x, centre_y = b.x[v], b.y[v]
    dx, dy = b.x[u] - centre_x, b.y[u] - centre_y
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = SNUG * (rules.reach[u] + rules.radius[u] + rules.radius[v])
    near = beside + w.spread[u]
    side = 0 if u < rules.agents else 1
    blocks = 0
    for other in range(rules.kind.shape[0]):
        x, y = w.place_x[side, other] - centre_x, w.place_y[side, other] - centre_y
        w.block_x[blocks] = x
        w.block_y[blocks] = y
        w.block_square[blocks] = w.taken[u, other]
        blocks += (x * x + y * y < near * near) & (other != v)  # no branch: it would be mispredicted
    scale = beside / distance
    dx *= scale
    dy *= scale
    best, best_x, best_y = HUGE, ZERO, ZERO
    for place in range(PLACE_COS.shape[0]):
        cost = distance - beside + s.detour * beside * PLACE_ANGLE[place]
        if cost >= best:
            continue
        x = dx * PLACE_COS[place] - dy * PLACE_SIN[place]
        y = dx * PLACE_SIN[place] + dy * PLACE_COS[place]
        free = walkable(ground.walkable, rules.layer[u], centre_x + x, centre_y + y)
        for i in range(blocks):
            gap_x, gap_y = x - w.block_x[i], y - w.block_y[i]
            if gap_x * gap_x + gap_y * gap_y < w.block_square[i]:
                free = False
                break
        if free:
            best, best_x, best_y = cost, x, y
    return best, best_x, best_y


@uncounted
def shuffle(now: np.uint64, order: Array) -> None:
    """A random order of units for choosing targets: the first ones get the best free places, which must favour no
    side."""
    for u in range(order.shape[0]):
        order[u] = u
    for last in range(order.shape[0] - 1, 0, -1):
        draw = uniform(now, last, PURPOSE_ORDER)
        other = int(draw * F(last + 1))
        order[last], order[other] = order[other], order[last]


@inlined
def choose_targets(
    rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, w: Work, now: np.uint64, looks: bool
) -> None:
    """Targets of scripted units as by the game's attack-move: the nearest enemy in scan range, until it dies or
    escapes.

    For melee units the distance is the way to a free place beside the target, which they then occupy. Units of agents
    look for such a place beside the target that their action names.
    """
    units = rules.kind.shape[0]
    searching = looks
    for u in range(units):
        t = b.target[u]
        if t >= 0 and not b.alive[t]:
            b.target[u] = -1
            break_off(rules, b, u)
        if b.target[u] < 0 and rules.scripted[u] and b.alive[u]:
            searching = True
    if not searching:
        return
    if looks:
        shuffle(now, w.order)
    marked = False
    for u in w.order:
        t = b.target[u]
        if not b.alive[u] or (t < 0 and not rules.scripted[u]):
            continue
        best, best_score, spot_x, spot_y = t, HUGE, b.spot_x[u], b.spot_y[u]
        has_spot = False
        first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
        if t >= 0:
            if not looks or b.windup[u] > ZERO or striking(rules.blow[u], b.strikes[u]):
                continue
            gap = length(b.x[t] - b.x[u], b.y[t] - b.y[u]) - rules.radius[u] - rules.radius[t]
            if gap <= rules.reach[u] or not (rules.scripted[u] or rules.melee[u]):
                first = last
            elif not rules.scripted[u]:
                first, last = t, t + 1
        b.has_spot[u] = False
        if first < last:
            best, spot_x, spot_y = -1, ZERO, ZERO
        for v in range(first, last):
            if not b.alive[v]:
                continue
            dx, dy = b.x[v] - b.x[u], b.y[v] - b.y[u]
            if v != t:  # rule out without a root what is out of scan range, or further away than the best so far
                far = max(min(rules.scan[u], best_score) + rules.radius[u] + rules.radius[v] + ROUNDING, ZERO)
                if dx * dx + dy * dy > far * far:
                    continue
            gap = length(dx, dy) - rules.radius[u] - rules.radius[v]
            if rules.scripted[u] and gap > rules.scan[u] and (v != t or gap > rules.scan[u] + LEASH):
                continue
            score = gap
            if v == t:
                score -= STICKINESS
            if score >= best_score:
                continue
            x, y = ZERO, ZERO
            free = False
            if rules.melee[u] and gap < SPOT_RANGE:
                if not marked:
                    mark_places(rules, b, w)
                    marked = True
                side = 0 if u < rules.agents else 1
                w.place_x[side, u] = NOWHERE  # a unit is not in its own way
                cost, x, y = find_spot(rules, ground, s, b, w, u, v)
                free = bool(cost < HUGE)
                score += cost - gap if free else s.no_place
            if score < best_score:
                best, best_score, has_spot, spot_x, spot_y = v, score, free, x, y
        b.target[u] = best
        b.has_spot[u] = has_spot
        b.spot_x[u] = spot_x
        b.spot_y[u] = spot_y
        if marked:
            side = 0 if u < rules.agents else 1
            w.place_x[side, u], w.place_y[side, u] = own_place(b, u)


@inlined
def attack(rules: Rules, b: Battles, now: np.uint64, mode: Array) -> None:
    """Wind-ups, cooldowns and shots; sets `mode` to FIGHTING for units in range of their target."""
    for u in range(rules.kind.shape[0]):
        mode[u] = IDLE
        b.fighting[u] = False
        if not b.alive[u]:
            continue
        t = b.target[u]
        if t < 0:
            if rules.scripted[u]:
                dx, dy = rules.order_x[u] - b.x[u], rules.order_y[u] - b.y[u]
                if dx * dx + dy * dy > ARRIVED * ARRIVED:
                    mode[u] = MOVING
            elif b.moving[u]:
                mode[u] = MOVING
            continue
        if striking(rules.blow[u], b.strikes[u]):
            mode[u] = FIGHTING
            b.fighting[u] = True
            continue
        mode[u] = MOVING
        dx, dy = b.x[t] - b.x[u], b.y[t] - b.y[u]
        distance = F(math.sqrt(dx * dx + dy * dy))
        reach = rules.reach[u] + rules.radius[u] + rules.radius[t]
        fires = False
        if b.windup[u] > ZERO:
            if distance > reach + rules.slop[u]:
                b.windup[u] = ZERO
                b.cooldown[u] = ZERO
                continue
            mode[u] = FIGHTING
            b.fighting[u] = True
            b.windup[u] -= ONE
            if b.windup[u] <= HALF:  # times are rounded to the nearest loop
                b.windup[u] = ZERO
                fires = True
        elif distance <= reach:
            mode[u] = FIGHTING
            b.fighting[u] = True
            if b.cooldown[u] <= ZERO:
                # The fraction of a loop by which the cooldown ended early is carried over: the mean period stays exact.
                draw = uniform(now, u, PURPOSE_COOLDOWN)
                b.cooldown[u] += rules.period[u] + rules.noise_low + rules.noise_span * draw
                if rules.damage_point[u] > ZERO:
                    b.windup[u] = rules.damage_point[u]
                else:
                    fires = True
        if not fires:
            continue
        b.victim[u] = t
        b.strikes[u] = rules.hits[u]
        b.flight[u] = ZERO
        if rules.blow[u] == MISSILE:
            b.flight[u] = ONE + distance / rules.missile_speed[u]
        elif rules.blow[u] == BEAM:
            b.flight[u] = ONE + rules.delay[u]
            scale = ONE / max(distance, TINY)
            b.aim_x[u] = dx * scale
            b.aim_y[u] = dy * scale


@inlined
def find_neighbours(rules: Rules, b: Battles, w: Work) -> int:
    """For every unit, the units near enough to collide with it during the next two loops. Returns the number of
    pairs."""
    units = rules.kind.shape[0]
    w.crowd[:] = 0
    pairs = 0
    for u in range(units):
        if not b.alive[u]:
            continue
        x, y = b.x[u], b.y[u]
        for v in range(u + 1, units):
            dx, dy = b.x[v] - x, b.y[v] - y
            if dx * dx + dy * dy < w.close[u, v] and b.alive[v]:
                w.neighbours[u, w.crowd[u]] = v
                w.neighbours[v, w.crowd[v]] = u
                w.crowd[u] += 1
                w.crowd[v] += 1
                w.pair_u[pairs] = u
                w.pair_v[pairs] = v
                w.pair_near[pairs] = w.near[u, v]
                pairs += 1
    return pairs


@inlined
def toward_spot(rules: Rules, b: Battles, u: int, t: int) -> tuple[np.float32, np.float32]:
    """Where unit u walks to reach its place beside t: straight there if it is on the near side, else around t."""
    dx, dy = b.x[u] - b.x[t], b.y[u] - b.y[t]
    spot_x, spot_y = b.spot_x[u], b.spot_y[u]
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = max(F(math.sqrt(spot_x * spot_x + spot_y * spot_y)), TINY)
    if dx * spot_x + dy * spot_y >= AROUND_COS * distance * beside:
        return b.x[t] + spot_x, b.y[t] + spot_y
    scale = max(distance, beside + ORBIT) / distance
    sine = AROUND_SIN if dx * spot_y - dy * spot_x >= ZERO else -AROUND_SIN
    x = scale * (dx * AROUND_COS - dy * sine)
    y = scale * (dx * sine + dy * AROUND_COS)
    return b.x[t] + x, b.y[t] + y


@inlined
def steer(rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, w: Work) -> None:
    """Velocities of the units that walk: straight ahead if that is free, else by the best of nine headings."""
    for u in range(rules.kind.shape[0]):
        b.velocity_x[u] = ZERO
        b.velocity_y[u] = ZERO
        if w.mode[u] != MOVING:
            continue
        x, y, t = b.x[u], b.y[u], b.target[u]
        if t >= 0 and b.has_spot[u]:
            goal_x, goal_y = toward_spot(rules, b, u, t)
        elif t >= 0:
            goal_x, goal_y = b.x[t], b.y[t]
        elif rules.scripted[u]:
            goal_x, goal_y = rules.order_x[u], rules.order_y[u]
        else:
            goal_x, goal_y = b.goal_x[u], b.goal_y[u]
        if not ground.convex and rules.layer[u] == 0:
            here = ground.node[int(x), int(y)]
            column, row = min(max(int(goal_x), 0), MAP_SIZE - 1), min(max(int(goal_y), 0), MAP_SIZE - 1)
            there = ground.node[column, row]
            first = ground.way[here, there]
            if first != there:
                goal_x, goal_y = ground.node_x[first], ground.node_y[first]
        dx, dy = goal_x - x, goal_y - y
        distance = F(math.sqrt(dx * dx + dy * dy))
        if distance <= TINY:
            continue
        ahead_x, ahead_y = dx / distance, dy / distance
        # A unit that follows a target does not slow down before its place, which moves with the target.
        speed = rules.speed[u] if t >= 0 else min(rules.speed[u], distance)
        # Of the neighbours, those that the look-ahead can touch.
        blocks = 0
        for i in range(w.crowd[u]):
            v = w.neighbours[u, i]
            rel_x, rel_y = b.x[v] - x, b.y[v] - y
            w.block_x[blocks] = rel_x
            w.block_y[blocks] = rel_y
            w.block_square[blocks] = w.near[u, v]
            if (u < rules.agents) != (v < rules.agents):
                w.block_load[blocks] = s.enemy_load
            else:
                w.block_load[blocks] = s.attacker_load if w.mode[v] == FIGHTING else s.friend_load
            reach = rules.separation[u] + rules.separation[v] + s.look_ahead + ROUNDING
            blocks += (rel_x * rel_x + rel_y * rel_y < reach * reach) & (v != t)
        best_score = F(-1e9)
        best = 0
        best_x, best_y = ahead_x, ahead_y
        for turn in range(HEADING_COS.shape[0]):
            bonus = s.side_bonus if turn > 0 and (turn % 2 == 1) == (b.side[u] > 0) else ZERO
            if HEADING_COS[turn] + bonus <= best_score:
                continue  # not even if nothing is in its way: loads only lower a score
            heading_x = ahead_x * HEADING_COS[turn] - ahead_y * HEADING_SIN[turn]
            heading_y = ahead_x * HEADING_SIN[turn] + ahead_y * HEADING_COS[turn]
            look_x, look_y = s.look_ahead * heading_x, s.look_ahead * heading_y
            load = ZERO
            for i in range(blocks):
                rel_x, rel_y = w.block_x[i], w.block_y[i]
                gap_x, gap_y = rel_x - look_x, rel_y - look_y
                ahead = rel_x * heading_x + rel_y * heading_y > ZERO
                touches = gap_x * gap_x + gap_y * gap_y < w.block_square[i]
                load += w.block_load[i] if ahead & touches else ZERO
            if turn > 0 and not walkable(ground.walkable, rules.layer[u], x + look_x, y + look_y):
                load += s.attacker_load
            score = HEADING_COS[turn] - load + bonus
            if score > best_score:
                best_score = score
                best = turn
                best_x, best_y = heading_x, heading_y
            if turn == 0 and load == ZERO:
                break
        if best > 0:
            b.side[u] = 1 if best % 2 == 1 else -1
        b.velocity_x[u] = speed * best_x
        b.velocity_y[u] = speed * best_y


@inlined
def move(rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, w: Work, pairs: int) -> None:
    """Move units by their velocities, push overlapping units apart (two passes), and keep all on walkable ground.

    Each pair is looked at once. As pairs are in ascending order, a unit's pushes are added in the order of the others.
    """
    units = rules.kind.shape[0]
    for u in range(units):
        x, y = b.x[u], b.y[u]
        if w.mode[u] == MOVING:
            x += b.velocity_x[u]
            y += b.velocity_y[u]
        # One that died since the neighbours were found pushes nobody.
        w.new_x[u] = x if b.alive[u] else NOWHERE
        w.new_y[u] = y
        w.mobility[u] = MOBILITIES[w.mode[u]]
    for _ in range(2):
        w.push_x[:] = ZERO
        w.push_y[:] = ZERO
        overlaps = False
        for i in range(pairs):
            u, v = w.pair_u[i], w.pair_v[i]
            dx, dy = w.new_x[u] - w.new_x[v], w.new_y[u] - w.new_y[v]
            square = dx * dx + dy * dy
            if square < w.pair_near[i]:
                overlaps = True
                distance = F(math.sqrt(square))
                overlap = rules.separation[u] + rules.separation[v]
                if distance <= TINY:
                    dx, dy, distance = ONE, ZERO, ONE
                else:
                    overlap -= distance
                push, mobilities = s.push * overlap, w.mobility[u] + w.mobility[v]
                share_u = push * w.mobility[u] / mobilities / distance
                share_v = push * w.mobility[v] / mobilities / distance
                w.push_x[u] += share_u * dx
                w.push_y[u] += share_u * dy
                w.push_x[v] -= share_v * dx
                w.push_y[v] -= share_v * dy
        if not overlaps:
            break
        for u in range(units):
            w.new_x[u] += w.push_x[u]
            w.new_y[u] += w.push_y[u]
    for u in range(units):
        if not b.alive[u]:
            continue
        x, y, layer = w.new_x[u], w.new_y[u], rules.layer[u]
        if walkable(ground.walkable, layer, x, y):
            b.x[u], b.y[u] = x, y
        elif walkable(ground.walkable, layer, x, b.y[u]):
            b.x[u] = x
        elif walkable(ground.walkable, layer, b.x[u], y):
            b.y[u] = y


@uncounted
def hit(rules: Rules, b: Battles, u: int, v: int) -> None:
    """One hit of u on v: first on the shield, the rest, reduced by armour, on health. An idle scripted v attacks u."""
    damage = rules.raw[u, v]
    absorbed = min(b.shield[v], damage)
    b.shield[v] -= absorbed
    damage -= absorbed
    if damage > ZERO:
        damage = min(max(damage - rules.armour[v], LEAST), b.health[v])
        b.health[v] -= damage
    b.lost[v] += absorbed + damage
    b.quiet[v] = 0
    if rules.scripted[v] and b.target[v] < 0:
        b.target[v] = u


@inlined
def strike(rules: Rules, b: Battles, dying: Array) -> None:
    """Apply the hits that are due, count the dead, and let dying banelings explode."""
    units = rules.kind.shape[0]
    for u in range(units):
        if b.strikes[u] == 0:
            continue
        if b.flight[u] > HALF:
            b.flight[u] -= ONE
        if b.flight[u] > HALF:
            continue
        v = b.victim[u]
        blow = rules.blow[u]
        if blow == BLAST:
            b.strikes[u] = 0
            if b.alive[u]:
                # A baneling attacks by dying; its blast follows below, as for every baneling that dies.
                b.lost[u] += b.health[u]
                b.health[u] = ZERO
        elif blow == BEAM:
            first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
            for w in range(first, last):
                if not b.alive[w]:
                    continue
                dx, dy = b.x[w] - b.x[v], b.y[w] - b.y[v]
                along = abs(dy * b.aim_x[u] - dx * b.aim_y[u])
                across = dx * b.aim_x[u] + dy * b.aim_y[u]
                beyond = max(along - rules.area[u], ZERO)
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
            if not b.alive[u] or not b.alive[v]:
                b.strikes[u] = 0
    again = True
    while again:
        again = False
        deaths = False
        for u in range(units):
            dying[u] = b.alive[u] and b.health[u] <= ZERO
            deaths |= dying[u]
        if not deaths:
            break
        for u in range(units):
            if dying[u]:
                b.alive[u] = False
                b.health[u] = ZERO
                b.windup[u] = ZERO
                b.cooldown[u] = ZERO
                b.target[u] = -1
                b.has_spot[u] = False
                b.fighting[u] = False
                b.velocity_x[u] = ZERO
                b.velocity_y[u] = ZERO
        for u in range(units):
            if dying[u] and rules.blow[u] == BLAST:
                again = True
                first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
                for w in range(first, last):
                    if not b.alive[w]:
                        continue
                    dx, dy = b.x[w] - b.x[u], b.y[w] - b.y[u]
                    reach = rules.area[u] + rules.radius[w]
                    if dx * dx + dy * dy <= reach * reach:
                        hit(rules, b, u, w)


@inlined
def recover(rules: Rules, b: Battles) -> None:
    """Cooldowns run down, zerg units heal, shields recover after ten seconds without damage."""
    for u in range(rules.kind.shape[0]):
        if not b.alive[u]:
            continue
        b.cooldown[u] = b.cooldown[u] - ONE if b.cooldown[u] > ZERO else ZERO
        b.quiet[u] += 1
        if rules.regeneration[u] > ZERO and b.health[u] < rules.max_health[u]:
            gain = min(rules.regeneration[u], rules.max_health[u] - b.health[u])
            b.health[u] += gain
            b.regained[u] += gain
        if b.shield[u] < rules.max_shield[u] and b.quiet[u] > SHIELD_QUIET:
            gain = min(SHIELD_GAIN, rules.max_shield[u] - b.shield[u])
            b.shield[u] += gain
            b.regained[u] += gain


class Shown(NamedTuple):
    """What agents and critics see, for all slots."""

    observation: Array  # [N, A, O]
    state: Array  # [N, A, S]
    available: Array  # [N, A, D]


class Result(NamedTuple):
    """The result of a step. The last three are valid where the episode ended with it."""

    reward: Array  # [N]
    ending: Array  # [N] 0 running, 1 won, 2 lost, 3 no unit left, 4 time limit, -1 frozen
    total: Array  # [N] return of the episode
    length: Array  # [N] its steps
    alive: Array  # [N, A] agents alive at its end


@uncounted
def show(rules: Rules, ground: Ground, encoding: Encoding, b: Battles, n: int, shown: Shown) -> None:
    """Write observations, states and legal actions of battle n."""
    write_available(encoding, b.x[n], b.y[n], b.alive[n], ground.pathing, shown.available[n])
    write_features(
        encoding,
        rules.kind,
        b.x[n],
        b.y[n],
        b.health[n],
        b.shield[n],
        b.cooldown[n],
        b.alive[n],
        b.last_action[n],
        shown.available[n],
        shown.observation[n],
        shown.state[n],
    )


@uncounted
def first_illegal(rules: Rules, b: Battles, start: int, stop: int, actions: Array, available: Array) -> int:
    """The first slot (not frozen) with an illegal action, or -1."""
    for n in range(start, stop):
        if b.running[n]:
            for a in range(rules.agents):
                action = actions[n, a]
                if action < 0 or action >= available.shape[2] or not available[n, a, action]:
                    return n
    return -1


@uncounted
def run_battles(
    what: int,
    start: int,
    stop: int,
    rules: Rules,
    ground: Ground,
    steering: SteeringNumbers,
    encoding: Encoding,
    b: Battles,
    actions: Array,
    auto_reset: bool,
    shown: Shown,
    final: Shown,
    result: Result,
    w: Work,
) -> None:
    """`run_slots`, given working memory and legal actions."""
    units = rules.kind.shape[0]
    for n in range(start, stop):
        begin = what == BEGIN
        if what == STEP:
            result.reward[n] = 0.0
            result.ending[n] = -1
            if not b.running[n]:
                continue
            for u in range(units):
                w.vitality[u] = float(b.health[n, u]) + float(b.shield[n, u])
                w.alive_before[u] = b.alive[n, u]
            one = one_battle(b, n)
            give_orders(rules, one, actions[n])
            pairs = 0
            for loop in range(LOOPS_PER_STEP):
                now = moment(one.seed[0], one.episode[0], one.tick[0])
                choose_targets(rules, ground, steering, one, w, now, one.tick[0] % RETARGET == 0)
                attack(rules, one, now, w.mode)
                # Neighbours and headings are computed every second loop: half the cost. Assumed to be accurate enough.
                if loop % 2 == 0:
                    pairs = find_neighbours(rules, one, w)
                    steer(rules, ground, steering, one, w)
                move(rules, ground, steering, one, w, pairs)
                strike(rules, one, w.dying)
                recover(rules, one)
                one.tick[0] += 1
            b.step[n] += 1
            reward, ending = settle(
                rules.best, rules.agents, w.vitality, one.health, one.shield, w.alive_before, one.alive
            )
            if ending == 0 and b.step[n] >= rules.limit:
                ending = 4
            result.reward[n] = reward
            result.ending[n] = ending
            b.total[n] += reward
            if ending > 0:
                result.total[n] = b.total[n]
                result.length[n] = b.step[n]
                show(rules, ground, encoding, b, n, final)
                for a in range(rules.agents):
                    result.alive[n, a] = b.alive[n, a]
                b.running[n] = False
                if auto_reset:
                    b.episode[n] += 1
                    begin = True
        if begin:
            reset_battle(rules, b, n)
        show(rules, ground, encoding, b, n, shown)


@compiled
def run_slots(
    what: int,
    start: int,
    stop: int,
    rules: Rules,
    ground: Ground,
    steering: SteeringNumbers,
    encoding: Encoding,
    b: Battles,
    actions: Array,
    auto_reset: bool,
    shown: Shown,
    final: Shown,
    result: Result,
) -> int:
    """STEP, BEGIN (start the episodes) or SHOW (write what agents see) for slots start … stop.

    One kernel for all three, so that only one has to be compiled. Returns `first_illegal`: unless that is -1, nothing
    was done.
    """
    if what == STEP:
        faulty = first_illegal(rules, b, start, stop, actions, shown.available)
        if faulty >= 0:
            return faulty
    w = make_work(rules, steering)
    run_battles(what, start, stop, rules, ground, steering, encoding, b, actions, auto_reset, shown, final, result, w)
    return -1


@in_parallel
def run_ranges(
    what: int,
    bounds: Array,
    rules: Rules,
    ground: Ground,
    steering: SteeringNumbers,
    encoding: Encoding,
    b: Battles,
    actions: Array,
    auto_reset: bool,
    shown: Shown,
    final: Shown,
    result: Result,
) -> int:
    """`run_slots` on ranges of slots, a thread each; range i is bounds[i] … bounds[i + 1]. Nothing is done if any
    action is illegal.

    All arguments are listed again, because prange cannot pass a tuple of tuples to its threads.
    """
    if what == STEP:
        faulty = first_illegal(rules, b, bounds[0], bounds[-1], actions, shown.available)
        if faulty >= 0:
            return faulty
    for i in prange(len(bounds) - 1):
        run_slots(
            what,
            bounds[i],
            bounds[i + 1],
            rules,
            ground,
            steering,
            encoding,
            b,
            actions,
            auto_reset,
            shown,
            final,
            result,
        )
    return -1
