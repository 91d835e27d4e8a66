"""How long does one whole training iteration take, in units of its own physics? One JSON line.

Five seeds of six-agent HalfCheetah under full sharing train compiled, on one thread, through the real training loop
with its records and evaluations. The unit is a bare loop of mj_step over the very 20,000 steps of the iteration just
measured. Beside it, in the same process, the pattern of the released code for one seed: one subprocess per environment,
one agent after the other in rollout and GAE, NumPy buffers uploaded minibatch by minibatch. Processor clocks throughout
(the same as wall time on a quiet machine), the best of several, unit and iteration in turns: neighbours disturb both
alike.

--side-by-side instead runs the cell alone and then twice at the same time, by the wall clock: for a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np
import torch
from environments import bodies, plain_model, subprocess_worker  # type: ignore[import-not-found]  # beside this file
from numpy.typing import NDArray
from update import (  # type: ignore[import-not-found]  # beside this file
    SETTINGS,
    SPEC,
    STEPS_PER_UPDATE,
    PlainLearner,
    fork,
    made_up_rollout,
)

from fp3o.config import Cell, resolve
from fp3o.config.options import MamujocoOptions
from fp3o.envs import make
from fp3o.envs.interface import BatchEnv, Transition
from fp3o.execution.compute import Compute
from fp3o.learner.update import Learner
from fp3o.machine import peak_memory_mib
from fp3o.rollout.collector import Collector
from fp3o.rollout.evaluation import Evaluator
from fp3o.training import block, run
from fp3o.training.callbacks import Callback

TASK = "halfcheetah-6x1"
SEEDS = (0, 1, 2, 3, 4)
# Whole iteration over physics, at most; released pattern over ours, at least; MiB, at most.
TARGETS = {"fp3o": 4.5, "mappo": 3.2, "released_pattern": 10.0, "memory_mib": 1536.0}
EVERY = 25  # iterations per evaluation, as in the paper's cells


class Recording:
    """Training environments that remember where they started and what was done to them since."""

    def __init__(self, env: BatchEnv) -> None:
        self._env = env
        self.actions: list[NDArray[Any]] = []
        self.start: dict[str, NDArray[Any]] = {}
        self.reached: NDArray[Any] = np.empty(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self) -> None:
        self.actions, self.start = [], self._env.state_dict()

    def step(self, actions: NDArray[Any]) -> Transition:
        if len(self.actions) == SETTINGS.rollout_length - 1:
            self.reached = self._env.state_dict()["qpos"]  # the last step resets
        self.actions.append(actions.copy())
        return self._env.step(actions)


class Physics:
    """A bare loop of mj_step."""

    def __init__(self, slots: int) -> None:
        self.body, _ = bodies.find(TASK, MamujocoOptions())
        self.model = plain_model(self.body)
        self.simulations = [mujoco.MjData(self.model) for _ in range(slots)]

    def seconds(self, recording: Recording) -> float:
        """Of the recorded steps; a check that they are the same."""
        controls = np.stack(recording.actions).reshape(len(recording.actions), len(self.simulations), -1)
        for slot, simulation in enumerate(self.simulations):
            mujoco.mj_resetData(self.model, simulation)
            simulation.qpos[:], simulation.qvel[:] = (recording.start[name][slot] for name in ("qpos", "qvel"))
        skip = self.body.frame_skip
        begun = time.process_time()
        for control in controls[:-1]:
            for slot, simulation in enumerate(self.simulations):
                simulation.ctrl[:] = control[slot]
                mujoco.mj_step(self.model, simulation, skip)
        seconds = time.process_time() - begun
        reached = np.array([simulation.qpos for simulation in self.simulations])
        assert np.array_equal(reached, recording.reached), "another trajectory"
        return seconds * len(controls) / (len(controls) - 1)


class Stopwatch(Callback):
    """Takes the time of every iteration of the real loop; plays its physics bare in between."""

    def __init__(self, physics: Physics | None) -> None:
        self.physics = physics
        self.recording: Recording | None = None
        self.clock = time.perf_counter if physics is None else time.process_time
        self.seconds: dict[str, list[float]] = {
            name: [] for name in ("iteration", "rollout", "update", "evaluation", "physics")
        }
        self.started = self.clock()

    def begin(self, env_steps: int) -> None:
        assert self.recording is not None
        self.recording.begin()
        self.started = self.clock()

    def advance(self, env_steps: int) -> None:
        assert self.recording is not None
        took = self.clock() - self.started
        number = len(self.seconds["iteration"])
        self.seconds["iteration"].append(took - (self.seconds["evaluation"][-1] if self.evaluates(number) else 0.0))
        if self.physics is not None:
            self.seconds["physics"].append(self.physics.seconds(self.recording))
        self.recording.begin()
        self.started = self.clock()

    interval = 3

    def evaluates(self, iteration: int) -> bool:
        return iteration % self.interval == 0

    def best(self, name: str) -> float:
        """Without the first, which compiles."""
        return min(self.seconds[name][1:])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time the phases of the loop, and record what its training environments do."""
        undo: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, new: Any) -> None:
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, new)

        def timed(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                begun = self.clock()
                result = function(*arguments)
                self.seconds[phase].append(self.clock() - begun)
                return result

            return call

        def recorded(*arguments: Any, **options: Any) -> Any:
            self.recording = Recording(make(*arguments, **options))
            return self.recording

        replace(block, "make", recorded)
        for phase, owner, name in (
            ("rollout", Collector, "collect"),
            ("update", Learner, "update"),
            ("evaluation", Evaluator, "run"),
        ):
            replace(owner, name, timed(phase, getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, old in reversed(undo):
                setattr(owner, name, old)


def train(algorithm: str, iterations: int, physics: Physics | None) -> Stopwatch:
    """The real loop on the paper's settings, a few iterations."""
    size = SETTINGS.rollout_length * SETTINGS.rollout_threads
    watch = Stopwatch(physics)
    overrides = {"total_steps": iterations * size, "evaluation_interval": watch.interval}
    plan = resolve(Cell.parse(f"mamujoco/{TASK}/full/{algorithm}"), overrides)
    with tempfile.TemporaryDirectory() as folder, watch.watching():
        root = Path(folder)
        run.train(plan, SEEDS, root, root / "scratch", Compute("cpu", "compiled"), [watch])
    return watch


def report_of(watch: Stopwatch) -> dict[str, Any]:
    """Seconds of five seeds, and how many times their physics a whole iteration costs."""
    best = {name: watch.best(name) for name in watch.seconds}
    whole = best["iteration"] + best["evaluation"] / EVERY
    return {
        "iteration_over_physics": round(whole / best["physics"], 2),
        "without_evaluation": round(best["iteration"] / best["physics"], 2),
        "share_of_physics": round((1 + physics_of_evaluation()) * best["physics"] / whole, 3),
        "seconds": {name: round(value, 3) for name, value in (best | {"whole": whole}).items()},
    }


def physics_of_evaluation() -> float:
    """Physics of an evaluation, spread over its iterations, in units of a rollout's."""
    return SETTINGS.evaluation_episodes / SETTINGS.rollout_threads / EVERY


# The released code's pattern ------------------------------------------------------------------------------------------


def worker(task: str, pipe: Connection, clock: Connection) -> None:
    """One environment; a second thread tells how much processor time it has taken."""

    def tell() -> None:
        while clock.recv():
            clock.send(time.process_time())

    threading.Thread(target=tell, daemon=True).start()
    subprocess_worker(task, pipe)


class Released:
    """One seed, full sharing: what the released code does in an iteration, and in the order it does it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self.clocks, self.workers = [], [], []
        for _ in range(SETTINGS.rollout_threads):
            (pipe, theirs), (clock, their_clock) = context.Pipe(), context.Pipe()
            process = context.Process(target=worker, args=(TASK, theirs, their_clock), daemon=True)
            process.start()
            self.pipes.append(pipe)
            self.clocks.append(clock)
            self.workers.append(process)
        self.learner = PlainLearner(0)
        self.step = fork("full", made_up_rollout(1))
        times, slots = SETTINGS.rollout_length, SETTINGS.rollout_threads

        def buffer(*shape: int) -> NDArray[np.float32]:
            return np.zeros(shape, np.float32)

        self.buffers = [
            {
                "observation": buffer(times + 1, slots, SPEC.observation_size),
                "state": buffer(times + 1, slots, SPEC.state_size),
                "action": buffer(times, slots, 1),
                "log_prob": buffer(times, slots, 1),
                "value": buffer(times + 1, slots, 1),
                "reward": buffer(times, slots, 1),
                "mask": buffer(times + 1, slots, 1),
                "returns": buffer(times + 1, slots, 1),
            }
            for _ in range(SPEC.agents)
        ]

    def now(self) -> float:
        """Processor seconds of this process and its environments."""
        for clock in self.clocks:
            clock.send(True)
        return time.process_time() + sum(clock.recv() for clock in self.clocks)

    @torch.no_grad()
    def act(self, agent: int, time_step: int) -> None:
        """Actor and critic of one agent on one lock-step."""
        kept = self.buffers[agent]
        observation = torch.from_numpy(kept["observation"][time_step]).to(dtype=torch.float32)
        state = torch.from_numpy(kept["state"][time_step]).to(dtype=torch.float32)
        density = torch.distributions.Normal(
            self.learner.actor(observation), (0.5 * torch.sigmoid(self.learner.psi)).expand(len(observation), 1)
        )
        action = density.sample()
        kept["action"][time_step] = action.numpy()
        kept["log_prob"][time_step] = density.log_prob(action).numpy()
        kept["value"][time_step] = self.learner.critic(state).numpy()

    def collect(self, steps: int) -> None:
        for seed, pipe in enumerate(self.pipes):
            pipe.send(seed)
        for t in range(steps):
            for agent in range(SPEC.agents):
                self.act(agent, t)
            joint = np.concatenate([kept["action"][t] for kept in self.buffers], axis=1)
            for pipe, action in zip(self.pipes, joint, strict=True):
                pipe.send(action)
            answers = [pipe.recv() for pipe in self.pipes]
            observations, states, rewards, dones = (np.array(part) for part in zip(*answers, strict=True))
            for agent, kept in enumerate(self.buffers):
                kept["observation"][t + 1] = observations[:, agent]
                kept["state"][t + 1] = states[:, agent]
                kept["reward"][t] = rewards[:, None]
                kept["mask"][t + 1] = 1.0 - dones[:, None]

    def returns(self) -> None:
        """GAE, one agent after the other, step by step."""
        gamma, smoothing = SETTINGS.gamma, SETTINGS.gae_lambda
        for kept in self.buffers:
            advantage: Any = 0.0
            for t in reversed(range(SETTINGS.rollout_length)):
                keep = kept["mask"][t + 1]
                delta = kept["reward"][t] + gamma * kept["value"][t + 1] * keep - kept["value"][t]
                advantage = delta + gamma * smoothing * keep * advantage
                kept["returns"][t] = advantage + kept["value"][t]

    @torch.no_grad()
    def log_ratios(self) -> None:
        """The whole buffer of each agent under the policy, before and after each of FP3O's two steps."""
        for _ in range(4):
            for kept in self.buffers:
                rows = torch.from_numpy(kept["observation"][:-1].reshape(-1, SPEC.observation_size))
                density = torch.distributions.Normal(self.learner.actor(rows), 0.5 * torch.sigmoid(self.learner.psi))
                density.log_prob(torch.from_numpy(kept["action"].reshape(-1, 1))).numpy()

    def parts(self) -> dict[str, Callable[[], float]]:
        """What an iteration consists of: each runs a piece of it and says how many such pieces there are."""

        def rollout() -> float:
            self.collect(SETTINGS.rollout_length // 4)
            return 4.0

        def gae() -> float:
            self.returns()
            self.log_ratios()
            return 1.0

        def update() -> float:
            for number in range(SETTINGS.minibatches):
                self.step(number)
            return STEPS_PER_UPDATE / SETTINGS.minibatches

        return {"rollout": rollout, "gae": gae, "update": update}

    def seconds(self, rounds: int) -> dict[str, float]:
        """Processor seconds of an iteration of one seed by part, best of several rounds taken in turn."""
        best = dict.fromkeys(self.parts(), float("inf"))
        for _ in range(rounds):
            for name, part in self.parts().items():
                begun = self.now()
                pieces = part()
                best[name] = min(best[name], (self.now() - begun) * pieces)
        # An evaluation plays 32 episodes in one environment: a step costs about a slot's share of a lock-step's
        # physics and all of its inference. Counted at the rollout's price per environment step, which favours them.
        share = SETTINGS.evaluation_episodes / SETTINGS.rollout_threads / EVERY
        return best | {"evaluation": best["rollout"] * share}

    def close(self) -> None:
        for pipe, clock, process in zip(self.pipes, self.clocks, self.workers, strict=True):
            clock.send(False)
            pipe.send(None)
            process.join()


# Two cells side by side ----------------------------------------------------------------------------------------------


def side_by_side(iterations: int) -> dict[str, Any]:
    """Wall seconds per iteration of the cell alone, and of two at the same time."""
    command = [sys.executable, __file__, "--wall", "--iterations", str(iterations)]

    def run(count: int) -> list[float]:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        return [float(process.communicate()[0]) for process in started]

    run(1)  # fills the compiler's cache
    (alone,) = run(1)
    together = run(2)
    return {"alone": alone, "together": together, "loss": round(max(together) / alone - 1, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=7, help="of each algorithm; the first compiles")
    parser.add_argument("--rounds", type=int, default=3, help="of the released pattern")
    parser.add_argument("--side-by-side", action="store_true")
    parser.add_argument("--wall", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error(f"--rounds {asked.rounds}: the first round warms up; allowed: 2 or more")
    torch.set_num_threads(1)
    if asked.wall:
        watch = train("fp3o", asked.iterations, None)
        print(np.median(watch.seconds["iteration"][1:]))
        return
    report: dict[str, Any] = {"benchmark": "training", "machine": platform.machine(), "torch": torch.__version__}
    report |= {"mujoco": mujoco.__version__, "cores": os.cpu_count(), "seeds": len(SEEDS), "targets": TARGETS}
    if asked.side_by_side:
        print(json.dumps(report | {"side_by_side": side_by_side(asked.iterations), "load": os.getloadavg()[0]}))
        return
    physics = Physics(len(SEEDS) * SETTINGS.rollout_threads)
    for algorithm in ("fp3o", "mappo"):
        report[algorithm] = report_of(train(algorithm, asked.iterations, physics))
    report["memory_mib"] = round(peak_memory_mib())
    released = Released()
    seconds = released.seconds(asked.rounds)
    released.close()
    cell = len(SEEDS) * sum(seconds.values())
    report["released_pattern"] = {
        "seconds_of_one_seed": {name: round(value, 3) for name, value in seconds.items()},
        "seconds_of_five_seeds": round(cell, 2),
        "over_ours": round(cell / report["fp3o"]["seconds"]["whole"], 2),
    }
    found = {name: report[name]["iteration_over_physics"] for name in ("fp3o", "mappo")}
    missed = [name for name, value in found.items() if value > TARGETS[name]]
    missed += ["released_pattern"] if report["released_pattern"]["over_ours"] < TARGETS["released_pattern"] else []
    missed += ["memory_mib"] if report["memory_mib"] > TARGETS["memory_mib"] else []
    print(json.dumps(report | {"missed": missed, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
