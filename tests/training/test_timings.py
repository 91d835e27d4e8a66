"""The seconds of every iteration, where they are asked for."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from short_runs import PLAIN, tiny_plan

from fp3o.runs import records
from fp3o.training.callbacks.timings import Timings
from fp3o.training.run import train


def test_every_iteration_is_timed(tmp_path: Path) -> None:
    plan = tiny_plan("matrix/two-step/full/mappo", iterations=3)
    (folder,) = train(plan, [0], tmp_path, tmp_path / "scratch", PLAIN, [Timings(tmp_path / "timings.csv")])
    with (tmp_path / "timings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["iteration"]) for row in rows] == list(range(plan.iterations))
    seconds = records.read_run(folder / records.RUN)["volatile"]["seconds"]
    for phase in ("rollout", "update"):
        assert sum(float(row[f"{phase}_s"]) for row in rows) == pytest.approx(seconds[phase], rel=1e-3)
