"""Whom units attack, and where melee units stand: orders of agents, choice of targets, free places.

Here and in all that the kernel calls: `game` are the numbers of a scenario; of arrays of records indexed by unit,
`rules` is what does not change, `b` the battle's state and `w` working memory (see `records.py`).
"""

from __future__ import annotations

import math

import numpy as np

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.intrinsics import LANES, lowest, within
from fp3o.envs.native.ranges import Record, Records
from fp3o.envs.smac.battle import DIRECT
from fp3o.envs.smac.chance import shuffle
from fp3o.envs.smac.constants import (
    CHASING,
    FOLLOW,
    FREE,
    HUGE,
    NOWHERE,
    PLACE_ANGLE,
    PLACE_COS,
    PLACE_SIN,
    RETURNING,
    ROUNDING,
    SNUG,
    SPOT_RANGE,
    STICKINESS,
    TINY,
    TWO,
    ZERO,
    F,
)
from fp3o.envs.smac.layouts import ATTACK, MAP_SIZE, NORTH, WEST, Array, move_goal
from fp3o.envs.smac.records import Blocks, Limits, Points


@inner
def striking(rule: Record, unit: Record) -> bool:
    """Whether a unit is between two hits of an attack: it stands still (catalogue: PsiBladesBurst is channeled)."""
    return bool(unit.strikes > 0 and rule.blow == DIRECT)


@inner
def break_off(rule: Record, unit: Record) -> None:
    """Cancel an attack whose hit, or second hit, has not landed yet."""
    unit.has_spot = False
    if unit.windup > ZERO:
        unit.windup = ZERO
        unit.cooldown = ZERO
    if striking(rule, unit):
        unit.strikes = 0


@inner
def give_orders(game: Record, rules: Records, b: Records, actions: Array) -> None:
    """Set targets and goals from the agents' actions; a new order cancels an attack that has not hit yet."""
    for a in range(game.agents):
        action, unit = actions[a], b[a]
        unit.last_action = action
        if not unit.alive or rules[a].scripted:
            continue
        target = -1
        unit.moving = False
        if action >= ATTACK:
            target = game.agents + action - ATTACK
        elif NORTH <= action <= WEST:
            unit.moving = True
            goal_x, goal_y = move_goal(action, float(unit.x), float(unit.y))
            unit.goal_x = F(goal_x)
            unit.goal_y = F(goal_y)
        if target != unit.target:
            break_off(rules[a], unit)
        unit.target = target


@inner
def walkable(planes: Array, layer: int, x: np.float32, y: np.float32) -> bool:
    """Whether a unit's centre may be at (x, y)."""
    column, row = TWO * x, TWO * y
    if not (ZERO <= column < F(2 * MAP_SIZE) and ZERO <= row < F(2 * MAP_SIZE)):
        return False
    return bool(planes[layer, np.uint32(column), np.uint32(row)])


@inner
def mark_own(b: Records, u: int, side: int, places: Points) -> None:
    """Where u stands and fights, or is about to; NOWHERE if it is dead or just walks."""
    unit = b[u]
    x, y = NOWHERE, NOWHERE
    if unit.alive and unit.fighting:
        x, y = unit.x, unit.y
    elif unit.alive and unit.has_spot:
        target = b[unit.target]
        x, y = target.x + unit.spot_x, target.y + unit.spot_y
    places.x[side, u] = x
    places.y[side, u] = y


@inner
def mark_places(game: Record, b: Records, places: Points) -> None:
    """Places that units of each side find taken: by enemies where they are, by friends where they fight or will."""
    for u in range(b.shape[0]):
        friends = 0 if u < game.agents else 1
        mark_own(b, u, friends, places)
        places.x[1 - friends, u] = b[u].x if b[u].alive else NOWHERE
        places.y[1 - friends, u] = b[u].y


@inner
def find_spot(
    game: Record,
    rules: Records,
    limits: Limits,
    planes: Array,
    b: Records,
    taken: Points,
    blocks: Blocks,
    u: int,
    v: int,
) -> tuple[np.float32, np.float32, np.float32]:
    """The nearest free place beside v from which u can hit v: its cost in cells (HUGE if there is none), x and y
    relative to v. taken: places that u finds taken."""
    centre_x, centre_y = b[v].x, b[v].y
    dx, dy = b[u].x - centre_x, b[u].y - centre_y
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = SNUG * (rules[u].reach + rules[u].radius + rules[v].radius)
    near = beside + rules[u].spread
    count = 0
    for start in range(0, taken.x.shape[0], LANES):
        bits = within(taken.x, taken.y, start, centre_x, centre_y, near * near)
        while bits != 0:
            other = lowest(start, bits)
            bits &= bits - 1
            blocks.x[count] = taken.x[other] - centre_x
            blocks.y[count] = taken.y[other] - centre_y
            blocks.square[count] = limits.taken[rules[u].group, other]
            count += other != v
    blocks.x[count : count + LANES] = NOWHERE
    scale = beside / distance
    dx *= scale
    dy *= scale
    best, best_x, best_y = HUGE, ZERO, ZERO
    for place in range(PLACE_COS.shape[0]):
        cost = distance - beside + game.detour * beside * PLACE_ANGLE[place]
        if cost >= best:
            continue
        x = dx * PLACE_COS[place] - dy * PLACE_SIN[place]
        y = dx * PLACE_SIN[place] + dy * PLACE_COS[place]
        free = walkable(planes, rules[u].layer, centre_x + x, centre_y + y)
        for start in range(0, count, LANES):
            free &= within(blocks.x, blocks.y, start, x, y, blocks.square) == 0
        if free:
            best, best_x, best_y = cost, x, y
    return best, best_x, best_y


@inner
def acquire(unit: Record, attacker: int) -> None:
    """Attack whoever has hit the unit or a friend, however far away, and remember where that began."""
    unit.target = attacker
    if unit.chase != CHASING:
        unit.chase = CHASING
        unit.post_x = unit.x
        unit.post_y = unit.y


@inner
def mind_leash(game: Record, rule: Record, unit: Record) -> None:
    """End a chase that has gone beyond the leash, and the walk back once the unit is near its post again."""
    dx, dy = unit.x - unit.post_x, unit.y - unit.post_y
    away = dx * dx + dy * dy
    if unit.chase == RETURNING:
        if away <= game.leash_reset * game.leash_reset:
            unit.chase = FREE
    elif unit.target < 0:
        unit.chase = FREE
    elif away > game.leash * game.leash and unit.windup <= ZERO and not striking(rule, unit):
        unit.chase = RETURNING
        unit.target = -1
        unit.has_spot = False


@inner
def choose_targets(
    game: Record,
    rules: Records,
    limits: Limits,
    planes: Array,
    b: Records,
    w: Records,
    places: Points,
    blocks: Blocks,
    now: np.uint64,
    looks: bool,
) -> None:
    """Targets of scripted units as by the game's attack-move: the nearest enemy in scan range, until it dies or
    escapes; an attacker that is chased escapes only by the leash.

    For melee units the distance is the way to a free place beside the target, which they then occupy. Units of agents
    look for such a place beside the target that their action names.
    """
    units, agents = b.shape[0], game.agents
    searching = looks
    for u in range(units):
        unit = b[u]
        if unit.target >= 0 and not b[unit.target].alive:
            unit.target = -1
            break_off(rules[u], unit)
        if unit.chase != FREE:
            mind_leash(game, rules[u], unit)
        if unit.target < 0 and rules[u].scripted and unit.alive:
            searching = True
    if not searching:
        return
    if looks:
        shuffle(now, w)
    marked = False
    for turn in range(units):
        u = w[turn].order
        unit, rule = b[u], rules[u]
        t = unit.target
        if not unit.alive or (t < 0 and not rule.scripted):
            continue
        side = 0 if u < agents else 1
        best, best_score, spot_x, spot_y = t, HUGE, unit.spot_x, unit.spot_y
        has_spot = False
        first, last = (agents, units) if u < agents else (0, agents)
        if t >= 0:
            if not looks or unit.windup > ZERO or striking(rule, unit):
                continue
            dx, dy = b[t].x - unit.x, b[t].y - unit.y
            gap = F(math.sqrt(dx * dx + dy * dy)) - rule.radius - rules[t].radius
            if gap <= rule.reach or not (rule.scripted or rule.melee):
                first = last
            elif not rule.scripted:
                first, last = t, t + 1
        unit.has_spot = False
        if first < last:
            best, spot_x, spot_y = -1, ZERO, ZERO
        for v in range(first, last):
            if not b[v].alive:
                continue
            dx, dy = b[v].x - unit.x, b[v].y - unit.y
            radius = rules[v].radius
            if v != t:  # rule out without a root what is out of scan range, or further away than the best so far
                far = max(min(rule.scan, best_score) + rule.radius + radius + ROUNDING, ZERO)
                if dx * dx + dy * dy > far * far:
                    continue
            gap = F(math.sqrt(dx * dx + dy * dy)) - rule.radius - radius
            lost = v != t or (gap > rule.scan + FOLLOW and unit.chase != CHASING)
            if rule.scripted and gap > rule.scan and lost:
                continue
            score = gap
            if v == t:
                score -= STICKINESS
            if score >= best_score:
                continue
            x, y = ZERO, ZERO
            free = False
            if rule.melee and gap < SPOT_RANGE:
                if not marked:
                    mark_places(game, b, places)
                    marked = True
                places.x[side, u] = NOWHERE  # a unit is not in its own way
                taken = Points(places.x[side], places.y[side])
                cost, x, y = find_spot(game, rules, limits, planes, b, taken, blocks, u, v)
                free = bool(cost < HUGE)
                score += cost - gap if free else game.no_place
            if score < best_score:
                best, best_score, has_spot, spot_x, spot_y = v, score, free, x, y
        unit.target = best
        if best != t and unit.chase == CHASING:
            unit.chase = FREE
        unit.has_spot = has_spot
        unit.spot_x = spot_x
        unit.spot_y = spot_y
        if marked:
            mark_own(b, u, side, places)
