"""benchmarks/speed/cost.py: cells timed in turn, and what the cost table makes of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from benchmarks.speed import cost as benchmark
from fp3o import config
from fp3o.errors import UserError
from fp3o.workflow import cost

SUITE = """title: Two cells
seeds: 0
cost: {iterations: 2, warmup: 1, path: eager}
overrides: [{cells: "*", set: {total_steps: 512}}]
artefacts:
  table-cost: {kind: cost, seeds: 0, cells: [matrix/two-step/full/mappo, matrix/two-step/full/fp3o]}
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Suite:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SUITE)
    return config.load_suite("small.yaml")


def test_all_cells_are_in_every_round(suite: config.Suite) -> None:
    """And the table takes its seconds, but for a cell whose settings have changed since."""
    found = benchmark.measure(suite, "*", 3, 0)
    path = cost.interleaved_path(suite.name)
    assert json.loads(path.read_text()) == found
    assert list(found["cells"]) == ["matrix/two-step/full/mappo", "matrix/two-step/full/fp3o"]
    assert {len(times[part]) for times in found["cells"].values() for part in ("rollout_s", "update_s")} == {3}
    alone = {"rollout_s": [9.0], "update_s": [9.0], "evaluation_s": [0.5], "host": "another", "memory_mib": 7.0}
    for cell in found["cells"]:
        plan = config.resolve(config.Cell.parse(cell), suite=suite)
        cost.write_json(
            cost.measurement_path(suite.name, plan), alone | dict.fromkeys(("peak_gpu_mib", "process_gpu_mib"))
        )
    found["cells"]["matrix/two-step/full/fp3o"]["digest"] = "older"
    cost.write_json(path, found)
    mappo, fp3o = csv.DictReader(cost.table(suite).splitlines())
    assert (mappo["interleaved"], mappo["memory_mib"], mappo["host"]) == ("yes", "7.0", found["host"])
    assert len(mappo["update_s"].split()) == 3
    assert (fp3o["interleaved"], fp3o["update_s"], fp3o["host"]) == ("no", "9", "another")


def test_a_suite_must_say_how(tmp_path: Path) -> None:
    (tmp_path / "silent.yaml").write_text(SUITE.replace("cost: {iterations: 2, warmup: 1, path: eager}", ""))
    with pytest.raises(UserError, match="says nothing about cost"):
        benchmark.measure(config.load_suite(str(tmp_path / "silent.yaml")), "*", 2, 0)
