"""Settings at their edges: each trains one tiny iteration, or is refused in one line and leaves nothing behind."""

from __future__ import annotations

import random
import resource
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from short_runs import documents, files, train

from fp3o import machine
from fp3o.config import Cell, algorithms, option_names, resolve, setting_names
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import settings_of
from fp3o.envs import make
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.fields import Declared, declared
from fp3o.learner.update import Learner
from fp3o.training import memory, run

TINY: dict[str, dict[str, Any]] = {
    "matrix/two-step": {"rollout_length": 8},
    "mpe/simple-reference": {"rollout_length": 25, "chunk_length": 5},
    "mamujoco/hopper-3x1": {"rollout_length": 10, "episode_limit": 8},
}
SMALL = {"rollout_threads": 2, "epochs": 1, "minibatches": 1, "hidden_size": 16, "evaluation_interval": 1}
SMALL |= {"evaluation_episodes": 2, "final_episodes": 2}
# Allowed, and too long for a test beyond this.
LONG = {"rollout_length": 60, "rollout_threads": 10, "epochs": 4, "epochs_dependent": 4, "hidden_size": 64}
LONG |= {"evaluation_episodes": 5, "final_episodes": 5}

TEXTS = ("1e300", "9" * 400, "9" * 5000, "nan", "inf", "-inf", "", "x", "1_0", "٣")
ODD = (None, [1], {"a": 1}, True, 2.5, 1e-320, 10**400, 0, -1, 1, 2, 3)


def edges(field: Declared) -> list[Any]:
    """Values at, between and beyond what a field allows, and values of other types."""
    if field.choices or field.bounds is None:
        return [*field.choices, True, False, "true", "a:b", "a" * 5000, *TEXTS, *ODD]
    least, greatest = field.bounds.least, field.bounds.greatest
    return [least, greatest, least - 1, 2 * greatest + 1, (least + greatest) / 2, *TEXTS, *ODD]


Case = tuple[Cell, str, Any]


def cases() -> list[Case]:
    """Every setting and option with every edge; the value, so that a sample of them is the same on every machine."""
    found: list[Case] = []
    for row in TINY:
        for algorithm in algorithms():
            cell = Cell.parse(f"{row}/full/{algorithm}")
            fields = {**declared(settings_of(algorithm)), **declared(OPTIONS[cell.domain])}
            names = (*setting_names(cell), *option_names(cell.domain))
            found += [(cell, name, value) for name in names for value in edges(fields[name])]
    return found


def attempt(case: Case, folder: Path) -> str:
    """What becomes of a run with this value: trained, long (allowed, not tried) or the line that refuses it."""
    cell, name, value = case
    chosen = SMALL | TINY[f"{cell.domain}/{cell.task}"]
    chosen |= {"total_steps": chosen["rollout_length"] * chosen["rollout_threads"]} | {name: value}
    try:
        if name in ("rollout_length", "rollout_threads"):
            chosen["total_steps"] = 10**12
        plan = resolve(cell, chosen)
        if name in ("rollout_length", "rollout_threads"):
            steps = plan.settings.rollout_length * plan.settings.rollout_threads
            plan = resolve(cell, chosen | {"total_steps": steps})
        if plan.iterations > 2 or (name in LONG and getattr(plan.settings, name) > LONG[name]):
            return "long"
        train(plan, folder / "runs")
    except UserError as error:
        assert not folder.exists(), f"{case} left a folder"
        return str(error)
    assert documents(folder / "runs")
    return "trained"


def check(chosen: list[Case], tmp_path: Path) -> None:
    results = [attempt(case, tmp_path / str(k)) for k, case in enumerate(chosen)]
    assert not [line for line in results if "\n" in line or len(line) > 2000]
    refused = [line for line in results if line not in ("trained", "long")]
    assert all("allowed" in line for line in refused)
    assert 0.05 * len(results) < len(refused) < 0.95 * len(results)


def test_a_sample_of_edges(tmp_path: Path) -> None:
    check(random.Random(0).sample(cases(), 40), tmp_path)


@pytest.mark.slow
def test_many_edges(tmp_path: Path) -> None:
    check(random.Random(1).sample(cases(), 1080), tmp_path)


# --- Those that were tracebacks, hangs or left a folder -------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "name", "value", "words"),
    [
        ("matrix/two-step/full/mappo", "hidden_size", 1, "hidden_size = 1 is not allowed; allowed: 2 … 4096"),
        ("matrix/two-step/full/a2po", "blocks", 3, "blocks = 3 for 2 agents is not allowed; allowed: 0 … 2"),
        ("matrix/two-step/full/mappo", "total_steps", "1e300", "total_steps = 1e300 is not allowed"),
        ("matrix/two-step/full/mappo", "rollout_threads", 10**20, "rollout_threads = 100000000000000000000 is not"),
    ],
)
def test_a_refused_run_is_one_line_and_leaves_nothing(
    tmp_path: Path, cell: str, name: str, value: Any, words: str
) -> None:
    assert words in attempt((Cell.parse(cell), name, value), tmp_path / "new")


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_as_many_blocks_as_agents_train(tmp_path: Path, blocks: int) -> None:
    assert attempt((Cell.parse("matrix/two-step/none/a2po"), "blocks", blocks), tmp_path / "new") == "trained"


# --- Memory ---------------------------------------------------------------------------------------------------------

BANE = "smac/bane_vs_bane/full/mappo"  # Five seeds, measured: 5.3 GiB; 13.7 with the minibatch in one piece


@pytest.mark.parametrize(("rows", "measured"), [(9600, 5.3), (0, 13.7)])
def test_the_estimate_is_near_what_was_measured(rows: int, measured: float) -> None:
    env = make("smac", "bane_vs_bane", 1)
    plan = resolve(Cell.parse(BANE), {"slice_rows": rows, "evaluation_episodes": 1, "final_episodes": 1})
    total = memory.PROCESS + sum(memory.estimate(plan, env.spec, 5).values())
    assert 0.9 * measured < total / memory.GIB < 1.3 * measured


def test_a_gpu_holds_the_rollout_twice_where_steps_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("smac", "bane_vs_bane", 1)
    plan = resolve(Cell.parse(BANE))
    parts = memory.estimate(plan, env.spec, 5)
    once = memory.PROCESS + sum(parts.values()) - parts["environments"] + memory.valuing(plan, env.spec, 5)
    gpu = SimpleNamespace(total_memory=once + parts["rollout"] // 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1 << 62)
    memory.check(plan, env.spec, 5, "cuda")
    with pytest.raises(UserError, match=r"for 5 seeds side by side and the GPU has .*; most of it for rollout"):
        memory.check(plan, env.spec, 5, "cuda", replayed=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollout_length": 1_000_000, "rollout_threads": 1000, "total_steps": 10**9}, "rollout_threads = 1000"),
        ({"hidden_size": 4096, "rollout_length": 10_000, "total_steps": 10**9}, "hidden_size = 4096"),
    ],
)
def test_a_run_larger_than_the_machine_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(memory, "memory_bytes", lambda: memory.GIB)
    plan = resolve(Cell.parse("matrix/two-step/none/mappo"), changes)
    with pytest.raises(
        UserError, match=r"would need about .* GiB for 2 seeds side by side and this machine has 1.0"
    ) as e:
        train(plan, tmp_path / "new" / "runs", (0, 1))
    assert words in str(e.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("spare", "paired"), [(0, False), (memory.GIB, True)])
def test_a_machine_that_cannot_hold_both_gradients_computes_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, paired: bool
) -> None:
    cell = "mpe/simple-reference/full/mappo"
    plan = resolve(Cell.parse(cell), SMALL | TINY["mpe/simple-reference"] | {"total_steps": 50})
    env = make("mpe", "simple-reference", 1)
    needed = memory.PROCESS + sum(memory.estimate(plan, env.spec, 1).values()) + memory.valuing(plan, env.spec, 1)
    env.close()
    monkeypatch.setattr(memory, "memory_bytes", lambda: needed + spare)
    used: list[bool] = []
    fresh = Learner.fresh

    def noted(*arguments: Any, **options: Any) -> Learner:
        used.append(isinstance(options["wrap"], partial))
        return fresh(*arguments, **options)

    monkeypatch.setattr(Learner, "fresh", noted)
    run.train(plan, (0,), tmp_path, tmp_path / "scratch", Compute("cpu", "eager", 2))
    assert used == [paired]
    assert files(tmp_path) == train(plan, tmp_path / "one", (0,))


def test_too_many_environments_are_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "memory_bytes", lambda: memory.GIB)
    monkeypatch.setattr("fp3o.training.block.make", lambda *_, **__: pytest.fail("made environments"))
    plan = resolve(Cell.parse("mamujoco/ant-2x4/none/mappo"), {"rollout_threads": 100_000, "total_steps": 10**12})
    with pytest.raises(UserError, match="most of it for environments: rollout_threads = 100000"):
        train(plan, tmp_path / "new" / "runs")
    assert not (tmp_path / "new").exists()


def test_the_machine_has_memory() -> None:
    assert 2**28 < machine.memory_bytes() < 2**50


@pytest.mark.parametrize(("system", "most"), [("linux", 2**20), ("darwin", 2**30)])
def test_the_peak_is_a_gibibyte_on_any_system(system: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=most))
    assert machine.peak_memory_mib() == 1024
