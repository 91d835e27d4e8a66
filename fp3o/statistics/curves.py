"""Learning curves over seeds, and their files for `dvc plots`: one per row of a table, one curve per algorithm.

python -m fp3o.statistics.curves --suite paper --out results/paper/curves
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.errors import as_command
from fp3o.statistics.intervals import mean_interval
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns, csv_text, load, parser, write

HEADER = ("algorithm", "env_steps", "score")
METRIC_NAMES = {"return": "return", "return_per_agent": "return per agent", "win_rate": "win rate (%)"}
START = 0.2
"""This first fraction of training does not count for a plot's vertical range: its low scores would flatten the rest."""


class Band(NamedTuple):
    """A cell's curve at E evaluations: centre and bounds over the n seeds evaluated there; all arrays [E]."""

    env_steps: NDArray[np.float64]  # [E]
    centre: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]


class Seeds(NamedTuple):
    """The curves of S seeds at E evaluations."""

    env_steps: NDArray[np.float64]  # [E]
    seeds: tuple[int, ...]
    values: NDArray[np.float64]  # [S, E]; NaN where a seed that diverged has no evaluation


def seed_curves(cell: CellRuns) -> Seeds | None:
    """Curves of the seeds that have an evaluation, on a common axis of steps; None if no seed has one."""
    runs = [run for run in cell.runs if len(run.curve.value)]
    if not runs:
        return None
    steps = np.unique(np.concatenate([run.curve.env_steps for run in runs]))
    values = np.full((len(runs), len(steps)), np.nan)
    for row, run in zip(values, runs, strict=True):
        row[np.searchsorted(steps, run.curve.env_steps)] = run.curve.value
    return Seeds(steps, tuple(run.seed for run in runs), values)


def band(cell: CellRuns) -> Band | None:
    """Mean with its 95 % t interval; for win rates median with quartiles. No smoothing."""
    found = seed_curves(cell)
    if found is None:
        return None
    centre, low, high, n = [], [], [], []
    for column in found.values.T:
        values = column[~np.isnan(column)]
        if cell.scoring.statistic == "median":
            bottom, middle, top = np.quantile(values, [0.25, 0.5, 0.75])
        else:
            interval = mean_interval(values)
            middle = np.mean(values)
            bottom, top = (interval.low, interval.high) if len(values) > 1 else (middle, middle)
        centre.append(middle)
        low.append(bottom)
        high.append(top)
        n.append(len(values))
    return Band(found.env_steps, np.array(centre), np.array(low), np.array(high), np.array(n))


def files(data: SuiteRuns) -> dict[str, str]:
    """Files as text, by name: `<domain>_<task>_<sharing>.csv` for every row of a table that has runs."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for cell in data.cells.values():
        name, found = Cell.of(cell.cell), band(cell)
        if found is not None:
            points = zip(found.env_steps, found.centre, strict=True)
            rows.setdefault(str(name.row).replace("/", "_"), []).extend(
                (name.label, f"{step:.0f}", f"{score:.6g}") for step, score in points
            )
    return {f"{row}.csv": csv_text(HEADER, lines) for row, lines in rows.items()}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser("Learning curves of a suite.", out="folder")
    chosen = arguments.parse_args(argv)
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, text in files(load(chosen)).items():
        write(chosen.out / name, text)


if __name__ == "__main__":
    as_command(main)
