"""Rewards, ends and observations of a step in one compiled kernel: the same in NumPy calls would cost more time.

Slots are processed one after the other and independently, so numbers do not depend on N.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.compiled import inner
from fp3o.envs.interface import Doubles, Floats
from fp3o.envs.ranges import Kernel, Record, read

STEP, BEGIN, SHOW = range(3)


class Task(NamedTuple):
    """Numbers of a task; from `bodies.Body` and `MamujocoOptions`, which explain them."""

    positions: int  # column of `Data.physics` where qpos begins
    position_size: int
    velocities: int
    velocity_size: int
    place: int  # column of `Data.features` where the tracked position begins
    body: int  # that it is the place of; -1: qpos[0] is tracked
    target: int  # body that the place is relative to; -1: none
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
    auto_reset: bool


SLOT = {"returned": np.float64, "length": np.int64, "running": np.bool_, "terminated": np.bool_, "truncated": np.bool_}
"""Return and steps of the episode so far; whether the slot is not frozen; whether the episode ended with this step."""


class Data(NamedTuple):
    """All that the kernel reads and writes."""

    task: NDArray[Any]  # [1] a record of `Task`
    slots: NDArray[Any]  # [N] records of `SLOT`
    physics: Doubles  # [N, ·] MuJoCo's memory
    places: Doubles  # [N, bodies, 3] likewise, read-only: positions of bodies
    actions: Doubles  # [N, A, K] not clipped
    features: Doubles  # [N, ·] the number of every token: q, v, v clipped, sines, cosines, tracked position, forces, 0
    local: NDArray[np.int64]  # [A, D] the column of `features` for each entry of an agent's observation
    central: NDArray[np.int64]  # [1, Z] likewise for the critics' input
    entries: Doubles  # [max(D, Z)] working memory
    observation: Floats  # [N, A, ·]
    state: Floats  # [N, A, ·]
    reward: Doubles  # [N, A]


@inner
def standardise(values: Doubles, count: int, agents: int) -> tuple[float, float]:
    """Standardise, in place, the vector of so many values and a one-hot of length `agents` (0: none) after them.

    Returns the standardised values of the one-hot's one and of its zeros, which do not depend on where the one is.
    """
    total = 1.0 if agents else 0.0
    for i in range(count):
        total += values[i]
    mean = total / (count + agents)
    squares = (1.0 - mean) * (1.0 - mean) + (agents - 1) * (mean * mean) if agents else 0.0
    for i in range(count):
        difference = values[i] - mean
        squares += difference * difference
    deviation = np.sqrt(squares / (count + agents))
    for i in range(count):
        values[i] = (values[i] - mean) / deviation
    return (1.0 - mean) / deviation, (0.0 - mean) / deviation


@inner
def show(task: Record, features: Doubles, columns: NDArray[np.int64], values: Doubles, into: Floats) -> None:
    """Write for every agent the features in its columns (if there is one row only, in those) and, if asked for, the
    one-hot agent number; this is where they are rounded to float32."""
    count = columns.shape[1]
    one, zero = 1.0, 0.0
    for agent in range(into.shape[0]):
        if agent < columns.shape[0]:
            for i in range(count):
                values[i] = features[columns[agent, i]]
            if task.standardise:
                one, zero = standardise(values, count, into.shape[1] - count)
        for i in range(count):
            into[agent, i] = values[i]
        for i in range(count, into.shape[1]):
            into[agent, i] = zero
        if task.ids:
            into[agent, count + agent] = one


@inner
def healthy(task: Record, physics: Doubles) -> bool:
    """Whether the state is within the limits of `bodies.Ending`."""
    height = task.positions + task.height
    if not task.low < physics[height] < task.high:
        return False
    if np.isfinite(task.angle) and not abs(physics[height + 1]) < task.angle:
        return False
    if not np.isnan(task.entries):
        for i in range(2, task.position_size):
            if not abs(physics[task.positions + i]) < task.entries:
                return False
        for i in range(task.velocity_size):
            if not abs(physics[task.velocities + i]) < task.entries:
                return False
    return True


@Kernel
def run_slots(address: Any, what: int, part: int, start: int, stop: int) -> int:
    """For slots start … stop: STEP after the physics, BEGIN an episode in the state that the physics is in, or SHOW
    what agents see. Returns how many episodes ended."""
    data: Data = read(address)
    task, agents = data.task[0], data.reward.shape[1]
    ended = 0
    for n in range(start, stop):
        slot, row, physics = data.slots[n], data.features[n], data.physics[n]
        if what == STEP and not slot.running:
            slot.terminated = slot.truncated = False
            for agent in range(agents):
                data.reward[n, agent] = 0.0
            continue
        at = task.position_size
        for i in range(at):
            row[i] = physics[task.positions + i]
        for i in range(task.velocity_size):
            velocity = physics[task.velocities + i]
            row[at + i] = velocity
            row[at + task.velocity_size + i] = min(max(velocity, -10.0), 10.0)
        if what != SHOW:
            x, y, z = row[task.place], row[task.place + 1], row[task.place + 2]  # before this step
            for i in range(3):
                if task.body < 0:
                    now = row[0] if i == 0 else 0.0
                else:
                    now = data.places[n, task.body, i]
                    if task.target >= 0:
                        now -= data.places[n, task.target, i]
                row[task.place + i] = now
            if what == BEGIN:
                slot.returned = 0.0
                slot.length = 0
            else:
                cost = 0.0
                for agent in range(agents):
                    for dimension in range(data.actions.shape[2]):
                        action = data.actions[n, agent, dimension]
                        cost += action * action
                alive = not task.ends or healthy(task, physics)
                if task.reaching:
                    if task.distance_after:
                        x, y, z = row[task.place], row[task.place + 1], row[task.place + 2]
                    reward = -np.sqrt(x * x + y * y + z * z) - task.control_cost * cost
                else:
                    reward = (row[task.place] - x) / task.seconds
                    if alive or task.bonus_at_end:
                        reward += task.alive_bonus
                    reward -= task.control_cost * cost
                if task.contact_cost > 0.0:
                    contact = 0.0
                    for i in range(task.place + 3, len(row) - 1):
                        contact += row[i] * row[i]
                    reward -= task.contact_cost * contact
                for agent in range(agents):
                    data.reward[n, agent] = reward
                slot.returned += reward
                slot.length += 1
                slot.terminated = not alive
                slot.truncated = slot.length >= task.limit
                if slot.terminated or slot.truncated:
                    ended += 1
                    slot.running = task.auto_reset
        show(task, row, data.local, data.entries, data.observation[n])
        show(task, row, data.central, data.entries, data.state[n])
    return ended
