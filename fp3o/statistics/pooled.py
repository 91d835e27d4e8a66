"""Scores pooled over rows, and P(X > Y), with 95 % stratified bootstrap intervals, as entries of scorecard.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fp3o.statistics import aggregate
from fp3o.statistics.intervals import Interval

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
    return {name: _estimate(METRICS[name], rows) for name in metrics}


def improvement(one: Rows, other: Rows) -> dict[str, Any]:
    """P(a seed of `one` scores higher than one of `other`), averaged over the rows, and the interval."""
    return _estimate(aggregate.probability_of_improvement, [*one, *other])


def _estimate(statistic: Callable[..., Any], samples: Rows) -> dict[str, Any]:
    interval = aggregate.stratified_interval(statistic, samples)
    return {"value": number(float(statistic(*samples))), "interval": bounds(interval)}
