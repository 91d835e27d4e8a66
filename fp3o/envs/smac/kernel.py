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

from fp3o.envs.compiled import compiled, in_parallel, inlined
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


@compiled
def scramble(h: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64, a hash: every bit of the input changes every bit of the output."""
    h = (h ^ (h >> np.uint64(30))) * MIX_1
    h = (h ^ (h >> np.uint64(27))) * MIX_2
    return h ^ (h >> np.uint64(31))


@compiled
def uniform(seed: np.uint64, episode: int, tick: int, unit: int, purpose: int) -> np.float32:
    """A random number in [0, 1) that is a hash of the arguments, so that there is no generator state to save."""
    place = (np.uint64(episode) << np.uint64(32)) ^ np.uint64(tick)
    use = (np.uint64(unit) << np.uint64(8)) ^ np.uint64(purpose)
    h = scramble(scramble(scramble(seed + GOLDEN_RATIO) ^ place) + use * GOLDEN_RATIO)
    return F(h >> np.uint64(40)) * F(1.0 / 16777216.0)


@compiled
def reset_battle(rules: Rules, b: Battles, n: int) -> None:
    """Start battle n's current episode: both armies at their start positions, allies sorted by type, x, y."""
    units = rules.kind.shape[0]
    seed, episode = b.seed[n], b.episode[n]
    b.tick[n] = 0
    b.step[n] = 0
    b.running[n] = True
    b.total[n] = 0.0
    for u in range(units):
        right = TWO * uniform(seed, episode, 0, u, PURPOSE_SPAWN_X) - ONE
        up = TWO * uniform(seed, episode, 0, u, PURPOSE_SPAWN_Y) - ONE
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
        b.side[n, u] = 1 if uniform(seed, episode, 0, u, PURPOSE_SIDE) < HALF else -1
        b.alive[n, u] = True
    for a in range(rules.agents):
        b.last_action[n, a] = -1
        b.goal_x[n, a] = ZERO
        b.goal_y[n, a] = ZERO
        b.moving[n, a] = False


@compiled
def striking(blow: int, strikes: int) -> bool:
    """Whether a unit is between the two hits of an attack; it stands still then (catalogue: PsiBladesBurst is
    channeled)."""
    return strikes > 0 and blow == DIRECT


@compiled
def break_off(rules: Rules, b: Battles, n: int, u: int) -> None:
    """Cancel an attack whose hit, or second hit, has not landed yet."""
    b.has_spot[n, u] = False
    if b.windup[n, u] > ZERO:
        b.windup[n, u] = ZERO
        b.cooldown[n, u] = ZERO
    if striking(rules.blow[u], b.strikes[n, u]):
        b.strikes[n, u] = 0


@inlined
def give_orders(rules: Rules, b: Battles, n: int, actions: Array) -> None:
    """Set targets and goals from the agents' actions; a new order cancels an attack that has not hit yet."""
    for a in range(rules.agents):
        action = actions[a]
        b.last_action[n, a] = action
        if not b.alive[n, a] or rules.scripted[a]:
            continue
        target = -1
        b.moving[n, a] = False
        if action >= ATTACK:
            target = rules.agents + action - ATTACK
        elif NORTH <= action <= WEST:
            b.moving[n, a] = True
            goal_x, goal_y = move_goal(action, float(b.x[n, a]), float(b.y[n, a]))
            b.goal_x[n, a] = F(goal_x)
            b.goal_y[n, a] = F(goal_y)
        if target != b.target[n, a]:
            break_off(rules, b, n, a)
        b.target[n, a] = target


@compiled
def length(dx: np.float32, dy: np.float32) -> np.float32:
    """Length of a vector. Takes numbers, as small functions do: passing all arrays would cost more than their work."""
    return F(math.sqrt(dx * dx + dy * dy))


@compiled
def walkable(planes: Array, layer: int, x: np.float32, y: np.float32) -> bool:
    """Whether a unit's centre may be at (x, y)."""
    column, row = math.floor(TWO * x), math.floor(TWO * y)
    if column < 0 or row < 0 or column >= 2 * MAP_SIZE or row >= 2 * MAP_SIZE:
        return False
    return bool(planes[layer, column, row])


@inlined
def find_spot(
    rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, n: int, u: int, v: int, obstacles: Array
) -> tuple[np.float32, np.float32, np.float32]:
    """The nearest free place beside v from which u can hit v: its cost in cells (HUGE if there is none), x and y
    relative to v."""
    units = rules.kind.shape[0]
    dx, dy = b.x[n, u] - b.x[n, v], b.y[n, u] - b.y[n, v]
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = SNUG * (rules.reach[u] + rules.radius[u] + rules.radius[v])
    near = beside + TWO
    obstacle_count = 0
    for w in range(units):
        if w in (u, v) or not b.alive[n, w] or rules.layer[w] != rules.layer[u]:
            continue
        foe = (w < rules.agents) != (u < rules.agents)
        if b.fighting[n, w] or foe:
            x, y = b.x[n, w], b.y[n, w]
        elif b.has_spot[n, w]:
            goes_to = b.target[n, w]
            x, y = b.x[n, goes_to] + b.spot_x[n, w], b.y[n, goes_to] + b.spot_y[n, w]
        else:
            continue
        x -= b.x[n, v]
        y -= b.y[n, v]
        if x * x + y * y < near * near:
            obstacles[0, obstacle_count] = x
            obstacles[1, obstacle_count] = y
            obstacles[2, obstacle_count] = s.occupied * (rules.separation[u] + rules.separation[w])
            obstacle_count += 1
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
        free = walkable(ground.walkable, rules.layer[u], b.x[n, v] + x, b.y[n, v] + y)
        for i in range(obstacle_count):
            gap_x, gap_y = x - obstacles[0, i], y - obstacles[1, i]
            if gap_x * gap_x + gap_y * gap_y < obstacles[2, i] * obstacles[2, i]:
                free = False
                break
        if free:
            best, best_x, best_y = cost, x, y
    return best, best_x, best_y


@compiled
def shuffle(b: Battles, n: int, order: Array) -> None:
    """A random order of units for choosing targets: the first ones get the best free places, which must favour no
    side."""
    for u in range(order.shape[0]):
        order[u] = u
    for last in range(order.shape[0] - 1, 0, -1):
        draw = uniform(b.seed[n], b.episode[n], b.tick[n], last, PURPOSE_ORDER)
        other = int(draw * F(last + 1))
        order[last], order[other] = order[other], order[last]


@inlined
def choose_targets(
    rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, n: int, order: Array, obstacles: Array
) -> None:
    """Targets of scripted units as by the game's attack-move: the nearest enemy in scan range, until it dies or
    escapes.

    For melee units the distance is the way to a free place beside the target, which they then occupy. Units of agents
    look for such a place beside the target that their action names.
    """
    units = rules.kind.shape[0]
    for u in range(units):
        t = b.target[n, u]
        if t >= 0 and not b.alive[n, t]:
            b.target[n, u] = -1
            break_off(rules, b, n, u)
    looks = b.tick[n] % RETARGET == 0
    if looks:
        shuffle(b, n, order)
    for u in order:
        t = b.target[n, u]
        if not b.alive[n, u] or (t < 0 and not rules.scripted[u]):
            continue
        if t >= 0:
            if not looks or b.windup[n, u] > ZERO or striking(rules.blow[u], b.strikes[n, u]):
                continue
            gap = length(b.x[n, t] - b.x[n, u], b.y[n, t] - b.y[n, u]) - rules.radius[u] - rules.radius[t]
            if gap <= rules.reach[u] or not (rules.scripted[u] or rules.melee[u]):
                b.has_spot[n, u] = False
                continue
        best, best_score, spot_x, spot_y = -1, HUGE, ZERO, ZERO
        has_spot = False
        first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
        if not rules.scripted[u]:
            first, last = t, t + 1
        b.has_spot[n, u] = False
        for v in range(first, last):
            if not b.alive[n, v]:
                continue
            gap = length(b.x[n, v] - b.x[n, u], b.y[n, v] - b.y[n, u]) - rules.radius[u] - rules.radius[v]
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
                cost, x, y = find_spot(rules, ground, s, b, n, u, v, obstacles)
                free = bool(cost < HUGE)
                score += cost - gap if free else s.no_place
            if score < best_score:
                best, best_score, has_spot, spot_x, spot_y = v, score, free, x, y
        b.target[n, u] = best
        b.has_spot[n, u] = has_spot
        b.spot_x[n, u] = spot_x
        b.spot_y[n, u] = spot_y


@inlined
def attack(rules: Rules, b: Battles, n: int, mode: Array) -> None:
    """Wind-ups, cooldowns and shots; sets `mode` to FIGHTING for units in range of their target."""
    for u in range(rules.kind.shape[0]):
        mode[u] = IDLE
        b.fighting[n, u] = False
        if not b.alive[n, u]:
            continue
        t = b.target[n, u]
        if t < 0:
            if rules.scripted[u]:
                dx, dy = rules.order_x[u] - b.x[n, u], rules.order_y[u] - b.y[n, u]
                if dx * dx + dy * dy > ARRIVED * ARRIVED:
                    mode[u] = MOVING
            elif b.moving[n, u]:
                mode[u] = MOVING
            continue
        if striking(rules.blow[u], b.strikes[n, u]):
            mode[u] = FIGHTING
            b.fighting[n, u] = True
            continue
        mode[u] = MOVING
        dx, dy = b.x[n, t] - b.x[n, u], b.y[n, t] - b.y[n, u]
        distance = F(math.sqrt(dx * dx + dy * dy))
        reach = rules.reach[u] + rules.radius[u] + rules.radius[t]
        fires = False
        if b.windup[n, u] > ZERO:
            if distance > reach + rules.slop[u]:
                b.windup[n, u] = ZERO
                b.cooldown[n, u] = ZERO
                continue
            mode[u] = FIGHTING
            b.fighting[n, u] = True
            b.windup[n, u] -= ONE
            if b.windup[n, u] <= HALF:  # times are rounded to the nearest loop
                b.windup[n, u] = ZERO
                fires = True
        elif distance <= reach:
            mode[u] = FIGHTING
            b.fighting[n, u] = True
            if b.cooldown[n, u] <= ZERO:
                # The fraction of a loop by which the cooldown ended early is carried over: the mean period stays exact.
                draw = uniform(b.seed[n], b.episode[n], b.tick[n], u, PURPOSE_COOLDOWN)
                b.cooldown[n, u] += rules.period[u] + rules.noise_low + rules.noise_span * draw
                if rules.damage_point[u] > ZERO:
                    b.windup[n, u] = rules.damage_point[u]
                else:
                    fires = True
        if not fires:
            continue
        b.victim[n, u] = t
        b.strikes[n, u] = rules.hits[u]
        b.flight[n, u] = ZERO
        if rules.blow[u] == MISSILE:
            b.flight[n, u] = ONE + distance / rules.missile_speed[u]
        elif rules.blow[u] == BEAM:
            b.flight[n, u] = ONE + rules.delay[u]
            scale = ONE / max(distance, TINY)
            b.aim_x[n, u] = dx * scale
            b.aim_y[n, u] = dy * scale


@inlined
def find_neighbours(rules: Rules, b: Battles, n: int, neighbours: Array, count: Array) -> None:
    """For every unit, the units near enough to collide with it during the next two loops."""
    units = rules.kind.shape[0]
    count[:] = 0
    for u in range(units):
        if not b.alive[n, u]:
            continue
        x, y = b.x[n, u], b.y[n, u]
        for v in range(u + 1, units):
            dx, dy = b.x[n, v] - x, b.y[n, v] - y
            near = rules.separation[u] + rules.separation[v] + NEIGHBOUR_MARGIN
            if dx * dx + dy * dy < near * near and b.alive[n, v] and rules.layer[u] == rules.layer[v]:
                neighbours[u, count[u]] = v
                neighbours[v, count[v]] = u
                count[u] += 1
                count[v] += 1


@inlined
def toward_spot(rules: Rules, b: Battles, n: int, u: int, t: int) -> tuple[np.float32, np.float32]:
    """Where unit u walks to reach its place beside t: straight there if it is on the near side, else around t."""
    dx, dy = b.x[n, u] - b.x[n, t], b.y[n, u] - b.y[n, t]
    spot_x, spot_y = b.spot_x[n, u], b.spot_y[n, u]
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = max(F(math.sqrt(spot_x * spot_x + spot_y * spot_y)), TINY)
    if dx * spot_x + dy * spot_y >= AROUND_COS * distance * beside:
        return b.x[n, t] + spot_x, b.y[n, t] + spot_y
    scale = max(distance, beside + ORBIT) / distance
    sine = AROUND_SIN if dx * spot_y - dy * spot_x >= ZERO else -AROUND_SIN
    x = scale * (dx * AROUND_COS - dy * sine)
    y = scale * (dx * sine + dy * AROUND_COS)
    return b.x[n, t] + x, b.y[n, t] + y


@inlined
def steer(
    rules: Rules, ground: Ground, s: SteeringNumbers, b: Battles, n: int, mode: Array, neighbours: Array, count: Array
) -> None:
    """Velocities of the units that walk: straight ahead if that is free, else by the best of nine headings."""
    for u in range(rules.kind.shape[0]):
        b.velocity_x[n, u] = ZERO
        b.velocity_y[n, u] = ZERO
        if mode[u] != MOVING:
            continue
        x, y, t = b.x[n, u], b.y[n, u], b.target[n, u]
        if t >= 0 and b.has_spot[n, u]:
            goal_x, goal_y = toward_spot(rules, b, n, u, t)
        elif t >= 0:
            goal_x, goal_y = b.x[n, t], b.y[n, t]
        elif rules.scripted[u]:
            goal_x, goal_y = rules.order_x[u], rules.order_y[u]
        else:
            goal_x, goal_y = b.goal_x[n, u], b.goal_y[n, u]
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
        best_score = F(-1e9)
        best = 0
        best_x, best_y = ahead_x, ahead_y
        for turn in range(HEADING_COS.shape[0]):
            heading_x = ahead_x * HEADING_COS[turn] - ahead_y * HEADING_SIN[turn]
            heading_y = ahead_x * HEADING_SIN[turn] + ahead_y * HEADING_COS[turn]
            look_x, look_y = s.look_ahead * heading_x, s.look_ahead * heading_y
            load = ZERO
            for i in range(count[u]):
                v = neighbours[u, i]
                if v == t or not b.alive[n, v]:
                    continue
                rel_x, rel_y = b.x[n, v] - x, b.y[n, v] - y
                if rel_x * heading_x + rel_y * heading_y <= ZERO:
                    continue
                gap_x, gap_y = rel_x - look_x, rel_y - look_y
                near = rules.separation[u] + rules.separation[v]
                if gap_x * gap_x + gap_y * gap_y < near * near:
                    if (u < rules.agents) != (v < rules.agents):
                        load += s.enemy_load
                    elif mode[v] == FIGHTING:
                        load += s.attacker_load
                    else:
                        load += s.friend_load
            if turn > 0 and not walkable(ground.walkable, rules.layer[u], x + look_x, y + look_y):
                load += s.attacker_load
            score = HEADING_COS[turn] - load
            if turn > 0 and (turn % 2 == 1) == (b.side[n, u] > 0):
                score += s.side_bonus
            if score > best_score:
                best_score = score
                best = turn
                best_x, best_y = heading_x, heading_y
            if turn == 0 and load == ZERO:
                break
        if best > 0:
            b.side[n, u] = 1 if best % 2 == 1 else -1
        b.velocity_x[n, u] = speed * best_x
        b.velocity_y[n, u] = speed * best_y


@inlined
def move(
    rules: Rules,
    ground: Ground,
    s: SteeringNumbers,
    b: Battles,
    n: int,
    mode: Array,
    neighbours: Array,
    count: Array,
    new_x: Array,
    new_y: Array,
    mobility: Array,
) -> None:
    """Move units by their velocities, push overlapping units apart (two passes), and keep all on walkable ground."""
    units = rules.kind.shape[0]
    for u in range(units):
        new_x[0, u], new_y[0, u] = b.x[n, u], b.y[n, u]
        mobility[u] = MOBILITIES[mode[u]]
        if mode[u] == MOVING:
            new_x[0, u] += b.velocity_x[n, u]
            new_y[0, u] += b.velocity_y[n, u]
    for source in range(2):
        result = 1 - source
        for u in range(units):
            x, y = new_x[source, u], new_y[source, u]
            push_x, push_y = ZERO, ZERO
            for i in range(count[u]):
                v = neighbours[u, i]
                if not b.alive[n, v] or not b.alive[n, u]:
                    continue
                dx, dy = x - new_x[source, v], y - new_y[source, v]
                near = rules.separation[u] + rules.separation[v]
                square = dx * dx + dy * dy
                if square < near * near:
                    distance = F(math.sqrt(square))
                    if distance <= TINY:
                        dx, dy, distance = (ONE if u < v else -ONE), ZERO, ONE
                        overlap = near
                    else:
                        overlap = near - distance
                    share = s.push * overlap * mobility[u] / (mobility[u] + mobility[v]) / distance
                    push_x += share * dx
                    push_y += share * dy
            new_x[result, u] = x + push_x
            new_y[result, u] = y + push_y
    for u in range(units):
        if not b.alive[n, u]:
            continue
        x, y, layer = new_x[0, u], new_y[0, u], rules.layer[u]
        if walkable(ground.walkable, layer, x, y):
            b.x[n, u], b.y[n, u] = x, y
        elif walkable(ground.walkable, layer, x, b.y[n, u]):
            b.x[n, u] = x
        elif walkable(ground.walkable, layer, b.x[n, u], y):
            b.y[n, u] = y


@compiled
def hit(rules: Rules, b: Battles, n: int, u: int, v: int) -> None:
    """One hit of u on v: first on the shield, the rest, reduced by armour, on health. An idle scripted v attacks u."""
    damage = rules.raw[u, v]
    absorbed = min(b.shield[n, v], damage)
    b.shield[n, v] -= absorbed
    damage -= absorbed
    if damage > ZERO:
        damage = min(max(damage - rules.armour[v], LEAST), b.health[n, v])
        b.health[n, v] -= damage
    b.lost[n, v] += absorbed + damage
    b.quiet[n, v] = 0
    if rules.scripted[v] and b.target[n, v] < 0:
        b.target[n, v] = u


@inlined
def strike(rules: Rules, b: Battles, n: int, dying: Array) -> None:
    """Apply the hits that are due, count the dead, and let dying banelings explode."""
    units = rules.kind.shape[0]
    for u in range(units):
        if b.strikes[n, u] == 0:
            continue
        if b.flight[n, u] > HALF:
            b.flight[n, u] -= ONE
        if b.flight[n, u] > HALF:
            continue
        v = b.victim[n, u]
        blow = rules.blow[u]
        if blow == BLAST:
            b.strikes[n, u] = 0
            if b.alive[n, u]:
                # A baneling attacks by dying; its blast follows below, as for every baneling that dies.
                b.lost[n, u] += b.health[n, u]
                b.health[n, u] = ZERO
        elif blow == BEAM:
            first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
            for w in range(first, last):
                if not b.alive[n, w]:
                    continue
                dx, dy = b.x[n, w] - b.x[n, v], b.y[n, w] - b.y[n, v]
                along = abs(dy * b.aim_x[n, u] - dx * b.aim_y[n, u])
                across = dx * b.aim_x[n, u] + dy * b.aim_y[n, u]
                beyond = max(along - rules.area[u], ZERO)
                touch = rules.area_margin[u] + rules.radius[w]
                if beyond * beyond + across * across <= touch * touch:
                    for _ in range(b.strikes[n, u]):
                        hit(rules, b, n, u, w)
            b.strikes[n, u] = 0
        else:
            b.strikes[n, u] -= 1
            b.flight[n, u] = rules.delay[u]
            if b.alive[n, v] and (blow == MISSILE or b.alive[n, u]):
                hit(rules, b, n, u, v)
            if not b.alive[n, u] or not b.alive[n, v]:
                b.strikes[n, u] = 0
    again = True
    while again:
        again = False
        for u in range(units):
            dying[u] = b.alive[n, u] and b.health[n, u] <= ZERO
        for u in range(units):
            if dying[u]:
                b.alive[n, u] = False
                b.health[n, u] = ZERO
                b.windup[n, u] = ZERO
                b.cooldown[n, u] = ZERO
                b.target[n, u] = -1
                b.has_spot[n, u] = False
                b.fighting[n, u] = False
                b.velocity_x[n, u] = ZERO
                b.velocity_y[n, u] = ZERO
        for u in range(units):
            if dying[u] and rules.blow[u] == BLAST:
                again = True
                first, last = (rules.agents, units) if u < rules.agents else (0, rules.agents)
                for w in range(first, last):
                    if not b.alive[n, w]:
                        continue
                    dx, dy = b.x[n, w] - b.x[n, u], b.y[n, w] - b.y[n, u]
                    reach = rules.area[u] + rules.radius[w]
                    if dx * dx + dy * dy <= reach * reach:
                        hit(rules, b, n, u, w)


@inlined
def recover(rules: Rules, b: Battles, n: int) -> None:
    """Cooldowns run down, zerg units heal, shields recover after ten seconds without damage."""
    for u in range(rules.kind.shape[0]):
        if not b.alive[n, u]:
            continue
        b.cooldown[n, u] = b.cooldown[n, u] - ONE if b.cooldown[n, u] > ZERO else ZERO
        b.quiet[n, u] += 1
        if rules.regeneration[u] > ZERO and b.health[n, u] < rules.max_health[u]:
            gain = min(rules.regeneration[u], rules.max_health[u] - b.health[n, u])
            b.health[n, u] += gain
            b.regained[n, u] += gain
        if b.shield[n, u] < rules.max_shield[u] and b.quiet[n, u] > SHIELD_QUIET:
            gain = min(SHIELD_GAIN, rules.max_shield[u] - b.shield[n, u])
            b.shield[n, u] += gain
            b.regained[n, u] += gain


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


@compiled
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


@compiled
def first_illegal(rules: Rules, b: Battles, start: int, stop: int, actions: Array, available: Array) -> int:
    """The first slot (not frozen) with an illegal action, or -1."""
    for n in range(start, stop):
        if b.running[n]:
            for a in range(rules.agents):
                action = actions[n, a]
                if action < 0 or action >= available.shape[2] or not available[n, a, action]:
                    return n
    return -1


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
    units = rules.kind.shape[0]
    if what == STEP:
        faulty = first_illegal(rules, b, start, stop, actions, shown.available)
        if faulty >= 0:
            return faulty
    order = np.zeros(units, np.int64)
    obstacles = np.zeros((3, units), np.float32)
    mode = np.zeros(units, np.int8)
    neighbours = np.zeros((units, units), np.int16)
    count = np.zeros(units, np.int32)
    new_x, new_y = np.zeros((2, units), np.float32), np.zeros((2, units), np.float32)
    mobility = np.zeros(units, np.float32)
    dying = np.zeros(units, np.bool_)
    vitality = np.zeros(units, np.float64)
    alive_before = np.zeros(units, np.bool_)
    for n in range(start, stop):
        begin = what == BEGIN
        if what == STEP:
            result.reward[n] = 0.0
            result.ending[n] = -1
            if not b.running[n]:
                continue
            for u in range(units):
                vitality[u] = float(b.health[n, u]) + float(b.shield[n, u])
                alive_before[u] = b.alive[n, u]
            give_orders(rules, b, n, actions[n])
            for loop in range(LOOPS_PER_STEP):
                choose_targets(rules, ground, steering, b, n, order, obstacles)
                attack(rules, b, n, mode)
                # Neighbours and headings are computed every second loop: half the cost. Assumed to be accurate enough.
                if loop % 2 == 0:
                    find_neighbours(rules, b, n, neighbours, count)
                    steer(rules, ground, steering, b, n, mode, neighbours, count)
                move(rules, ground, steering, b, n, mode, neighbours, count, new_x, new_y, mobility)
                strike(rules, b, n, dying)
                recover(rules, b, n)
                b.tick[n] += 1
            b.step[n] += 1
            reward, ending = settle(
                rules.best, rules.agents, vitality, b.health[n], b.shield[n], alive_before, b.alive[n]
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
