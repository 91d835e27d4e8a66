"""How units walk: neighbours, headings around them, motion, separation, walls."""

from __future__ import annotations

import math

import numpy as np

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.intrinsics import LANES, lowest, within
from fp3o.envs.native.ranges import Record, Records
from fp3o.envs.smac.constants import (
    AROUND_COS,
    AROUND_SIN,
    FIGHTING,
    HEADING_COS,
    HEADING_SIN,
    MOBILITIES,
    MOVING,
    NOWHERE,
    ONE,
    ORBIT,
    RETURNING,
    TINY,
    ZERO,
    F,
)
from fp3o.envs.smac.layouts import MAP_SIZE, Array
from fp3o.envs.smac.records import Blocks, Limits, Points
from fp3o.envs.smac.targets import walkable
from fp3o.envs.smac.terrain import Ground


@inner
def find_neighbours(rules: Records, limits: Limits, b: Records, here: Points, pairs: Records) -> int:
    """Where the living are, and which of them are near enough to collide in the next two loops: the number of pairs."""
    units = b.shape[0]
    for u in range(units):
        here.x[u] = b[u].x if b[u].alive else NOWHERE
        here.y[u] = b[u].y
    count = 0
    for u in range(units):
        if not b[u].alive:
            continue
        close, near = limits.close[rules[u].group], limits.near[rules[u].group]
        own = u // LANES * LANES
        later = -2 << u - own  # of a pair, the second is the one with the higher number
        for start in range(own, here.x.shape[0], LANES):
            bits = within(here.x, here.y, start, here.x[u], here.y[u], close) & later
            later = -1
            while bits != 0:
                v = lowest(start, bits)
                bits &= bits - 1
                pair = pairs[count]
                pair.u = u
                pair.v = v
                pair.near = near[v]
                count += 1
    return count


@inner
def toward_spot(unit: Record, target: Record) -> tuple[np.float32, np.float32]:
    """Where a unit walks to reach its place beside a target: straight there if it is on the near side, else around."""
    dx, dy = unit.x - target.x, unit.y - target.y
    spot_x, spot_y = unit.spot_x, unit.spot_y
    distance = max(F(math.sqrt(dx * dx + dy * dy)), TINY)
    beside = max(F(math.sqrt(spot_x * spot_x + spot_y * spot_y)), TINY)
    if dx * spot_x + dy * spot_y >= AROUND_COS * distance * beside:
        return target.x + spot_x, target.y + spot_y
    scale = max(distance, beside + ORBIT) / distance
    sine = AROUND_SIN if dx * spot_y - dy * spot_x >= ZERO else -AROUND_SIN
    x = scale * (dx * AROUND_COS - dy * sine)
    y = scale * (dx * sine + dy * AROUND_COS)
    return target.x + x, target.y + y


@inner
def goal_of(ground: Ground, rule: Record, b: Records, unit: Record) -> tuple[np.float32, np.float32]:
    """The point that a walking unit heads for: its place, target, order or goal, or a corner on the way there."""
    t = unit.target
    if t >= 0 and unit.has_spot:
        x, y = toward_spot(unit, b[t])
    elif t >= 0:
        x, y = b[t].x, b[t].y
    elif unit.chase == RETURNING:
        x, y = unit.post_x, unit.post_y
    elif rule.scripted:
        x, y = rule.order_x, rule.order_y
    else:
        x, y = unit.goal_x, unit.goal_y
    if not ground.convex and rule.layer == 0:
        here = ground.node[int(unit.x), int(unit.y)]
        there = ground.node[min(max(int(x), 0), MAP_SIZE - 1), min(max(int(y), 0), MAP_SIZE - 1)]
        first = ground.way[here, there]
        if first != there:
            x, y = ground.node_x[first], ground.node_y[first]
    return x, y


@inner
def steer(
    game: Record,
    rules: Records,
    limits: Limits,
    ground: Ground,
    b: Records,
    w: Records,
    here: Points,
    blocks: Blocks,
) -> None:
    """Velocities of the units that walk: straight ahead if that is free, else by the best of nine headings."""
    agents, look_ahead = game.agents, game.look_ahead
    planes = ground.walkable
    for u in range(b.shape[0]):
        unit, rule = b[u], rules[u]
        unit.velocity_x = ZERO
        unit.velocity_y = ZERO
        if w[u].mode != MOVING:
            continue
        x, y, t = unit.x, unit.y, unit.target
        goal_x, goal_y = goal_of(ground, rule, b, unit)
        dx, dy = goal_x - x, goal_y - y
        distance = F(math.sqrt(dx * dx + dy * dy))
        if distance <= TINY:
            continue
        ahead_x, ahead_y = dx / distance, dy / distance
        # A unit that follows a target does not slow down before its place, which moves with the target.
        speed = rule.speed if t >= 0 else min(rule.speed, distance)
        # Units that the look-ahead can touch.
        count = 0
        for start in range(0, here.x.shape[0], LANES):
            bits = within(here.x, here.y, start, x, y, limits.ahead[rule.group])
            while bits != 0:
                v = lowest(start, bits)
                bits &= bits - 1
                blocks.x[count] = here.x[v] - x
                blocks.y[count] = here.y[v] - y
                blocks.square[count] = limits.near[rule.group, v]
                if (u < agents) != (v < agents):
                    blocks.load[count] = game.enemy_load
                else:
                    blocks.load[count] = game.attacker_load if w[v].mode == FIGHTING else game.friend_load
                count += (v != u) & (v != t)
        best_score = F(-1e9)
        best = 0
        best_x, best_y = ahead_x, ahead_y
        for turn in range(HEADING_COS.shape[0]):
            bonus = game.side_bonus if turn > 0 and (turn % 2 == 1) == (unit.side > 0) else ZERO
            if HEADING_COS[turn] + bonus <= best_score:
                continue  # not even if nothing is in its way: loads only lower a score
            heading_x = ahead_x * HEADING_COS[turn] - ahead_y * HEADING_SIN[turn]
            heading_y = ahead_x * HEADING_SIN[turn] + ahead_y * HEADING_COS[turn]
            look_x, look_y = look_ahead * heading_x, look_ahead * heading_y
            load = ZERO
            for i in range(count):
                gap_x, gap_y = blocks.x[i] - look_x, blocks.y[i] - look_y
                ahead = blocks.x[i] * heading_x + blocks.y[i] * heading_y > ZERO
                touches = gap_x * gap_x + gap_y * gap_y < blocks.square[i]
                load += blocks.load[i] * F(ahead & touches)  # no branch: it would be mispredicted
            if turn > 0 and not walkable(planes, rule.layer, x + look_x, y + look_y):
                load += game.attacker_load
            score = HEADING_COS[turn] - load + bonus
            if score > best_score:
                best_score = score
                best = turn
                best_x, best_y = heading_x, heading_y
            if turn == 0 and load == ZERO:
                break
        if best > 0:
            unit.side = 1 if best % 2 == 1 else -1
        unit.velocity_x = speed * best_x
        unit.velocity_y = speed * best_y


@inner
def move(
    game: Record,
    rules: Records,
    limits: Limits,
    planes: Array,
    b: Records,
    w: Records,
    there: Points,
    pairs: Records,
    count: int,
    overlapping: Array,
) -> None:
    """Move units by their velocities, push overlapping neighbours apart (two passes), and keep all on walkable ground.

    Each pair is looked at once. As pairs are in ascending order, a unit's pushes are added in the order of the others.
    """
    units = b.shape[0]
    for u in range(units):
        unit, body = b[u], w[u]
        x, y = unit.x, unit.y
        if body.mode == MOVING:
            x += unit.velocity_x
            y += unit.velocity_y
        # One that died since the neighbours were found pushes nobody.
        there.x[u] = x if unit.alive else NOWHERE
        there.y[u] = y
        body.mobility = MOBILITIES[body.mode]
        body.push_x = ZERO
        body.push_y = ZERO
    for _ in range(2):
        overlaps = 0
        for i in range(count):
            pair = pairs[i]
            dx, dy = there.x[pair.u] - there.x[pair.v], there.y[pair.u] - there.y[pair.v]
            overlapping[overlaps] = i
            overlaps += dx * dx + dy * dy < pair.near  # no branch: it would be mispredicted
        if overlaps == 0:
            break
        for i in range(overlaps):
            u, v = pairs[overlapping[i]].u, pairs[overlapping[i]].v
            one, other = w[u], w[v]
            dx, dy = there.x[u] - there.x[v], there.y[u] - there.y[v]
            distance = F(math.sqrt(dx * dx + dy * dy))
            overlap = rules[u].separation + rules[v].separation
            if distance <= TINY:
                dx, dy, distance = ONE, ZERO, ONE
            else:
                overlap -= distance
            push, mobilities = game.push * overlap, one.mobility + other.mobility
            share = push * one.mobility / mobilities / distance
            others = push * other.mobility / mobilities / distance
            one.push_x += share * dx
            one.push_y += share * dy
            other.push_x -= others * dx
            other.push_y -= others * dy
        for u in range(units):
            body = w[u]
            there.x[u] += body.push_x
            there.y[u] += body.push_y
            body.push_x = ZERO
            body.push_y = ZERO
    for u in range(units):
        unit = b[u]
        if not unit.alive:
            continue
        x, y, layer = there.x[u], there.y[u], rules[u].layer
        if walkable(planes, layer, x, y):
            unit.x, unit.y = x, y
        elif walkable(planes, layer, x, unit.y):
            unit.x = x
        elif walkable(planes, layer, unit.x, y):
            unit.y = y
