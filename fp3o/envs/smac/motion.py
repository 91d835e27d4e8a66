"""How units walk: neighbours, headings around them, motion, separation, walls."""

from __future__ import annotations

import math

import numpy as np

from fp3o.envs.native.compiled import inner
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
    ROUNDING,
    TINY,
    ZERO,
    F,
)
from fp3o.envs.smac.layouts import MAP_SIZE, Array
from fp3o.envs.smac.targets import walkable
from fp3o.envs.smac.terrain import Ground


@inner
def find_neighbours(between: Records, b: Records, w: Records, neighbours: Array, pairs: Records) -> int:
    """For every unit, those near enough to collide with it in the next two loops; returns the number of pairs."""
    units = b.shape[0]
    for u in range(units):
        w[u].crowd = 0
    count = 0
    for u in range(units):
        if not b[u].alive:
            continue
        x, y = b[u].x, b[u].y
        for v in range(u + 1, units):
            dx, dy = b[v].x - x, b[v].y - y
            both = between[u, v]
            if dx * dx + dy * dy < both.close and b[v].alive:
                neighbours[u, w[u].crowd] = v
                neighbours[v, w[v].crowd] = u
                w[u].crowd += 1
                w[v].crowd += 1
                pair = pairs[count]
                pair.u = u
                pair.v = v
                pair.near = both.near
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
    between: Records,
    ground: Ground,
    b: Records,
    w: Records,
    neighbours: Array,
    blocks: Records,
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
        # Of the neighbours, those that the look-ahead can touch.
        count = 0
        for i in range(w[u].crowd):
            v = neighbours[u, i]
            rel_x, rel_y = b[v].x - x, b[v].y - y
            block = blocks[count]
            block.x = rel_x
            block.y = rel_y
            block.square = between[u, v].near
            if (u < agents) != (v < agents):
                block.load = game.enemy_load
            else:
                block.load = game.attacker_load if w[v].mode == FIGHTING else game.friend_load
            reach = rule.separation + rules[v].separation + look_ahead + ROUNDING
            count += (rel_x * rel_x + rel_y * rel_y < reach * reach) & (v != t)
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
                block = blocks[i]
                gap_x, gap_y = block.x - look_x, block.y - look_y
                ahead = block.x * heading_x + block.y * heading_y > ZERO
                touches = gap_x * gap_x + gap_y * gap_y < block.square
                load += block.load if ahead & touches else ZERO
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
def move(game: Record, rules: Records, planes: Array, b: Records, w: Records, pairs: Records, count: int) -> None:
    """Move units by their velocities, push overlapping units apart (two passes), and keep all on walkable ground.

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
        body.new_x = x if unit.alive else NOWHERE
        body.new_y = y
        body.mobility = MOBILITIES[body.mode]
    for _ in range(2):
        for u in range(units):
            w[u].push_x = ZERO
            w[u].push_y = ZERO
        overlaps = False
        for i in range(count):
            pair = pairs[i]
            one, other = w[pair.u], w[pair.v]
            dx, dy = one.new_x - other.new_x, one.new_y - other.new_y
            square = dx * dx + dy * dy
            if square < pair.near:
                overlaps = True
                distance = F(math.sqrt(square))
                overlap = rules[pair.u].separation + rules[pair.v].separation
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
        if not overlaps:
            break
        for u in range(units):
            w[u].new_x += w[u].push_x
            w[u].new_y += w[u].push_y
    for u in range(units):
        unit = b[u]
        if not unit.alive:
            continue
        x, y, layer = w[u].new_x, w[u].new_y, rules[u].layer
        if walkable(planes, layer, x, y):
            unit.x, unit.y = x, y
        elif walkable(planes, layer, x, unit.y):
            unit.x = x
        elif walkable(planes, layer, unit.x, y):
            unit.y = y
