"""Rewards, ends and observations of a step in compiled kernels: the same in NumPy calls would cost more time.

Slots are processed one after the other and independently, so numbers do not depend on N.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.compiled import compiled
from fp3o.envs.interface import Bools, Doubles, Floats


class TaskConstants(NamedTuple):
    """Constants of a task; from `bodies.Body` and `MamujocoOptions`, which explain them."""

    local: NDArray[np.int64]  # [A, D] the column of `Slots.features` for each entry of an agent's observation
    state: NDArray[np.int64]  # [Z] likewise for the critic's input
    ids: bool  # append the one-hot agent number
    standardise: bool
    reaching: bool  # the reward is minus the distance of fingertip and target (reacher)
    distance_after: bool
    seconds: float  # simulated time of a step
    control_cost: float
    contact_cost: float
    alive_bonus: float
    bonus_at_end: bool
    ends: bool  # whether the next five limits are checked
    height: int
    low: float
    high: float
    angle: float
    entries: float  # NaN: not checked
    limit: int  # steps per episode


class Slots(NamedTuple):
    """What changes from step to step: one row per slot."""

    position: Doubles  # [N, nq] view of MuJoCo's memory
    velocity: Doubles  # [N, nv] likewise
    sines_cosines: Doubles  # [N, 2 · angles] sines, then cosines
    forces: Doubles  # [N, ·] contact forces, clipped
    tracked: Doubles  # [N, 3] position that the reward is computed from (`Body.tracks`)
    features: Doubles  # [N, ·] the number of every token (see bodies.py)
    observation: Floats  # [N, A, ·]
    state: Floats  # [N, A, ·]
    reward: Doubles  # [N, A]
    returned: Doubles  # [N] so far in this episode
    length: NDArray[np.int64]  # [N]
    terminated: Bools  # [N]
    truncated: Bools  # [N]


def _collect(slot: int, slots: Slots) -> None:
    """Write a slot's features: q, v, v clipped, sines, cosines, tracked, forces, 0."""
    row = slots.features[slot]
    at = slots.position.shape[1]
    velocities = slots.velocity.shape[1]
    for i in range(at):
        row[i] = slots.position[slot, i]
    for i in range(velocities):
        velocity = slots.velocity[slot, i]
        row[at + i] = velocity
        row[at + velocities + i] = min(max(velocity, -10.0), 10.0)
    at += 2 * velocities
    for i in range(slots.sines_cosines.shape[1]):
        row[at + i] = slots.sines_cosines[slot, i]
    at += slots.sines_cosines.shape[1]
    for i in range(3):
        row[at + i] = slots.tracked[slot, i]
    at += 3
    for i in range(slots.forces.shape[1]):
        row[at + i] = slots.forces[slot, i]


collect: Callable[..., None] = compiled(_collect)


def _standardise(values: Doubles, agents: int) -> tuple[float, float]:
    """Standardise, in place, the vector of these values and a one-hot of length `agents` (0: none) after them.

    Returns the standardised values of the one-hot's one and of its zeros, which do not depend on where the one is.
    """
    total = 1.0 if agents else 0.0
    for value in values:
        total += value
    count = len(values) + agents
    mean = total / count
    squares = (1.0 - mean) ** 2 + (agents - 1) * mean**2 if agents else 0.0
    for value in values:
        squares += (value - mean) ** 2
    deviation = np.sqrt(squares / count)
    for i in range(len(values)):
        values[i] = (values[i] - mean) / deviation
    return (1.0 - mean) / deviation, (0.0 - mean) / deviation


standardise: Callable[..., tuple[float, float]] = compiled(_standardise)


def _write(into: Floats, values: Doubles, agent: int, one: float, zero: float) -> None:
    """Write values, then (if `into` is longer) the one-hot agent number; this is where they are rounded to float32."""
    count = len(values)
    for i in range(count):
        into[i] = values[i]
    for i in range(count, len(into)):
        into[i] = zero
    if count < len(into):
        into[count + agent] = one


write: Callable[..., None] = compiled(_write)


def _observe(rows: NDArray[np.int32], constants: TaskConstants, slots: Slots) -> None:
    """Observations and critic states of these slots."""
    agents = len(constants.local)
    ids = agents if constants.ids else 0
    one, zero = 1.0, 0.0
    local, state = np.empty(constants.local.shape[1]), np.empty(len(constants.state))
    for slot in rows:
        collect(slot, slots)
        row = slots.features[slot]
        for agent in range(agents):
            for i in range(len(local)):
                local[i] = row[constants.local[agent, i]]
            if constants.standardise:
                one, zero = standardise(local, ids)
            write(slots.observation[slot, agent], local, agent, one, zero)
        for i in range(len(state)):
            state[i] = row[constants.state[i]]
        if constants.standardise:
            one, zero = standardise(state, ids)
        for agent in range(agents):
            write(slots.state[slot, agent], state, agent, one, zero)


observe: Callable[..., None] = compiled(_observe)


def _healthy(position: Doubles, velocity: Doubles, constants: TaskConstants) -> bool:
    """Whether the state is within the limits of `bodies.Ending`."""
    if not constants.low < position[constants.height] < constants.high:
        return False
    if np.isfinite(constants.angle) and not abs(position[constants.height + 1]) < constants.angle:
        return False
    if not np.isnan(constants.entries):
        for entry in position[2:]:
            if not abs(entry) < constants.entries:
                return False
        for entry in velocity:
            if not abs(entry) < constants.entries:
                return False
    return True


healthy: Callable[..., bool] = compiled(_healthy)


def _settle(rows: NDArray[np.int32], actions: Doubles, now: Doubles, constants: TaskConstants, slots: Slots) -> int:
    """After physics: write rewards, end flags, counters and observations of these slots; returns how many ended.

    actions [N, A, K] are not clipped; now [N, 3] is the tracked position after the step.
    """
    ended = 0
    for slot in rows:
        cost = 0.0
        for agent in range(actions.shape[1]):
            for part in range(actions.shape[2]):
                cost += actions[slot, agent, part] ** 2
        alive = not constants.ends or healthy(slots.position[slot], slots.velocity[slot], constants)
        if constants.reaching:
            place = now[slot] if constants.distance_after else slots.tracked[slot]
            reward = -np.sqrt(place[0] ** 2 + place[1] ** 2 + place[2] ** 2) - constants.control_cost * cost
        else:
            reward = (now[slot, 0] - slots.tracked[slot, 0]) / constants.seconds
            if alive or constants.bonus_at_end:
                reward += constants.alive_bonus
            reward -= constants.control_cost * cost
        if constants.contact_cost > 0.0:
            contact = 0.0
            for i in range(slots.forces.shape[1]):
                contact += slots.forces[slot, i] ** 2
            reward -= constants.contact_cost * contact
        for i in range(3):
            slots.tracked[slot, i] = now[slot, i]
        slots.reward[slot, :] = reward
        slots.returned[slot] += reward
        slots.length[slot] += 1
        slots.terminated[slot] = not alive
        slots.truncated[slot] = slots.length[slot] >= constants.limit
        if not alive or slots.length[slot] >= constants.limit:
            ended += 1
    observe(rows, constants, slots)
    return ended


settle: Callable[[NDArray[Any], Doubles, Doubles, TaskConstants, Slots], int] = compiled(_settle)
