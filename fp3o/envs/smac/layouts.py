"""What agents and critics see: SMAC's two layouts of observations and states, and the legal actions.

Units are numbered allies first (in the order of agents), then enemies. The same kernels are used for the embedded
engine, the real game and recorded games, so that comparing recordings with the smac package tests what training uses.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.native.compiled import uncounted
from fp3o.envs.smac.scenarios import Scenario
from fp3o.envs.smac.units import KINDS, table

Layout = Literal["agent", "default"]
Array = NDArray[Any]

MAP_SIZE = 32  # all maps are 32 × 32
SIGHT = 9.0  # smac package: unit_sight_range, the same for all types; strictly closer is seen
SHOOT = 6.0  # smac package: unit_shoot_range, the same for all types; up to and including
MOVE_AMOUNT = 2.0  # smac package: how far away a move order aims
STEP_AHEAD = 0.5 * MOVE_AMOUNT  # smac package: where legality of a move is looked up
DEATH_REWARD = 10.0  # smac package: reward_death_value
WIN_REWARD = 200.0  # smac package: reward_win
REWARD_SCALE = 20.0  # smac package: reward_scale_rate

NO_OP, STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(7)


class Encoding(NamedTuple):
    """How a scenario's units are encoded in observations; arrays are indexed by unit type (`KINDS`)."""

    agents: int
    opponents: int
    agent_layout: bool
    """True: the layout the paper trained on. False: SMAC's default."""
    type_bits: int
    """Length of the one-hot unit type."""
    ally_shields: bool
    """Whether allies (enemies) have an entry for their shield."""
    enemy_shields: bool
    ally_bit: Array
    """Index of the type in the one-hot of an ally (enemy)."""
    enemy_bit: Array
    max_health: Array
    """What health, shield and cooldown are divided by."""
    max_shield: Array
    max_cooldown: Array


def encoding_of(scenario: Scenario, layout: Layout, profile: str = "liberty") -> Encoding:
    """The encoding of a scenario's units."""
    rows = table(profile)
    return Encoding(
        agents=scenario.agents,
        opponents=scenario.opponents,
        agent_layout=layout == "agent",
        type_bits=scenario.type_bits,
        ally_shields=scenario.ally_shields,
        enemy_shields=scenario.enemy_shields,
        ally_bit=np.array([scenario.ally_bits.get(kind, 0) for kind in KINDS]),
        enemy_bit=np.array([scenario.enemy_bits.get(kind, 0) for kind in KINDS]),
        max_health=np.array([row.health for row in rows]),
        max_shield=np.array([max(row.shield, 1.0) for row in rows]),
        max_cooldown=np.array([row.observed_cooldown for row in rows]),
    )


def sizes(encoding: Encoding) -> tuple[int, int]:
    """Length of an observation and of a state."""
    n, m, actions = encoding.agents, encoding.opponents, 6 + encoding.opponents
    ally = int(encoding.ally_shields) + encoding.type_bits
    enemy = int(encoding.enemy_shields) + encoding.type_bits
    if not encoding.agent_layout:
        return 4 + m * (5 + enemy) + (n - 1) * (5 + ally) + 1 + ally, n * (4 + ally + actions) + m * (3 + enemy)
    observation = (n - 1) * (5 + ally + actions) + m * (5 + enemy) + 4 + (5 + ally + actions) + n
    state = (n - 1) * (8 + ally + actions) + m * (8 + enemy) + 4 + (7 + ally + actions) + n
    return observation, state


def max_reward(scenario: Scenario, profile: str = "liberty") -> float:
    """The return of a flawless win before scaling; rewards are divided by it (and multiplied by 20)."""
    rows = {row.name: row for row in table(profile)}
    units = sum(rows[kind].health + rows[kind].shield for kind in scenario.enemy_kinds)
    return DEATH_REWARD * scenario.opponents + WIN_REWARD + units


@uncounted
def write_available(encoding: Encoding, x: Array, y: Array, alive: Array, pathing: Array, available: Array) -> None:
    """Write legal actions [A, D]. Coordinates are rounded toward zero, as by smac's int(): −0.7 is in cell 0."""
    for a in range(encoding.agents):
        available[a, :] = False
        if not alive[a]:
            available[a, NO_OP] = True
            continue
        available[a, STOP] = True
        for action, east, north in ((NORTH, 0.0, 1.0), (SOUTH, 0.0, -1.0), (EAST, 1.0, 0.0), (WEST, -1.0, 0.0)):
            column = int(x[a] + STEP_AHEAD * east)
            row = int(y[a] + STEP_AHEAD * north)
            inside = 0 <= column < MAP_SIZE and 0 <= row < MAP_SIZE
            available[a, action] = inside and pathing[column, row] != 0
        for j in range(encoding.opponents):
            u = encoding.agents + j
            dx, dy = float(x[u]) - float(x[a]), float(y[u]) - float(y[a])
            # As exact as comparing the root: that of the next number after 36 is rounded to more than 6.
            available[a, ATTACK + j] = alive[u] and dx * dx + dy * dy <= SHOOT * SHOOT


@uncounted
def write_features(
    encoding: Encoding,
    kind: Array,
    x: Array,
    y: Array,
    health: Array,
    shield: Array,
    cooldown: Array,
    alive: Array,
    last_action: Array,
    available: Array,
    observation: Array,
    state: Array,
) -> None:
    """Write observations [A, O] and states [A, S] of one battle, in either layout."""
    n, m, bits = encoding.agents, encoding.opponents, encoding.type_bits
    actions = 6 + m
    half, scale = 0.5 * MAP_SIZE, float(MAP_SIZE)
    observation[:, :] = 0.0
    state[:, :] = 0.0
    for a in range(n):
        if encoding.agent_layout:
            # Of a dead agent only the agent number is shown, all else is zero.
            observation[a, observation.shape[1] - n + a] = 1.0
            state[a, state.shape[1] - n + a] = 1.0
        if not alive[a]:
            continue
        ax, ay = float(x[a]), float(y[a])
        o = 0 if encoding.agent_layout else 4
        s = 0
        for part in range(2):
            # SMAC's default shows enemies first, the other layout allies first.
            if (part == 0) == encoding.agent_layout:
                for u in range(n):
                    if u == a:
                        continue
                    k = kind[u]
                    dx, dy = float(x[u]) - ax, float(y[u]) - ay
                    distance = math.sqrt(dx * dx + dy * dy)
                    seen = distance < SIGHT
                    shield_part = shield[u] / encoding.max_shield[k]
                    health_part = health[u] / encoding.max_health[k]
                    bit = encoding.ally_bit[k]
                    if alive[u] and seen:
                        observation[a, o] = 1.0
                        observation[a, o + 1] = distance / SIGHT
                        observation[a, o + 2] = dx / SIGHT
                        observation[a, o + 3] = dy / SIGHT
                        observation[a, o + 4] = health_part
                        i = o + 5
                        if encoding.ally_shields:
                            observation[a, i] = shield_part
                            i += 1
                        if bits > 0:
                            observation[a, i + bit] = 1.0
                            i += bits
                        if encoding.agent_layout and last_action[u] >= 0:
                            observation[a, i + last_action[u]] = 1.0
                    if encoding.agent_layout and alive[u]:
                        state[a, s] = 1.0 if seen else 0.0
                        state[a, s + 1] = distance / SIGHT
                        state[a, s + 2] = dx / SIGHT
                        state[a, s + 3] = dy / SIGHT
                        state[a, s + 4] = max(cooldown[u], 0.0) / encoding.max_cooldown[k]
                        state[a, s + 5] = health_part
                        i = s + 6
                        if encoding.ally_shields:
                            state[a, i] = shield_part
                            i += 1
                        state[a, i] = (x[u] - half) / scale
                        state[a, i + 1] = (y[u] - half) / scale
                        i += 2
                        if bits > 0:
                            state[a, i + bit] = 1.0
                            i += bits
                        if last_action[u] >= 0:
                            state[a, i + last_action[u]] = 1.0
                    width = int(encoding.ally_shields) + bits
                    o += 5 + width + (actions if encoding.agent_layout else 0)
                    s += 8 + width + actions
            else:
                for j in range(m):
                    u = n + j
                    width = int(encoding.enemy_shields) + bits
                    if alive[u]:
                        k = kind[u]
                        dx, dy = float(x[u]) - ax, float(y[u]) - ay
                        distance = math.sqrt(dx * dx + dy * dy)
                        seen = distance < SIGHT
                        attackable = 1.0 if available[a, ATTACK + j] else 0.0
                        shield_part = shield[u] / encoding.max_shield[k]
                        health_part = health[u] / encoding.max_health[k]
                        bit = encoding.enemy_bit[k]
                        if seen:
                            observation[a, o] = attackable
                            observation[a, o + 1] = distance / SIGHT
                            observation[a, o + 2] = dx / SIGHT
                            observation[a, o + 3] = dy / SIGHT
                            observation[a, o + 4] = health_part
                            i = o + 5
                            if encoding.enemy_shields:
                                observation[a, i] = shield_part
                                i += 1
                            if bits > 0:
                                observation[a, i + bit] = 1.0
                        if encoding.agent_layout:
                            state[a, s] = attackable
                            state[a, s + 1] = distance / SIGHT
                            state[a, s + 2] = dx / SIGHT
                            state[a, s + 3] = dy / SIGHT
                            state[a, s + 4] = 1.0 if seen else 0.0
                            state[a, s + 5] = health_part
                            i = s + 6
                            if encoding.enemy_shields:
                                state[a, i] = shield_part
                                i += 1
                            if bits > 0:
                                state[a, i + bit] = 1.0
                                i += bits
                            state[a, i] = (x[u] - half) / scale
                            state[a, i + 1] = (y[u] - half) / scale
                    o += 5 + width
                    s += 8 + width
        move = o if encoding.agent_layout else 0
        for i in range(4):
            flag = 1.0 if available[a, NORTH + i] else 0.0
            observation[a, move + i] = flag
            if encoding.agent_layout:
                state[a, s + i] = flag
        k = kind[a]
        if encoding.agent_layout:
            o += 4
            s += 4
            observation[a, o] = 1.0
            state[a, s] = 1.0
            o += 4
            s += 4
            state[a, s] = health[a] / encoding.max_health[k]
            s += 1
        observation[a, o] = health[a] / encoding.max_health[k]
        o += 1
        if encoding.ally_shields:
            observation[a, o] = shield[a] / encoding.max_shield[k]
            o += 1
            if encoding.agent_layout:
                state[a, s] = shield[a] / encoding.max_shield[k]
                s += 1
        if encoding.agent_layout:
            state[a, s] = (x[a] - half) / scale
            state[a, s + 1] = (y[a] - half) / scale
            s += 2
            if bits > 0:
                state[a, s + encoding.ally_bit[k]] = 1.0
                s += bits
            if last_action[a] >= 0:
                state[a, s + last_action[a]] = 1.0
        if bits > 0:
            observation[a, o + encoding.ally_bit[k]] = 1.0
            o += bits
        if encoding.agent_layout and last_action[a] >= 0:
            observation[a, o + last_action[a]] = 1.0
    if not encoding.agent_layout:
        s = 0
        for u in range(n + m):
            k = kind[u]
            ally = u < n
            if alive[u]:
                state[0, s] = health[u] / encoding.max_health[k]
                i = s + 1
                if ally:
                    state[0, i] = max(cooldown[u], 0.0) / encoding.max_cooldown[k]
                    i += 1
                state[0, i] = (x[u] - half) / scale
                state[0, i + 1] = (y[u] - half) / scale
                i += 2
                if (ally and encoding.ally_shields) or (not ally and encoding.enemy_shields):
                    state[0, i] = shield[u] / encoding.max_shield[k]
                    i += 1
                if bits > 0:
                    state[0, i + (encoding.ally_bit[k] if ally else encoding.enemy_bit[k])] = 1.0
            s += (4 + int(encoding.ally_shields) + bits) if ally else (3 + int(encoding.enemy_shields) + bits)
        for a in range(n):
            # Dead agents' last action (no-op) is shown too.
            if last_action[a] >= 0:
                state[0, s + a * actions + last_action[a]] = 1.0
        for a in range(1, n):
            for i in range(state.shape[1]):
                state[a, i] = state[0, i]


@uncounted
def outcome(agents: int, alive: Array) -> int:
    """0 not decided, 1 won, 2 lost, 3 no unit left on either side (the battle ends, but is not won)."""
    allies, enemies = 0, 0
    for u in range(alive.shape[0]):
        if alive[u]:
            if u < agents:
                allies += 1
            else:
                enemies += 1
    if allies == 0 and enemies == 0:
        return 3
    if enemies == 0:
        return 1
    if allies == 0:
        return 2
    return 0


@uncounted
def settle(
    best: float, agents: int, vitality: Array, health: Array, shield: Array, alive_before: Array, alive: Array
) -> tuple[float, int]:
    """Team reward and `outcome` of a step: damage to enemies, 10 per enemy killed, 200 for a win, scaled so that a
    flawless win gives 20 in total.

    vitality: health plus shield of each unit before the step. As in smac the damage's absolute value is taken, so that
    enemies' recovery is rewarded too.
    """
    damage = 0.0
    for u in range(agents, alive.shape[0]):
        if not alive_before[u]:
            continue
        if alive[u]:
            damage += vitality[u] - (float(health[u]) + float(shield[u]))
        else:
            damage += vitality[u] + DEATH_REWARD
    reward = abs(damage)
    result = outcome(agents, alive)
    if result == 1:
        reward += WIN_REWARD
    return reward / (best / REWARD_SCALE), result


def agent_order(encoding: Encoding, kind: Array, x: Array, y: Array) -> Array:
    """Index of each agent's unit in a list of allied units: sorted by type, x, y. Agents are assigned at every
    reset."""
    return np.lexsort((y, x, encoding.ally_bit[kind]))


@uncounted
def move_goal(action: int, x: float, y: float) -> tuple[float, float]:
    """The goal of a unit at (x, y) for a move action."""
    if action == NORTH:
        y += MOVE_AMOUNT
    elif action == SOUTH:
        y -= MOVE_AMOUNT
    elif action == EAST:
        x += MOVE_AMOUNT
    elif action == WEST:
        x -= MOVE_AMOUNT
    return x, y
