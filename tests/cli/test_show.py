"""`fp3o show`: every value with its source, before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call

from fp3o.config import Cell, load_suite, resolve

CELL = "mamujoco/halfcheetah-6x1/full/fp3o-double-clip"


def test_values_and_their_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("show", CELL, "--set", "clip=0.1", "--seeds", "3", "--out", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    digest = resolve(Cell.parse(CELL), {"clip": "0.1"}).digest
    assert lines[:6] == [
        f"{CELL} {digest}",
        "steps        10,000,000 per seed",
        "iterations   2,500 of 1,000 steps × 4 environments",
        "evaluations  100 of 32 episodes",
        "seeds        3: 0 of 1 finished",
        f"runs         {tmp_path / CELL / digest}",
    ]
    rows = {line[2:].split()[0]: line for line in lines[7:]}
    assert rows["rollout_length"].endswith(" 1000      tasks.yaml, mamujoco (Paper, Table mujoco1: episode length)")
    assert "tasks.yaml, mamujoco halfcheetah-6x1 (Table mujoco2: " in rows["total_steps"]
    assert rows["clip"].startswith("* clip ")
    assert rows["clip"].endswith(" 0.1       --set")
    assert rows["clip_others"].endswith(" 0.05      follows clip")
    assert rows["double_clip"].endswith(" variant fp3o-double-clip")
    assert rows["value_normalisation"].startswith("  value_normalisation  ")
    assert rows["action_order"].endswith(" default")
    assert not list(tmp_path.iterdir())


def test_a_suites_values(capsys: pytest.CaptureFixture[str]) -> None:
    plan, _ = load_suite("smoke").runs()[-1]
    assert call("show", plan.cell.id, "--suite", "smoke", "--seeds", "0") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{plan.cell.id} {plan.digest}\n")
    assert " suite smoke\n" in shown
    evaluations = sum(plan.evaluates_after(iteration) for iteration in range(plan.iterations))
    assert f"evaluations  {evaluations} of " in shown


def test_budgets_of_any_size_are_shown_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--set", "total_steps=1000000000000", "--set", "rollout_length=1", "--set", "minibatches=1")
    assert call("show", "mamujoco/ant-2x4/full/ippo", *more, "--out", str(tmp_path)) == 0
    assert "iterations   250,000,000,000 of 1 steps" in capsys.readouterr().out
