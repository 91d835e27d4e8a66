"""The learning curves as data for the page's script, which draws them with Bokeh in the browser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell, algorithm_colour
from fp3o.report.line_styles import dash
from fp3o.statistics.curves import METRIC_NAMES, START, band, seed_curves
from fp3o.statistics.published import scores
from fp3o.statistics.scores import CellRuns, scoring_of


def curves_of(cells: Iterable[CellRuns]) -> dict[str, dict[str, Any]]:
    """By cell, those that have an evaluation."""
    found = {cell.cell: curve(cell) for cell in cells}
    return {name: one for name, one in found.items() if one is not None}


def curve(cell: CellRuns) -> dict[str, Any] | None:
    """Every seed and their mean or median by million steps; null where a seed that diverged has no evaluation."""
    found, over_seeds = seed_curves(cell), band(cell)
    if found is None or over_seeds is None:
        return None
    statistic = scoring_of(cell.cell).statistic
    published = scores().get(cell.cell) if not cell.deviations else None
    return {
        "title": Cell.of(cell.cell).title,
        "colour": algorithm_colour(Cell.of(cell.cell).label),
        "dash": list(dash(Cell.of(cell.cell).label)),
        "statistic": f"{statistic} of {len(found.seeds)} seeds" if len(found.seeds) > 1 else "the only seed",
        "published": None if published is None else published.value,
        "hours": hours_per_million_steps(cell),
        "steps": _numbers(found.env_steps / 1e6),
        "centre": _numbers(over_seeds.centre),
        "seeds": {str(seed): _numbers(row) for seed, row in zip(found.seeds, found.values, strict=True)},
    }


def hours_per_million_steps(cell: CellRuns) -> float:
    """Mean rate of the runs' processes, each of which trains several seeds side by side; 0 where a run had no time."""
    rates = []
    for run in cell.runs:
        seconds = run.document["volatile"]["seconds"]
        if len(run.curve.env_steps) and run.curve.env_steps[-1] > 0:
            trained = sum(seconds.get(phase, 0.0) for phase in ("rollout", "update", "evaluation"))
            rates.append(trained / 3600 / (run.curve.env_steps[-1] / 1e6))
    return float(f"{np.mean(rates):.5g}") if rates else 0.0


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Five digits: a pixel is coarser."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values]


class Chart(NamedTuple):
    """One picture: the curves of some cells and where its vertical axis begins and ends."""

    cells: tuple[str, ...]
    metric: str
    late: tuple[float, float]
    """Range of everything after the start of training."""
    whole: tuple[float, float]


def chart(cells: Iterable[CellRuns], curves: Mapping[str, Mapping[str, Any]]) -> Chart | None:
    """None where no cell has an evaluation."""
    names = tuple(cell.cell for cell in cells if cell.cell in curves)
    if not names:
        return None
    metric = scoring_of(names[0]).metric
    if metric == "win_rate":
        return Chart(names, METRIC_NAMES[metric], (-2.0, 102.0), (-2.0, 102.0))
    late: list[float] = []
    whole: list[float] = []
    for found in map(curves.__getitem__, names):
        start = START * found["steps"][-1]
        for values in found["seeds"].values():
            whole += [value for value in values if value is not None]
            late += [v for v, step in zip(values, found["steps"], strict=True) if v is not None and step >= start]
        if found["published"] is not None:
            late.append(found["published"])
    return Chart(names, METRIC_NAMES[metric], _range(late), _range(whole + late))


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    return float(f"{low - room:.5g}"), float(f"{high + room:.5g}")
