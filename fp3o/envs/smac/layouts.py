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
from fp3o.envs.smac.units import KINDS, LIBERTY, table

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

ALLIES, ENEMIES = range(2)
NO_OP, STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(7)


class Encoding(NamedTuple):
    """How a scenario's units are encoded in observations; arrays are indexed by unit type (`KINDS`)."""

    agents: int
    opponents: int
    agent_layout: bool
    """True: the layout the paper trained on. False: SMAC's default."""
    type_bits: int
    """Length of the one-hot unit type."""
    shields: Array
    """[2] whether a side's units (`ALLIES`, `ENEMIES`) have an entry for their shield."""
    bit: Array
    """[2, types] by side: index of the type in the one-hot."""
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
        shields=np.array([LIBERTY[group[0].kind].race == "protoss" for group in (scenario.allies, scenario.enemies)]),
        bit=np.array([[bits.get(kind, 0) for kind in KINDS] for bits in (scenario.ally_bits, scenario.enemy_bits)]),
        max_health=np.array([row.health for row in rows]),
        max_shield=np.array([max(row.shield, 1.0) for row in rows]),
        max_cooldown=np.array([row.observed_cooldown for row in rows]),
    )


def sizes(encoding: Encoding) -> tuple[int, int]:
    """Length of an observation and of a state."""
    n, m, actions = encoding.agents, encoding.opponents, 6 + encoding.opponents
    ally, enemy = (int(shields) + encoding.type_bits for shields in encoding.shields)
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
def put_vitality(encoding: Encoding, side: int, k: int, health: float, shield: float, row: Array, i: int) -> int:
    """Write a unit's health and, if its side has shields, its shield at row[i]; where the next entry goes."""
    row[i] = health / encoding.max_health[k]
    if not encoding.shields[side]:
        return i + 1
    row[i + 1] = shield / encoding.max_shield[k]
    return i + 2


@uncounted
def put_type(encoding: Encoding, side: int, k: int, row: Array, i: int) -> int:
    """Likewise the one-hot unit type."""
    if encoding.type_bits > 0:
        row[i + encoding.bit[side, k]] = 1.0
    return i + encoding.type_bits


@uncounted
def put_place(x: float, y: float, row: Array, i: int) -> int:
    """Likewise the position, relative to the centre of the map."""
    row[i] = (x - 0.5 * MAP_SIZE) / float(MAP_SIZE)
    row[i + 1] = (y - 0.5 * MAP_SIZE) / float(MAP_SIZE)
    return i + 2


@uncounted
def put_action(action: int, row: Array, i: int) -> None:
    """Likewise the one-hot last action; none after a reset (-1)."""
    if action >= 0:
        row[i + action] = 1.0


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
    n, agent_layout = encoding.agents, encoding.agent_layout
    actions = 6 + encoding.opponents
    observation[:, :] = 0.0
    state[:, :] = 0.0
    for a in range(n):
        seen, known = observation[a], state[a]
        if agent_layout:
            # Of a dead agent only the agent number is shown, all else is zero.
            seen[observation.shape[1] - n + a] = 1.0
            known[state.shape[1] - n + a] = 1.0
        if not alive[a]:
            continue
        o, s = 0 if agent_layout else 4, 0
        for part in range(2):
            # SMAC's default shows enemies first, the other layout allies first.
            side = ALLIES if (part == 0) == agent_layout else ENEMIES
            first, last = (0, n) if side == ALLIES else (n, n + encoding.opponents)
            for u in range(first, last):
                if u == a:
                    continue
                k = kind[u]
                dx, dy = float(x[u]) - float(x[a]), float(y[u]) - float(y[a])
                distance = math.sqrt(dx * dx + dy * dy)
                visible = distance < SIGHT
                # Of an enemy, whether it can be attacked.
                flag = 1.0 if side == ALLIES or available[a, ATTACK + u - n] else 0.0
                if alive[u] and visible:
                    seen[o], seen[o + 1], seen[o + 2], seen[o + 3] = flag, distance / SIGHT, dx / SIGHT, dy / SIGHT
                    i = put_vitality(encoding, side, k, health[u], shield[u], seen, o + 4)
                    i = put_type(encoding, side, k, seen, i)
                    if agent_layout and side == ALLIES:
                        put_action(last_action[u], seen, i)
                if alive[u] and agent_layout:
                    in_sight = 1.0 if visible else 0.0
                    known[s + 1], known[s + 2], known[s + 3] = distance / SIGHT, dx / SIGHT, dy / SIGHT
                    i = put_vitality(encoding, side, k, health[u], shield[u], known, s + 5)
                    if side == ALLIES:
                        known[s], known[s + 4] = in_sight, max(cooldown[u], 0.0) / encoding.max_cooldown[k]
                        i = put_type(encoding, side, k, known, put_place(x[u], y[u], known, i))
                        put_action(last_action[u], known, i)
                    else:
                        known[s], known[s + 4] = flag, in_sight
                        put_place(x[u], y[u], known, put_type(encoding, side, k, known, i))
                width = int(encoding.shields[side]) + encoding.type_bits
                acts = actions if agent_layout and side == ALLIES else 0
                o += 5 + width + acts
                s += 8 + width + acts
        moves = o if agent_layout else 0
        for i in range(4):
            seen[moves + i] = 1.0 if available[a, NORTH + i] else 0.0
            if agent_layout:
                known[s + i] = seen[moves + i]
        if agent_layout:
            # Its own place in the list of allies: seen, at no distance.
            seen[o + 4] = known[s + 4] = 1.0
            i = put_vitality(encoding, ALLIES, kind[a], health[a], shield[a], known, s + 8)
            i = put_type(encoding, ALLIES, kind[a], known, put_place(x[a], y[a], known, i))
            put_action(last_action[a], known, i)
            o += 8
        i = put_vitality(encoding, ALLIES, kind[a], health[a], shield[a], seen, o)
        i = put_type(encoding, ALLIES, kind[a], seen, i)
        if agent_layout:
            put_action(last_action[a], seen, i)
    if agent_layout:
        return
    s, row = 0, state[0]
    for u in range(n + encoding.opponents):
        k, side = kind[u], ALLIES if u < n else ENEMIES
        shields = int(encoding.shields[side])
        if alive[u]:
            row[s] = health[u] / encoding.max_health[k]
            if side == ALLIES:
                row[s + 1] = max(cooldown[u], 0.0) / encoding.max_cooldown[k]
            i = put_place(x[u], y[u], row, s + 2 - side)
            if shields:
                row[i] = shield[u] / encoding.max_shield[k]
            put_type(encoding, side, k, row, i + shields)
        s += 4 - side + shields + encoding.type_bits
    for a in range(n):
        # Dead agents' last action (no-op) is shown too.
        put_action(last_action[a], row, s + a * actions)
    for a in range(1, n):
        for i in range(len(row)):
            state[a, i] = row[i]


@uncounted
def outcome(agents: int, alive: Array) -> int:
    """0 not decided, 1 won, 2 lost, 3 no unit left on either side (the battle ends, but is not won)."""
    allies, enemies = False, False
    for u in range(alive.shape[0]):
        allies |= u < agents and alive[u]
        enemies |= u >= agents and alive[u]
    if enemies:
        return 0 if allies else 2
    return 1 if allies else 3


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
