"""Speed of the environment engines against what others do with the same physics. One JSON line per task.

Rates are environment steps per second, each the best of several short slices taken in turn, so that a noisy machine
disturbs all of them alike; what counts are the ratios of one run. What runs in one thread is timed by that thread's
processor clock (the same as wall time on a quiet machine), two threads and subprocesses by the wall's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MamujocoOptions, MpeOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.mamujoco import MamujocoBatch, bodies, make, models, physics
from fp3o.envs.mpe import engine as mpe

Slice = Callable[[], int]  # runs a while, returns the environment steps it took
WALL = ("engine_20_two_threads", "subprocesses")  # more than one thread: timed by the wall clock

CLOCK = physics.CLOCK.value
"""That MuJoCo's Python module has set, and our engine stops."""
# Least ratios to reach: engine with one thread to a raw mj_step loop (20 and 4 slots), to gymnasium-robotics and to
# itself with MuJoCo's clock; engine with two threads and 20 slots to four subprocesses with pipes; MPE: 128 worlds to
# one of the mpe2 package.
TARGETS: dict[str, dict[str, float]] = {
    "mamujoco/reacher-2x1": {"raw_20": 0.85, "subprocesses": 5.0, "robotics": 1.5, "clock": 1.03},
    "mamujoco/ant-2x4": {"raw_20": 0.85, "subprocesses": 2.5, "robotics": 1.5, "clock": 1.03},
    "mamujoco/walker2d-2x3": {"raw_20": 0.85, "subprocesses": 2.5, "robotics": 1.5, "clock": 1.03},
    "mamujoco/hopper-3x1": {"raw_20": 0.85, "subprocesses": 2.5, "robotics": 1.5, "clock": 1.03},
    "mamujoco/halfcheetah-6x1": {"raw_20": 0.85, "raw_4": 0.75, "subprocesses": 5.0, "robotics": 1.5, "clock": 1.03},
    "mamujoco/swimmer-8x2": {"raw_20": 0.85, "subprocesses": 2.5, "robotics": 1.5, "clock": 1.03},
}
ROBOTICS = {
    "reacher-2x1": ("Reacher", "2x1"),
    "ant-2x4": ("Ant", "2x4"),
    "walker2d-2x3": ("Walker2d", "2x3"),
    "hopper-3x1": ("Hopper", "3x1"),
    "halfcheetah-6x1": ("HalfCheetah", "6x1"),
    "swimmer-8x2": ("ManySegmentSwimmer", "8x2"),
}
MPE2 = {
    "simple-reference": "simple_reference_v3",
    "simple-speaker-listener": "simple_speaker_listener_v4",
    "simple-spread": "simple_spread_v3",
}
TARGETS |= {f"mpe/{task}": {"mappo": 300.0, "mpe2": 300.0} for task in MPE2}
STEPS = 50  # lock-steps per slice


def best_rates(slices: dict[str, Slice], repeats: int) -> dict[str, float]:
    """Steps per second of each, best of several, taken in turn."""
    rates = dict.fromkeys(slices, 0.0)
    for one in slices.values():
        one()
    for _ in range(repeats):
        for name, one in slices.items():
            clock = time.perf_counter if name in WALL else time.thread_time
            begin = clock()
            steps = one()
            rates[name] = max(rates[name], steps / (clock() - begin))
    return rates


def random_actions(env: MamujocoBatch) -> NDArray[np.float32]:
    """[STEPS, N, A, K] as a fresh policy's: within the control range."""
    shape = (STEPS, env.slots, env.spec.agents, env.spec.action.width)
    return np.random.default_rng(0).uniform(-1.0, 1.0, shape).astype(np.float32)


def engine_slice(task: str, slots: int, threads: int) -> Slice:
    """Our engine with observations, critic states, rewards and resets."""
    env = make(task, slots, threads=threads)
    env.reset(slot_seeds(0, "speed", slots))
    start, actions = env.state_dict(), random_actions(env)

    def run() -> int:
        env.load_state_dict(start)
        for action in actions:
            env.step(action)
        return STEPS * slots

    return run


def clocked_slice(task: str, slots: int) -> Slice:
    """Our engine, with steps timed by MuJoCo."""
    plain = engine_slice(task, slots, threads=1)

    def run() -> int:
        physics.CLOCK.value = CLOCK
        try:
            return plain()
        finally:
            physics.CLOCK.value = None

    return run


def plain_model(body: bodies.Body) -> Any:
    """The model file without our engine's flags; contact margins halved, so that the motion is the same."""
    model = models.load(body)
    model.geom_margin *= 0.5
    return model


class Fresh(NamedTuple):
    """A slot that starts anew after this lock-step."""

    slot: int
    position: NDArray[np.float64]
    velocity: NDArray[np.float64]


def raw_slice(task: str, slots: int) -> Slice:
    """A bare loop of mj_step over the engine's very trajectory: no observations, no rewards."""
    env = make(task, slots, threads=1)
    env.reset(slot_seeds(0, "speed", slots))
    start = env.state_dict()
    actions = random_actions(env)
    fresh: list[list[Fresh]] = []
    for action in actions:
        ended = [episode.slot for episode in env.step(action).episodes]
        now = env.state_dict()
        fresh.append([Fresh(slot, now["qpos"][slot], now["qvel"][slot]) for slot in ended])
    body, _ = bodies.find(task, MamujocoOptions())
    model = plain_model(body)
    simulations = [mujoco.MjData(model) for _ in range(slots)]
    controls = actions.reshape(STEPS, slots, -1).astype(np.float64)

    def begin(slot: int, position: NDArray[np.float64], velocity: NDArray[np.float64]) -> None:
        mujoco.mj_resetData(model, simulations[slot])
        simulations[slot].qpos[:], simulations[slot].qvel[:] = position, velocity

    def run() -> int:
        for slot in range(slots):
            begin(slot, start["qpos"][slot], start["qvel"][slot])
        for control, restarts in zip(controls, fresh, strict=True):
            for slot, simulation in enumerate(simulations):
                simulation.ctrl[:] = control[slot]
                mujoco.mj_step(model, simulation, body.frame_skip)
            for restart in restarts:
                begin(*restart)
        return STEPS * slots

    run()
    after = env.state_dict()
    reached = np.array([simulation.qpos for simulation in simulations])
    restarted = [one.slot for one in fresh[-1]]
    assert np.array_equal(np.delete(reached, restarted, 0), np.delete(after["qpos"], restarted, 0)), (
        "another trajectory"
    )
    return run


def standardised(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    """[A, …] each row by itself, agent numbers appended."""
    rows = np.concatenate([vectors, np.eye(len(vectors))], axis=1)
    return ((rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)).astype(np.float32)


def subprocess_worker(task: str, pipe: Connection) -> None:
    """One environment as on-policy's forks run it: MuJoCo and NumPy, an answer per action through a pipe. Kept lean."""
    layout = make(task, 1).layout
    body, _ = bodies.find(task, MamujocoOptions())
    model = plain_model(body)
    data, generator = mujoco.MjData(model), np.random.default_rng(0)
    first = {"q": 0, "v": model.nq, "c": model.nq, "s": model.nq + model.nv, "k": 2 * model.nq + model.nv}
    first |= {"d": 3 * model.nq + model.nv, "0": 3 * model.nq + model.nv + 3}
    local = np.array([[first[token[0]] + int(token[1:] or 0) for token in agent] for agent in layout.local])
    state = np.array([first[token[0]] + int(token[1:] or 0) for token in layout.state])

    def begin() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:] += generator.uniform(-body.start.position, body.start.position, model.nq)
        mujoco.mj_forward(model, data)

    length = 0
    while (action := pipe.recv()) is not None:
        if isinstance(action, int):  # a seed: start afresh
            generator, length = np.random.default_rng(action), 0
            begin()
            continue
        before = data.qpos[0]
        data.ctrl[:] = action
        mujoco.mj_step(model, data, body.frame_skip)
        moved = (data.qpos[0] - before) / (model.opt.timestep * body.frame_skip)
        reward = moved + body.alive_bonus - body.control_cost * np.square(action).sum()
        length += 1
        end = body.ending
        done = length == 1000 or (end is not None and not end.low < data.qpos[end.height] < end.high)
        if done:
            begin()
            length = 0
        distance = data.xpos[-2] - data.xpos[-1]
        row = np.concatenate([data.qpos, data.qvel, np.sin(data.qpos), np.cos(data.qpos), distance, [0.0]])
        pipe.send((standardised(row[local]), standardised(np.tile(row[state], (len(local), 1))), reward, done))


@contextmanager
def subprocess_slice(task: str, environments: int) -> Iterator[Slice]:
    """One subprocess and pipe per environment, in lock-step."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(environments)]
    workers = [context.Process(target=subprocess_worker, args=(task, pair[1]), daemon=True) for pair in pairs]
    for worker in workers:
        worker.start()
    pipes = [pair[0] for pair in pairs]
    actions = random_actions(make(task, environments)).reshape(STEPS, environments, -1)

    def run() -> int:
        for seed, pipe in enumerate(pipes):
            pipe.send(seed)
        for action in actions:
            for pipe, one in zip(pipes, action, strict=True):
                pipe.send(one)
            answers = [pipe.recv() for pipe in pipes]
            for parts in zip(*answers, strict=True):
                np.array(parts)
        return STEPS * environments

    yield run
    for pipe in pipes:
        pipe.send(None)
    for worker in workers:
        worker.join()


def robotics_slice(task: str) -> Slice:
    """gymnasium-robotics' parallel environment, one of them."""
    from gymnasium_robotics import mamujoco_v1

    env = mamujoco_v1.parallel_env(*ROBOTICS[task], agent_obsk=5)
    generator = np.random.default_rng(0)
    actions: list[dict[str, Any]] = [
        {name: generator.uniform(-1.0, 1.0, env.action_space(name).shape) for name in env.possible_agents}
        for _ in range(STEPS)
    ]

    def run() -> int:
        env.reset(seed=0)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if any(terminated.values()) or any(truncated.values()):
                env.reset()
        return STEPS

    return run


def mamujoco_line(task: str, repeats: int) -> dict[str, Any]:
    """All rates and ratios of one task."""
    with subprocess_slice(task, 4) as subprocesses:
        slices: dict[str, Slice] = {
            "engine_20": engine_slice(task, 20, threads=1),
            "engine_20_clocked": clocked_slice(task, 20),
            "raw_20": raw_slice(task, 20),
            "engine_4": engine_slice(task, 4, threads=1),
            "raw_4": raw_slice(task, 4),
            "engine_20_two_threads": engine_slice(task, 20, threads=2),
            "subprocesses": subprocesses,
            "robotics": robotics_slice(task),
        }
        rates = best_rates(slices, repeats)
    ratios = {
        "raw_20": rates["engine_20"] / rates["raw_20"],
        "raw_4": rates["engine_4"] / rates["raw_4"],
        "subprocesses": rates["engine_20_two_threads"] / rates["subprocesses"],
        "robotics": rates["engine_20"] / rates["robotics"],
        "clock": rates["engine_20"] / rates["engine_20_clocked"],
    }
    return {
        "rates": {name: round(rate) for name, rate in rates.items()},
        "ratios": ratios,
        "mujoco": mujoco.__version__,
    }


def particle_slice(task: str, flavour: Literal["mappo", "mpe2"]) -> Slice:
    """Our particle engine, 128 worlds: four episodes with resets, observations, critic states and rewards."""
    env = mpe.make(task, 128, auto_reset=True, threads=1, options=MpeOptions(flavour=flavour))
    env.reset(slot_seeds(0, "speed", 128))
    sizes = (3,) if "speaker" in task else env.spec.action.sizes
    actions = np.random.default_rng(0).integers(sizes, size=(100, 128, env.spec.agents, len(sizes)))

    def run() -> int:
        for chosen in actions:
            env.step(chosen)
        return 128 * len(actions)

    return run


def package_slice(task: str) -> Slice:
    """One world of the mpe2 package through its parallel interface, four episodes."""
    env = importlib.import_module(f"mpe2.{MPE2[task]}").parallel_env()
    generator = np.random.default_rng(0)
    choices = {name: env.action_space(name).n for name in env.possible_agents}
    actions = [{name: int(generator.integers(n)) for name, n in choices.items()} for _ in range(25)]

    def run() -> int:
        for episode in range(4):
            env.reset(seed=episode)
            for chosen in actions:
                env.step(dict(chosen))
        return 4 * len(actions)

    return run


def mpe_line(task: str, repeats: int) -> dict[str, Any]:
    """Both flavours of the engine against the package."""
    slices = {
        "mappo": particle_slice(task, "mappo"),
        "mpe2": particle_slice(task, "mpe2"),
        "package": package_slice(task),
    }
    rates = best_rates(slices, repeats)
    return {
        "rates": {name: round(rate) for name, rate in rates.items()},
        "ratios": {flavour: rates[flavour] / rates["package"] for flavour in ("mappo", "mpe2")},
    }


LINES: dict[str, Callable[[int], dict[str, Any]]] = {
    **{f"mamujoco/{task}": partial(mamujoco_line, task) for task in ROBOTICS},
    **{f"mpe/{task}": partial(mpe_line, task) for task in MPE2},
}


def main() -> None:
    """Measure the named tasks, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=f"any of: {', '.join(LINES)}; default: all")
    parser.add_argument("--repeats", type=int, default=12, help="slices of which the best counts")
    asked = parser.parse_args()
    for name in asked.tasks:
        if name not in LINES:
            parser.error(f"unknown task {name!r}; allowed: {', '.join(LINES)}")
    warnings.simplefilter("ignore")
    mujoco.set_mju_user_warning(lambda message: None)  # gymnasium's HalfCheetah: no log file in the working directory
    for name in asked.tasks or LINES:
        line = LINES[name](asked.repeats)
        targets = TARGETS[name]
        ratios = {key: round(value, 3) for key, value in line.pop("ratios").items()}
        missed = sorted(key for key, least in targets.items() if ratios[key] < least)
        told = {
            "task": name,
            "ratios": ratios,
            "targets": targets,
            "missed": missed,
            **line,
            "load": os.getloadavg()[0],
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
