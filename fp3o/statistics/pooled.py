"""Scores pooled over rows, and P(X > Y), with 95 % intervals, as entries of scorecard.json."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fp3o.statistics import aggregate
from fp3o.statistics.intervals import Interval
from fp3o.statistics.rank_tests import chance_interval

METRICS = {
    "interquartile_mean": aggregate.interquartile_mean,
    "mean": aggregate.mean_of_tasks,
    "median": aggregate.median_of_tasks,
    "optimality_gap": aggregate.optimality_gap,
}

Rows = Sequence[Sequence[float]]
"""The scores of one algorithm, row by row, one per seed."""


def number(value: float | None) -> float | None:
    """A number for the file: four decimals (more might differ between machines), None for infinity and NaN."""
    return None if value is None or not math.isfinite(value) else round(value, 4) + 0.0


def bounds(interval: Interval) -> list[float | None]:
    return [number(interval.low), number(interval.high)]


def pooled(rows: Rows, metrics: Sequence[str] = tuple(METRICS)) -> dict[str, dict[str, Any]]:
    """By metric its value over all rows and the interval."""
    found = {}
    for name in metrics:
        interval = (
            aggregate.interquartile_interval(rows)
            if name == "interquartile_mean"
            else aggregate.mean_interval_of_tasks(METRICS[name], rows)
        )
        found[name] = {"value": number(float(METRICS[name](*rows))), "interval": bounds(interval)}
    return found


def improvement(one: Rows, other: Rows) -> dict[str, Any]:
    """P(a seed of `one` scores higher than one of `other`), averaged over the rows, and the interval."""
    chance = float(aggregate.probability_of_improvement(*one, *other))
    sizes = [(len(a), len(b)) for a, b in zip(one, other, strict=True)]
    return {"value": number(chance), "interval": bounds(chance_interval(chance, sizes))}
