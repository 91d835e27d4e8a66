"""Definitions of Agarwal et al. 2021, on numbers small enough to check by hand."""

from __future__ import annotations

import math

import pytest

from fp3o.statistics import aggregate
from fp3o.statistics.intervals import mean_interval

TASKS = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]


def test_point_estimates() -> None:
    assert aggregate.interquartile_mean(*TASKS) == 3.5  # of 0…7 the middle four
    assert aggregate.interquartile_mean([0, 0, 0, 100], [1, 1, 1, 1]) == 0.75  # of 0 0 0 1 1 1 1 100: 0 1 1 1
    assert aggregate.mean_of_tasks([0, 2], [4, 6], [10, 30]) == pytest.approx(26 / 3)
    assert aggregate.median_of_tasks([0, 2], [4, 6], [10, 30]) == 5.0
    assert aggregate.optimality_gap([0.5, 2.0], [0.0, 0.5]) == pytest.approx(0.5)


def test_probability_of_improvement_is_mann_whitney_over_tasks() -> None:
    assert aggregate.improvement([[1, 2], [3, 4]], [[1, 2], [3, 4]])["value"] == 0.5
    assert aggregate.improvement([[3, 4], [0, 5]], [[1, 2], [1, 2]])["value"] == 0.75
    assert aggregate.improvement([[2, 3]], [[1, 2]])["value"] == pytest.approx(3.5 / 4)


def test_profile_counts_runs_above() -> None:
    assert aggregate.profile(TASKS, [-1.0, 0.0, 3.5, 7.0]) == [1.0, 0.875, 0.5, 0.0]


def test_tasks_are_never_mixed() -> None:
    """Two tasks far apart: the interval is of their means, with Satterthwaite's 8 degrees of freedom."""
    tasks = [[0.0, 1.0, 2.0, 3.0, 4.0], [100.0, 101.0, 102.0, 103.0, 104.0]]
    interval = aggregate.mean_interval_of_tasks(aggregate.mean_of_tasks, tasks)
    half = 2.306004 * math.sqrt(2 * 2.5 / 5 / 4)  # t of 8; the variance of each task's mean is 2.5/5
    assert (interval.low, interval.high) == pytest.approx((52 - half, 52 + half))


def test_of_one_task_it_is_students_interval() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 9.0]
    interval = aggregate.mean_interval_of_tasks(aggregate.mean_of_tasks, [values])
    assert interval[:2] == pytest.approx(mean_interval(values)[:2])


def test_the_interquartile_mean_has_the_interval_of_a_trimmed_mean() -> None:
    """0, 1, 2, 3, 14: trimmed to 1, 2, 3; winsorised to 1, 1, 2, 3, 3 with s² = 1; error √1/(0.6·√5), t of 2."""
    low, high, _ = aggregate.interquartile_interval([[0.0, 1.0, 2.0, 3.0, 14.0]])
    half = 4.302653 / (0.6 * math.sqrt(5))
    assert (low, high) == pytest.approx((2 - half, 2 + half))


def test_where_nothing_is_known_of_the_spread_there_is_no_interval() -> None:
    """A single run, or equal ones: not a certainty."""
    for tasks in ([[1.0], [2.0, 3.0]], [[1.0, 1.0, 1.0]]):
        assert aggregate.mean_interval_of_tasks(aggregate.mean_of_tasks, tasks).high == math.inf
        assert aggregate.interquartile_interval(tasks).high == math.inf
