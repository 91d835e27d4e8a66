"""Runs of seconds: tiny plans, runs that are asked to stop, and what they leave on disk."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from fp3o.config import Cell, Plan, Scalar, resolve
from fp3o.execution.compute import Compute
from fp3o.runs import records
from fp3o.runs.interrupt import Interrupted
from fp3o.training import run
from fp3o.training.callbacks import Callback

PLAIN = Compute("cpu", "eager")
# A rollout, a network and an evaluation as small as they can be while everything still takes part.
TINY: dict[str, dict[str, Scalar]] = {
    "mamujoco": {"rollout_length": 10, "episode_limit": 8},
    "mpe": {"rollout_length": 25, "minibatches": 1, "chunk_length": 10},
    "matrix": {"rollout_length": 8, "total_steps": 32},
    "smac": {"rollout_length": 20, "minibatches": 1, "chunk_length": 10},
}


def tiny_plan(cell: str, iterations: int = 2, **overrides: Scalar) -> Plan:
    """The cell with two environments, one epoch, two evaluation episodes after every iteration."""
    domain = cell.split("/", maxsplit=1)[0]
    common: dict[str, Scalar] = {"rollout_threads": 2, "epochs": 1, "minibatches": 2, "hidden_size": 16}
    common |= {"evaluation_interval": 1, "evaluation_episodes": 2, "final_episodes": 2}
    chosen = common | TINY[domain] | overrides
    chosen["total_steps"] = iterations * int(chosen["rollout_length"]) * int(chosen["rollout_threads"])
    return resolve(Cell.parse(cell), chosen)


class StopAfter(Callback):
    """Asks the run to stop, as Ctrl-C would, once it has come so far."""

    may_stop = True

    def __init__(self, steps: int) -> None:
        self._stop = steps

    def advance(self, env_steps: int) -> None:
        if env_steps >= self._stop:
            signal.raise_signal(signal.SIGINT)


def train(
    plan: Plan,
    folder: Path,
    seeds: Sequence[int] = (0,),
    path: Literal["eager", "compiled"] = "eager",
    allow_path_change: bool = False,
) -> dict[str, Any]:
    """Train to the end on the CPU; the files (see `files`)."""
    compute = Compute("cpu", path, allow_path_change=allow_path_change)
    run.train(plan, seeds, folder, folder / "scratch", compute)
    return files(folder)


def begin(plan: Plan, folder: Path, seeds: Sequence[int] = (0,)) -> None:
    """Stop after the first iteration."""
    stop = StopAfter(plan.settings.rollout_length * plan.settings.rollout_threads)
    with pytest.raises(Interrupted):
        run.train(plan, seeds, folder, folder / "scratch", PLAIN, [stop])
    assert not files(folder)


def train_interrupted(plan: Plan, folder: Path, seeds: Sequence[int] = (0,)) -> dict[str, Any]:
    """Stop after the first iteration, then go on with the same command."""
    begin(plan, folder, seeds)
    found = train(plan, folder, seeds)
    assert all(document["volatile"]["resumes"] == 1 for document in documents(folder).values())
    return found


def documents(folder: Path) -> dict[int, dict[str, Any]]:
    """run.json of every finished seed."""
    found = [records.read_run(path) for path in folder.rglob(records.RUN)]
    return {document["seed"]: document for document in sorted(found, key=lambda document: int(document["seed"]))}


def files(folder: Path) -> dict[str, Any]:
    """Published files by seed and name; of run.json only what must repeat."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("seed-*/*")):
        if "scratch" in path.relative_to(folder).parts:
            continue
        name = f"{path.parent.name}/{path.name}"
        if path.name == records.RUN:
            found[name] = records.without_volatile(records.read_run(path))
            del found[name]["git"]  # Somebody may commit while the tests run.
        else:
            found[name] = path.read_bytes()
    return found
