"""Learning curves for `dvc plots`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from fp3o import config
from fp3o.statistics import curves
from fp3o.statistics.suites import SuiteRuns


def test_one_file_per_row_one_curve_per_algorithm(tmp_path: Path, write_run: Any) -> None:
    for label, seeds in (("fp3o", (0, 1)), ("mappo", (0,))):
        for seed in seeds:
            write_run(tmp_path, f"smac/3s5z/full/{label}", seed, 50.0 + seed, suite="paper")
    data = SuiteRuns(config.load_suite("paper"), tmp_path)
    found = curves.files(data)
    assert list(found) == ["smac_3s5z_full.csv"]
    rows = list(csv.DictReader(io.StringIO(found["smac_3s5z_full.csv"])))
    assert {row["algorithm"] for row in rows} == {"fp3o", "mappo"}
    scores = [float(row["score"]) for row in rows if row["algorithm"] == "fp3o"]
    runs = data.cells["smac/3s5z/full/fp3o"].runs
    assert scores == [float(f"{x:.6g}") for x in np.median([run.curve.value for run in runs], 0)]
