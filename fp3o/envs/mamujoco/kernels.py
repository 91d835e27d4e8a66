"""A step of the environments in one compiled kernel, which threads share: MuJoCo's physics, then rewards, ends and
observations.

Slots are independent of each other, so numbers do not depend on N.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import Doubles, Floats
from fp3o.envs.native.compiled import inner
from fp3o.envs.native.intrinsics import address, call, give_way, look, put, real
from fp3o.envs.native.ranges import Kernel, Record, read

SIMULATE, STEP, BEGIN, SHOW = range(4)


SLOT = {"returned": np.float64, "length": np.int64, "running": np.bool_, "terminated": np.bool_, "truncated": np.bool_}
"""Return and steps of the episode so far; whether the slot is not frozen; whether the episode ended with this step."""


class Data(NamedTuple):
    """All that the kernel reads and writes."""

    task: NDArray[Any]  # [1] a record of `MamujocoBatch._numbers`
    slots: NDArray[Any]  # [N] records of `SLOT`
    functions: NDArray[Any]  # [1] a record of `physics.functions`
    simulators: NDArray[Any]  # [threads] records of `Simulators.addresses`
    states: Doubles  # [N, ·] a simulation's state
    done: NDArray[np.int64]  # [N, 1] pieces of this step that are done
    places: Doubles  # [N, 3] the tracked body after this step
    actions: Doubles  # [N, A, K] not clipped
    features: Doubles  # [N, ·] the number of every token: q, v, v clipped, sines, cosines, tracked position, forces, 0
    local: NDArray[np.int64]  # [A, D] the column of `features` for each entry of an agent's observation
    central: NDArray[np.int64]  # [1, Z] likewise for the critics' input
    entries: Doubles  # [threads, max(D, Z)] working memory
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
def healthy(task: Record, state: Doubles) -> bool:
    """Whether the state is within the limits of `bodies.Ending`."""
    height = task.positions + task.height
    if not task.low < state[height] < task.high:
        return False
    if np.isfinite(task.angle) and not abs(state[height + 1]) < task.angle:
        return False
    if not np.isnan(task.entries):
        for i in range(2, task.position_size):
            if not abs(state[task.positions + i]) < task.entries:
                return False
        for i in range(task.velocity_size):
            if not abs(state[task.velocities + i]) < task.entries:
                return False
    return True


@inner
def find_places(task: Record, simulator: Record, into: Doubles) -> None:
    """Write where the tracked body is, as MuJoCo has just computed it."""
    for i in range(3):
        into[i] = real(simulator.places + 8 * (3 * task.body + i))
        if task.target >= 0:
            into[i] -= real(simulator.places + 8 * (3 * task.target + i))


@inner
def simulate(data: Data, worker: int, n: int, piece: int) -> None:
    """The physics of one piece of a slot's step; after the last one, where the tracked body is and contact forces."""
    task, c, simulator = data.task[0], data.functions[0], data.simulators[worker]
    state, done = address(data.states[n]), address(data.done[n])
    while look(done) != piece:  # the piece before it, by another thread
        give_way()
    call(c.set_state, c.model, simulator.data, state, task.whole, 0)
    for _ in range(task.frames * (piece + 1) // task.pieces - task.frames * piece // task.pieces):
        call(c.step, c.model, simulator.data, 0, 0, 0)
    call(c.get_state, c.model, simulator.data, state, task.whole, 0)
    if piece + 1 < task.pieces:
        put(done, piece + 1)
        return
    put(done, 0)
    if task.body >= 0:
        find_places(task, simulator, data.places[n])
    if task.contact_cost > 0.0:
        call(c.forces, c.model, simulator.data, 0, 0, 0)
        for i in range(6 * task.bodies):
            force = real(simulator.forces + 8 * i)
            data.features[n, task.place + 3 + i] = -1.0 if force < -1.0 else 1.0 if force > 1.0 else force


@inner
def read_state(task: Record, state: Doubles, row: Doubles) -> None:
    """Positions and velocities to the features."""
    at = task.position_size
    for i in range(at):
        row[i] = state[task.positions + i]
    for i in range(task.velocity_size):
        velocity = state[task.velocities + i]
        row[at + i] = velocity
        row[at + task.velocity_size + i] = min(max(velocity, -10.0), 10.0)


@inner
def track(task: Record, place: Doubles, row: Doubles) -> None:
    """The tracked position to the features."""
    for i in range(3):
        row[task.place + i] = place[i] if task.body >= 0 else row[0] if i == 0 else 0.0


@inner
def settle(data: Data, n: int) -> None:
    """Reward and end of a step."""
    task, slot, row, agents = data.task[0], data.slots[n], data.features[n], data.reward.shape[1]
    x, y, z = row[task.place], row[task.place + 1], row[task.place + 2]  # before this step
    track(task, data.places[n], row)
    cost = 0.0
    for agent in range(agents):
        for dimension in range(data.actions.shape[2]):
            action = data.actions[n, agent, dimension]
            cost += action * action
    alive = not task.ends or healthy(task, data.states[n])
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
        slot.running = task.auto_reset


@inner
def begin(data: Data, worker: int, n: int) -> None:
    """An episode, in the state that the slot is in."""
    task, c, simulator = data.task[0], data.functions[0], data.simulators[worker]
    if task.body >= 0:
        state = address(data.states[n])
        call(c.set_state, c.model, simulator.data, state, task.whole, 0)
        call(c.places, c.model, simulator.data, 0, 0, 0)
        call(c.get_state, c.model, simulator.data, state, task.whole, 0)
        find_places(task, simulator, data.places[n])
    read_state(task, data.states[n], data.features[n])
    track(task, data.places[n], data.features[n])
    data.slots[n].returned = 0.0
    data.slots[n].length = 0


@Kernel
def run_slots(table: Any, what: int, worker: int, start: int, stop: int) -> int:
    """For slots start … stop: STEP after the physics, BEGIN an episode in the state that the slot is in, or SHOW what
    agents see. SIMULATE: the physics of a step, then STEP unless Python has work between (reaching); start … stop are
    pieces of steps, of which the first pieces of all slots have the highest numbers."""
    data: Data = read(table)
    task, slots = data.task[0], len(data.slots)
    for number in range(start, stop):
        n, piece = number % slots, task.pieces - 1 - number // slots
        slot = data.slots[n]
        if what == SIMULATE:
            if slot.running:
                simulate(data, worker, n, piece)
            if task.reaching or piece + 1 < task.pieces:
                continue
        if what == BEGIN:
            begin(data, worker, n)
        elif what == SHOW:
            read_state(task, data.states[n], data.features[n])
        elif slot.running:
            read_state(task, data.states[n], data.features[n])
            settle(data, n)
        else:
            slot.terminated = slot.truncated = False
            for agent in range(data.reward.shape[1]):
                data.reward[n, agent] = 0.0
            continue
        show(task, data.features[n], data.local, data.entries[worker], data.observation[n])
        show(task, data.features[n], data.central, data.entries[worker], data.state[n])
    return 0
