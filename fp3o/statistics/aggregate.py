"""Aggregates over tasks (Agarwal et al. 2021): interquartile mean, optimality gap, probability of improvement, profile.

Scores are one array per task, one score per run, on a scale common to all tasks. Intervals hold for five runs per task
(tests/statistics/test_coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fp3o.statistics.intervals import Interval, Student
from fp3o.statistics.rank_tests import chance_interval, rank_sum

Scores = Sequence[float] | NDArray[np.float64]
Tasks = Sequence[Scores]


def interquartile_mean(*tasks: Scores) -> float:
    """25 %-trimmed mean of the scores of all tasks pooled (not of the tasks' means)."""
    return float(scipy.stats.trim_mean(np.concatenate(tasks), 0.25))


def mean_of_tasks(*tasks: Scores) -> float:
    """Mean over tasks of the task's mean."""
    return float(np.mean([np.mean(task) for task in tasks]))


def median_of_tasks(*tasks: Scores) -> float:
    """Median over tasks of the task's mean."""
    return float(np.median([np.mean(task) for task in tasks]))


def optimality_gap(*tasks: Scores) -> float:
    """1 minus the mean of the scores capped at 1."""
    return 1.0 - mean_of_tasks(*(np.minimum(task, 1.0) for task in tasks))


def profile(tasks: Tasks, thresholds: Sequence[float]) -> list[float]:
    """Fraction of all runs that score above each threshold."""
    pooled = np.concatenate([np.asarray(task, float) for task in tasks])
    return [float((pooled > threshold).mean()) for threshold in thresholds]


def mean_interval_of_tasks(statistic: Callable[..., float], tasks: Tasks) -> Interval:
    """95 % interval of a mean or median over tasks: leaving out one run at a time gives its standard error, Student's t
    the rest, with Satterthwaite's degrees of freedom; of one task it is Student's interval of the mean.

    Redrawing five runs with replacement would give intervals that are too narrow by a tenth, and no width at all where
    one task has equal runs. Unbounded where a task has a single run, or all runs of a task are equal.
    """
    samples = [np.asarray(task, float) for task in tasks]
    if not samples or min(len(sample) for sample in samples) < 2:
        return UNKNOWN
    parts = []
    for place, sample in enumerate(samples):
        before, after, n = samples[:place], samples[place + 1 :], len(sample)
        left_out = [statistic(*before, np.delete(sample, run), *after) for run in range(n)]
        parts.append((float(np.var(left_out)) * (n - 1), n - 1))
    return _students(statistic(*samples), parts, 1.0)


def interquartile_interval(tasks: Tasks) -> Interval:
    """95 % interval of the interquartile mean: Tukey and McLaughlin's for trimmed means (the variance of the winsorised
    scores, within tasks); the trimmed scores take their share of the degrees of freedom."""
    samples = [np.asarray(task, float) for task in tasks]
    if not samples or min(len(sample) for sample in samples) < 2:
        return UNKNOWN
    pool = np.sort(np.concatenate(samples))
    size, cut = len(pool), int(0.25 * len(pool))
    kept = 1 - 2 * cut / size
    clipped = [np.clip(sample, pool[cut], pool[size - 1 - cut]) / kept for sample in samples]
    parts = [(float(sample.var(ddof=1)) * len(sample) / size**2, len(sample) - 1) for sample in clipped]
    centre = interquartile_mean(*samples)
    if len(samples) == 1:
        return _students(centre, [(parts[0][0], max(1, size - 2 * cut - 1))], 1.0)
    return _students(centre, parts, kept)


UNKNOWN = Interval(-math.inf, math.inf, 0.95)


def _students(centre: float, parts: Sequence[tuple[float, int]], share: float) -> Interval:
    """Around a sum of independent parts, each with its variance and degrees of freedom; share: of these that count."""
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return UNKNOWN
    freedom = share * variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return Student(centre, math.sqrt(variance), max(1.0, freedom)).interval()


# --- Entries of scorecard.json --------------------------------------------------------------------------------------

METRICS = {
    "interquartile_mean": interquartile_mean,
    "mean": mean_of_tasks,
    "median": median_of_tasks,
    "optimality_gap": optimality_gap,
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
            interquartile_interval(rows)
            if name == "interquartile_mean"
            else mean_interval_of_tasks(METRICS[name], rows)
        )
        found[name] = {"value": number(METRICS[name](*rows)), "interval": bounds(interval)}
    return found


def improvement(one: Rows, other: Rows) -> dict[str, Any]:
    """P(a seed of `one` scores higher than one of `other`), averaged over the rows, and the interval."""
    rows = list(zip(one, other, strict=True))
    chance = rank_sum(rows).chance
    sizes = [(len(a), len(b)) for a, b in rows]
    return {"value": number(chance), "interval": bounds(chance_interval(chance, sizes))}
