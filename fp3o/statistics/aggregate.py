"""Aggregates over tasks (Agarwal et al. 2021): interquartile mean, optimality gap, probability of improvement, profile.

Scores are one array per task, on a scale common to all tasks; the last axis is runs, axes before it are bootstrap
replicates. Intervals resample runs within each task (`scipy.stats.bootstrap` with one sample per task).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fp3o.statistics.intervals import Interval

Array = NDArray[Any]
Tasks = Sequence[ArrayLike]
REPLICATES = 10_000


def interquartile_mean(*tasks: ArrayLike, axis: int = -1) -> Array:
    """25 %-trimmed mean of the scores of all tasks pooled (not of the tasks' means)."""
    return np.asarray(
        scipy.stats.trim_mean(np.concatenate([np.asarray(task, float) for task in tasks], axis), 0.25, axis)
    )


def mean_of_tasks(*tasks: ArrayLike, axis: int = -1) -> Array:
    """Mean over tasks of the task's mean."""
    return np.asarray(np.mean([np.asarray(task, float).mean(axis) for task in tasks], axis=0))


def median_of_tasks(*tasks: ArrayLike, axis: int = -1) -> Array:
    """Median over tasks of the task's mean."""
    return np.asarray(np.median([np.asarray(task, float).mean(axis) for task in tasks], axis=0))


def optimality_gap(*tasks: ArrayLike, axis: int = -1) -> Array:
    """1 minus the mean of the scores capped at 1."""
    return 1.0 - mean_of_tasks(*(np.minimum(task, 1.0) for task in tasks), axis=axis)


def probability_of_improvement(*tasks: ArrayLike, axis: int = -1) -> Array:
    """P(X > Y), mean over tasks: the fraction of all pairs of runs in which X scores higher, ties counted half.

    tasks: the scores of X task by task, then those of Y.
    """
    arrays = [np.moveaxis(np.asarray(task, float), axis, -1) for task in tasks]
    half = len(arrays) // 2
    chances = []
    for x, y in zip(arrays[:half], arrays[half:], strict=True):
        gap = x[..., :, None] - y[..., None, :]
        chances.append((gap > 0).mean((-2, -1)) + 0.5 * (gap == 0).mean((-2, -1)))
    return np.asarray(np.mean(chances, axis=0))


def profile(tasks: Tasks, thresholds: Sequence[float]) -> list[float]:
    """Fraction of all runs that score above each threshold."""
    pooled = np.concatenate([np.asarray(task, float) for task in tasks])
    return [float((pooled > threshold).mean()) for threshold in thresholds]


def stratified_interval(statistic: Callable[..., Array], tasks: Tasks, replicates: int = REPLICATES) -> Interval:
    """95 % percentile bootstrap interval, runs resampled within each task; unbounded where a task has a single run."""
    samples = [np.asarray(task, float) for task in tasks]
    if min(len(sample) for sample in samples) < 2:
        return Interval(-math.inf, math.inf, 0.95)
    bounds = scipy.stats.bootstrap(
        samples,
        statistic,
        n_resamples=replicates,
        batch=1000,
        vectorized=True,
        axis=-1,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(float(bounds.low), float(bounds.high), 0.95)
