"""Attacks, hits, deaths and recovery."""

from __future__ import annotations

import math

import numpy as np

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.ranges import Record, Records
from fp3o.envs.smac.battle import BEAM, BLAST, MISSILE
from fp3o.envs.smac.chance import uniform
from fp3o.envs.smac.constants import (
    ALWAYS,
    ARRIVED,
    FIGHTING,
    HALF,
    IDLE,
    LEAST,
    MOVING,
    NEARER,
    ONE,
    PURPOSE_COOLDOWN,
    RETURNING,
    SHIELD_GAIN,
    SHIELD_QUIET,
    STICKINESS,
    TINY,
    ZERO,
    F,
)
from fp3o.envs.smac.layouts import Array
from fp3o.envs.smac.targets import acquire, striking


@inner
def attack(game: Record, rules: Records, b: Records, w: Records, now: np.uint64) -> None:
    """Wind-ups, cooldowns and shots; sets `mode` to FIGHTING for units in range of their target."""
    for u in range(b.shape[0]):
        unit, rule, body = b[u], rules[u], w[u]
        body.mode = IDLE
        unit.fighting = False
        if not unit.alive:
            continue
        t = unit.target
        if t < 0:
            if rule.scripted:
                dx, dy = rule.order_x - unit.x, rule.order_y - unit.y
                if dx * dx + dy * dy > ARRIVED * ARRIVED or unit.chase == RETURNING:
                    body.mode = MOVING
            elif unit.moving:
                body.mode = MOVING
            continue
        if striking(rule, unit):
            body.mode = FIGHTING
            unit.fighting = True
            continue
        body.mode = MOVING
        dx, dy = b[t].x - unit.x, b[t].y - unit.y
        distance = F(math.sqrt(dx * dx + dy * dy))
        reach = rule.reach + rule.radius + rules[t].radius
        fires = False
        if unit.windup > ZERO:
            if distance > reach + rule.slop:
                unit.windup = ZERO
                unit.cooldown = ZERO
                continue
            body.mode = FIGHTING
            unit.fighting = True
            unit.windup -= ONE
            if unit.windup <= HALF:  # times are rounded to the nearest loop
                unit.windup = ZERO
                fires = True
        elif distance <= reach:
            body.mode = FIGHTING
            unit.fighting = True
            if unit.cooldown <= ZERO:
                # The fraction of a loop by which the cooldown ended early is carried over: the mean period stays exact.
                draw = uniform(now, u, PURPOSE_COOLDOWN)
                unit.cooldown += rule.period + game.noise_low + game.noise_span * draw
                if rule.damage_point > ZERO:
                    unit.windup = rule.damage_point
                else:
                    fires = True
        if not fires:
            continue
        unit.victim = t
        unit.strikes = rule.hits
        unit.flight = ZERO
        if rule.blow == MISSILE:
            unit.flight = ONE + distance / rule.missile_speed
        elif rule.blow == BEAM:
            unit.flight = ONE + rule.delay
            scale = ONE / max(distance, TINY)
            unit.aim_x = dx * scale
            unit.aim_y = dy * scale


@inner
def turns_round(game: Record, rules: Records, b: Records, w: int, u: int) -> bool:
    """Whether w, which walks to a target, attacks u instead when it is called for help."""
    if game.redirects != NEARER:
        return bool(game.redirects == ALWAYS)
    x, y, t = b[w].x, b[w].y, b[w].target
    dx, dy = b[u].x - x, b[u].y - y
    other_x, other_y = b[t].x - x, b[t].y - y
    gap = F(math.sqrt(dx * dx + dy * dy)) - rules[u].radius
    other = F(math.sqrt(other_x * other_x + other_y * other_y)) - rules[t].radius
    return bool(gap < other - STICKINESS)


@inner
def call_for_help(game: Record, rules: Records, b: Records, u: int, v: int) -> None:
    """v, hit by u, calls its friends near by: those that are not hitting anybody turn to u."""
    caller = b[v]
    if caller.call_wait > 0 or not b[u].alive:
        return
    caller.call_wait = game.help_period
    first, last = (0, game.agents) if v < game.agents else (game.agents, b.shape[0])
    for w in range(first, last):
        friend, rule = b[w], rules[w]
        if w == v or not friend.alive or not rule.scripted or friend.fighting or friend.chase == RETURNING:
            continue
        if friend.target >= 0 and not turns_round(game, rules, b, w, u):
            continue
        dx, dy = friend.x - caller.x, friend.y - caller.y
        reach = game.help_radius + rule.radius
        if dx * dx + dy * dy <= reach * reach:
            friend.has_spot = False
            acquire(friend, u)


@inner
def hit(game: Record, rules: Records, raw: Array, b: Records, u: int, v: int) -> None:
    """One hit of u on v: first on the shield, the rest, reduced by armour, on health. An idle scripted v attacks u."""
    victim = b[v]
    damage = raw[u, v]
    absorbed = min(victim.shield, damage)
    victim.shield -= absorbed
    damage -= absorbed
    if damage > ZERO:
        damage = min(max(damage - rules[v].armour, LEAST), victim.health)
        victim.health -= damage
    victim.lost += absorbed + damage
    victim.quiet = 0
    idle = rules[v].scripted and victim.target < 0
    if not game.calls:
        if idle:
            victim.target = u
        return
    if idle:
        acquire(victim, u)
    if rules[v].scripted:
        call_for_help(game, rules, b, u, v)


@inner
def strike(game: Record, rules: Records, raw: Array, b: Records) -> None:
    """Apply the hits that are due."""
    units, agents = b.shape[0], game.agents
    for u in range(units):
        unit, rule = b[u], rules[u]
        if unit.strikes == 0:
            continue
        if unit.flight > HALF:
            unit.flight -= ONE
        if unit.flight > HALF:
            continue
        v = int(unit.victim)
        if rule.blow == BLAST:
            unit.strikes = 0
            if unit.alive:
                # A baneling attacks by dying; its blast follows, as for every baneling that dies.
                unit.lost += unit.health
                unit.health = ZERO
        elif rule.blow == BEAM:
            first, last = (agents, units) if u < agents else (0, agents)
            for other in range(first, last):
                if not b[other].alive:
                    continue
                dx, dy = b[other].x - b[v].x, b[other].y - b[v].y
                along = abs(dy * unit.aim_x - dx * unit.aim_y)
                across = dx * unit.aim_x + dy * unit.aim_y
                beyond = max(along - rule.area, ZERO)
                touch = rule.area_margin + rules[other].radius
                if beyond * beyond + across * across <= touch * touch:
                    for _ in range(unit.strikes):
                        hit(game, rules, raw, b, u, other)
            unit.strikes = 0
        else:
            unit.strikes -= 1
            unit.flight = rule.delay
            if b[v].alive and (rule.blow == MISSILE or unit.alive):
                hit(game, rules, raw, b, u, v)
            if not unit.alive or not b[v].alive:
                unit.strikes = 0


@inner
def bury(game: Record, rules: Records, raw: Array, b: Records, w: Records) -> None:
    """Take the dead out of the battle; banelings among them explode, which may kill more."""
    units, agents = b.shape[0], game.agents
    again = True
    while again:
        again = False
        deaths = False
        for u in range(units):
            w[u].dying = b[u].alive and b[u].health <= ZERO
            deaths |= w[u].dying
        if not deaths:
            break
        for u in range(units):
            if w[u].dying:
                unit = b[u]
                unit.alive = False
                unit.health = ZERO
                unit.windup = ZERO
                unit.cooldown = ZERO
                unit.target = -1
                unit.has_spot = False
                unit.fighting = False
                unit.velocity_x = ZERO
                unit.velocity_y = ZERO
        for u in range(units):
            if w[u].dying and rules[u].blow == BLAST:
                again = True
                first, last = (agents, units) if u < agents else (0, agents)
                for other in range(first, last):
                    if not b[other].alive:
                        continue
                    dx, dy = b[other].x - b[u].x, b[other].y - b[u].y
                    reach = rules[u].area + rules[other].radius
                    if dx * dx + dy * dy <= reach * reach:
                        hit(game, rules, raw, b, u, other)


@inner
def recover(rules: Records, b: Records) -> None:
    """Cooldowns run down, zerg units heal, shields recover after ten seconds without damage."""
    for u in range(b.shape[0]):
        unit, rule = b[u], rules[u]
        if not unit.alive:
            continue
        unit.cooldown = unit.cooldown - ONE if unit.cooldown > ZERO else ZERO
        unit.quiet += 1
        if unit.call_wait > 0:
            unit.call_wait -= 1
        if rule.regeneration > ZERO and unit.health < rule.max_health:
            gain = min(rule.regeneration, rule.max_health - unit.health)
            unit.health += gain
            unit.regained += gain
        if unit.shield < rule.max_shield and unit.quiet > SHIELD_QUIET:
            gain = min(SHIELD_GAIN, rule.max_shield - unit.shield)
            unit.shield += gain
            unit.regained += gain
