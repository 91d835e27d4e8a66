"""The final policy is always evaluated, except on the paper's own schedule, whose score is defined without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from short_runs import files, tiny_plan, train, train_interrupted

from fp3o.config import Cell, load_suite, resolve
from fp3o.runs import records

CELL = "matrix/two-step/full/mappo"


def test_where_the_interval_misses_the_end(tmp_path: Path) -> None:
    plan = tiny_plan(CELL, 4, evaluation_interval=3)
    found = train(plan, tmp_path / "whole")
    (path,) = (tmp_path / "whole").rglob(records.EVALUATIONS)
    table = records.read_table(path)
    assert sorted(set(table["iteration"])) == [0, 3]
    hit = tiny_plan(CELL, 6, evaluation_interval=4)
    train(hit, tmp_path / "missed")
    (path,) = (tmp_path / "missed").rglob(records.EVALUATIONS)
    table = records.read_table(path)
    assert sorted(set(table["iteration"])) == [0, 4, 5]
    assert table["env_steps"].max() == hit.settings.total_steps
    assert files(tmp_path / "missed") == train_interrupted(hit, tmp_path / "resumed")
    assert len(found) == 4


def test_where_the_final_episodes_score_it(tmp_path: Path) -> None:
    plan = tiny_plan(CELL, 6, evaluation_interval=4, final_episodes=3)
    train(plan, tmp_path)
    (path,) = tmp_path.rglob(records.EVALUATIONS)
    assert sorted(set(records.read_table(path)["iteration"])) == [0, 4]
    assert len(list(tmp_path.rglob(records.FINAL))) == 1


@pytest.mark.parametrize("suite", ["paper", "paper-sc2"])
def test_the_papers_cells_keep_their_rule(suite: str) -> None:
    """Shipped runs and those still to come are scored alike."""
    for plan, _ in load_suite(suite).runs():
        assert not plan.evaluates_after(plan.iterations - 1)


def test_a_schedule_of_ones_own_is_not_the_papers() -> None:
    cell = Cell.parse("mamujoco/ant-2x4/full/fp3o")
    assert resolve(cell, {"gamma": 0.9}).on_the_papers_schedule
    shorter = resolve(cell, {"total_steps": 40_000})
    assert not shorter.on_the_papers_schedule
    assert shorter.evaluates_after(shorter.iterations - 1)
