"""Where does the time of training go, lock-step by lock-step? One JSON line.

A cell through the real training loop, all seeds side by side, for two intervals between evaluations. In the first the
parts of every lock-step are timed; in the second, which counts for the rate, only where iterations begin. A lock-step
is one step of all environments: milliseconds of the policy (inputs in, actions out), of the environment, and the
bookkeeping that is left, by the wall clock and by that of the processor (all threads together, those of an evaluation
beside training too). Then what happens once per iteration, seconds of one evaluation, and the share of the wall clock
that the loop spends on evaluations or on waiting for one. Medians, without the first iteration and the first
evaluation, which compile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from fp3o.config import Cell, resolve
from fp3o.execution.choice import choose
from fp3o.execution.compute import Compute
from fp3o.training import run
from fp3o.training.block import Block, Saved
from fp3o.training.callbacks import Callback

PARTS = ("policy", "environment")  # of a lock-step; the rest of it is bookkeeping
ENDS = ("load", "noise", "finish")  # of a rollout: parameters to the policy, drawing noise, values and upload
SEEDS = 5
# Steps per second and seed by the wall clock, at least: of so many seeds with the cell's own interval, on one H200 with
# 16 cores, nothing else running.
TARGETS = {"mamujoco/halfcheetah-6x1/full/fp3o": 11_000, "smac/3s5z/full/fp3o": 9_000}


class Clocks(NamedTuple):
    """Seconds."""

    wall: float
    processor: float

    @staticmethod
    def now() -> Clocks:
        return Clocks(time.perf_counter(), time.process_time())

    def since(self, begun: Clocks) -> Clocks:
        return Clocks(self.wall - begun.wall, self.processor - begun.processor)


class Watch(Callback):
    """Seconds of every part of every iteration, and of every evaluation, which may run in the background."""

    def __init__(self, timed: int) -> None:
        """timed: how many iterations have their parts timed, which takes time itself."""
        self.timed_iterations = timed
        self._replaced: list[tuple[Any, str]] = []
        self.waited: list[float] = []
        """Wall seconds that every iteration spent on its evaluation, or on waiting for the one before."""
        self.iterations: list[dict[str, Clocks]] = []
        self.evaluations: list[dict[str, Clocks]] = []
        self.begun: list[Clocks] = []
        """When every iteration began."""
        self.path: dict[str, Any] = {}

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        self.waited.append(seconds["evaluation"])
        if len(self.waited) == self.timed_iterations:
            for owner, name in self._replaced:
                delattr(owner, name)

    def observe(self, block: Block) -> None:
        """Take the time of the methods of this block's members."""
        collector, evaluator = block.collector, block.evaluator
        self.path = block.execution.record() | {"threads": block.execution.threads}
        self.path["evaluations_in_background"] = block.background.pays
        for kept, part, owner, name in (
            (self.iterations, "policy", collector.policy, "begin"),
            (self.iterations, "policy", collector.policy, "finish"),
            (self.iterations, "environment", collector.env, "step"),
            (self.iterations, "load", collector.policy, "load"),
            (self.iterations, "noise", collector, "_noise"),
            (self.iterations, "finish", collector, "_finish"),
            (self.iterations, "update", block.learner, "update"),
            (self.evaluations, "policy", evaluator.policy, "act"),
            (self.evaluations, "environment", evaluator.env, "step"),
        ):
            setattr(owner, name, self._timed(kept, part, getattr(owner, name)))
            if kept is self.iterations:
                self._replaced.append((owner, name))
        self._begins(collector, "collect", "rollout", self.iterations, self.begun)
        self._begins(evaluator, "run", "whole", self.evaluations, [])

    def _begins(self, owner: Any, name: str, part: str, kept: list[dict[str, Clocks]], begun: list[Clocks]) -> None:
        method = self._timed(kept, part, getattr(owner, name))

        def call(*arguments: Any) -> Any:
            begun.append(Clocks.now())
            kept.append({})
            return method(*arguments)

        setattr(owner, name, call)

    def _timed(self, kept: list[dict[str, Clocks]], part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            begun = Clocks.now()
            result = method(*arguments)
            if not kept:  # a rehearsal, to compile
                return result
            took, before = Clocks.now().since(begun), kept[-1].get(part, Clocks(0.0, 0.0))
            kept[-1][part] = Clocks(before.wall + took.wall, before.processor + took.processor)
            return result

        return call


def medians(kept: list[dict[str, float]]) -> dict[str, float]:
    """Of every part, without the first time."""
    return {part: float(np.median([seconds[part] for seconds in kept[1:]])) for part in kept[0]}


def by(clock: str, kept: list[dict[str, Clocks]]) -> list[dict[str, float]]:
    return [{part: getattr(seconds, clock) for part, seconds in parts.items()} for parts in kept]


def measure(cell: str, seeds: int, interval: int, compute: Compute) -> dict[str, Any]:
    """The report, without machine and versions. interval: iterations per evaluation; 0: the cell's own."""
    whole = resolve(Cell.parse(cell), {})
    paper = whole.settings
    # As the whole cell is computed: so few iterations would not repay compiling.
    chosen = choose(whole, compute).mode
    compute = replace(compute, path="eager" if chosen == "eager" else "compiled")
    interval = interval or paper.evaluation_interval
    size, iterations = paper.rollout_length * paper.rollout_threads, 2 * interval + 2
    plan = resolve(Cell.parse(cell), {"total_steps": iterations * size, "evaluation_interval": interval})
    watch = Watch(timed=interval + 1)

    class Observed(Block):
        def begin(self, saved: Saved | None) -> None:
            super().begin(saved)
            watch.observe(self)

    setattr(run, "Block", Observed)  # noqa: B010 (mypy takes no other class for it)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run.train(plan, range(seeds), root, root / "scratch", compute, [watch])
    # From one evaluation to the next; the iteration before them compiles.
    first, last = watch.begun[interval + 1], watch.begun[2 * interval + 1]
    took = last.since(first)
    rate = {name: round(interval * size / seconds) for name, seconds in took._asdict().items()}
    share = sum(watch.waited[interval + 1 : 2 * interval + 1]) / took.wall
    found: dict[str, Any] = {clock: report_of(watch, paper.rollout_length, clock) for clock in Clocks._fields}
    usual = seeds == SEEDS and interval == paper.evaluation_interval and watch.path["device"] == "cuda"
    targets = {"wall": TARGETS[cell]} if usual and cell in TARGETS else {}
    found |= {"targets": targets, "missed": [clock for clock, target in targets.items() if rate[clock] < target]}
    report = {"cell": cell, "path": watch.path, "seeds": seeds, "iterations": iterations, "interval": interval}
    return report | {"steps_per_second_and_seed": rate, "share_of_evaluation": round(share, 3)} | found


def report_of(watch: Watch, steps: int, clock: str) -> dict[str, Any]:
    """Medians by one of the clocks. steps: lock-steps of a rollout."""
    iterations = by(clock, watch.iterations[: watch.timed_iterations])
    for seconds in iterations:
        seconds["bookkeeping"] = seconds["rollout"] - sum(seconds[part] for part in (*PARTS, *ENDS))
    once = medians(iterations)
    each = {part: 1000 * once.pop(part) / steps for part in (*PARTS, "bookkeeping")}
    parts = {
        "milliseconds_per_lock_step": each,
        "seconds_per_iteration": once,
        "seconds_per_evaluation": medians(by(clock, watch.evaluations)),
    }
    return {title: {name: round(x, 4) for name, x in values.items()} for title, values in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", default="mamujoco/halfcheetah-6x1/full/fp3o")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--interval", type=int, default=0, help="iterations per evaluation; 0: the cell's own")
    parser.add_argument("--threads", type=int, default=0, help="of the simulators; 0: what pays on this machine")
    parser.add_argument("--path", default="auto", choices=("auto", "eager", "compiled"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    asked = parser.parse_args()
    report: dict[str, Any] = {"benchmark": "rollout", "machine": platform.machine(), "cores": os.cpu_count()}
    report |= {"torch": torch.__version__, "load": os.getloadavg()[0]}
    report |= measure(asked.cell, asked.seeds, asked.interval, Compute(asked.device, asked.path, asked.threads))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
