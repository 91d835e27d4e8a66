"""The per-step arithmetic beside physics, fused and compiled: a lock-step of NumPy calls would cost more than a kernel.

Slots are worked one after the other without regard to the rest, so numbers do not depend on N.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.compiled import compiled
from fp3o.envs.interface import Bools, Doubles, Floats


class Plan(NamedTuple):
    """What stays: columns to gather, coefficients, limits."""

    local: NDArray[np.int64]  # [A, D] columns of `features`
    state: NDArray[np.int64]  # [Z]
    ids: bool
    standardise: bool
    reaching: bool
    distance_after: bool
    seconds: float
    control_cost: float
    contact_cost: float
    alive_bonus: float
    bonus_at_end: bool
    ends: bool
    height: int
    low: float
    high: float
    angle: float
    entries: float  # NaN: unchecked
    limit: int


class Slots(NamedTuple):
    """What changes: one row per slot."""

    position: Doubles  # [N, nq] live views of MuJoCo's own rows
    velocity: Doubles  # [N, nv]
    turns: Doubles  # [N, 2 · angles] sines, then cosines
    forces: Doubles  # [N, ·] contact forces, clipped
    tracked: Doubles  # [N, 3] what the reward measures
    features: Doubles  # [N, ·] every number a token can name
    observation: Floats  # [N, A, ·]
    state: Floats  # [N, A, ·]
    reward: Doubles  # [N, A]
    returned: Doubles  # [N] so far in this episode
    length: NDArray[np.int64]  # [N]
    terminated: Bools  # [N]
    truncated: Bools  # [N]


def _collect(slot: int, slots: Slots) -> None:
    """Fill a row of features: q, v, v clipped, sines, cosines, tracked, forces, 0."""
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
    for i in range(slots.turns.shape[1]):
        row[at + i] = slots.turns[slot, i]
    at += slots.turns.shape[1]
    for i in range(3):
        row[at + i] = slots.tracked[slot, i]
    at += 3
    for i in range(slots.forces.shape[1]):
        row[at + i] = slots.forces[slot, i]


collect: Callable[..., None] = compiled(_collect)


def _standardise(values: Doubles, agents: int) -> tuple[float, float]:
    """(x − mean) / deviation in place, over the values and a one-hot of this many agents (0: none) beside them.

    Returns what the one-hot's one and its zeros become: the same wherever the one stands.
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
    """Values and the one-hot agent number, where there is room for it, rounded to float32 at the very end."""
    count = len(values)
    for i in range(count):
        into[i] = values[i]
    for i in range(count, len(into)):
        into[i] = zero
    if count < len(into):
        into[count + agent] = one


write: Callable[..., None] = compiled(_write)


def _observe(rows: NDArray[np.int32], plan: Plan, slots: Slots) -> None:
    """Observations and critic states of these slots."""
    agents = len(plan.local)
    ids = agents if plan.ids else 0
    one, zero = 1.0, 0.0
    local, state = np.empty(plan.local.shape[1]), np.empty(len(plan.state))
    for slot in rows:
        collect(slot, slots)
        row = slots.features[slot]
        for agent in range(agents):
            for i in range(len(local)):
                local[i] = row[plan.local[agent, i]]
            if plan.standardise:
                one, zero = standardise(local, ids)
            write(slots.observation[slot, agent], local, agent, one, zero)
        for i in range(len(state)):
            state[i] = row[plan.state[i]]
        if plan.standardise:
            one, zero = standardise(state, ids)
        for agent in range(agents):
            write(slots.state[slot, agent], state, agent, one, zero)


observe: Callable[..., None] = compiled(_observe)


def _healthy(position: Doubles, velocity: Doubles, plan: Plan) -> bool:
    """Whether the body still stands."""
    if not plan.low < position[plan.height] < plan.high:
        return False
    if np.isfinite(plan.angle) and not abs(position[plan.height + 1]) < plan.angle:
        return False
    if not np.isnan(plan.entries):
        for entry in position[2:]:
            if not abs(entry) < plan.entries:
                return False
        for entry in velocity:
            if not abs(entry) < plan.entries:
                return False
    return True


healthy: Callable[..., bool] = compiled(_healthy)


def _settle(rows: NDArray[np.int32], actions: Doubles, now: Doubles, plan: Plan, slots: Slots) -> int:
    """After physics: reward, ends, counters and observations of these slots; how many of them ended.

    actions: [N, A, K] unclipped; now: [N, 3] where the tracked thing is after the step.
    """
    ended = 0
    for slot in rows:
        cost = 0.0
        for agent in range(actions.shape[1]):
            for part in range(actions.shape[2]):
                cost += actions[slot, agent, part] ** 2
        alive = not plan.ends or healthy(slots.position[slot], slots.velocity[slot], plan)
        if plan.reaching:
            place = now[slot] if plan.distance_after else slots.tracked[slot]
            reward = -np.sqrt(place[0] ** 2 + place[1] ** 2 + place[2] ** 2) - plan.control_cost * cost
        else:
            reward = (now[slot, 0] - slots.tracked[slot, 0]) / plan.seconds
            if alive or plan.bonus_at_end:
                reward += plan.alive_bonus
            reward -= plan.control_cost * cost
        if plan.contact_cost > 0.0:
            contact = 0.0
            for i in range(slots.forces.shape[1]):
                contact += slots.forces[slot, i] ** 2
            reward -= plan.contact_cost * contact
        for i in range(3):
            slots.tracked[slot, i] = now[slot, i]
        slots.reward[slot, :] = reward
        slots.returned[slot] += reward
        slots.length[slot] += 1
        slots.terminated[slot] = not alive
        slots.truncated[slot] = slots.length[slot] >= plan.limit
        if not alive or slots.length[slot] >= plan.limit:
            ended += 1
    observe(rows, plan, slots)
    return ended


settle: Callable[[NDArray[Any], Doubles, Doubles, Plan, Slots], int] = compiled(_settle)
