"""Definitions of Agarwal et al. 2021, on numbers small enough to check by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fp3o.statistics import aggregate

TASKS = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]


def test_point_estimates() -> None:
    assert aggregate.interquartile_mean(*TASKS) == 3.5  # of 0…7 the middle four
    assert aggregate.interquartile_mean([0, 0, 0, 100], [1, 1, 1, 1]) == 0.75  # of 0 0 0 1 1 1 1 100: 0 1 1 1
    assert aggregate.mean_of_tasks([0, 2], [4, 6], [10, 30]) == pytest.approx(26 / 3)
    assert aggregate.median_of_tasks([0, 2], [4, 6], [10, 30]) == 5.0
    assert aggregate.optimality_gap([0.5, 2.0], [0.0, 0.5]) == pytest.approx(0.5)


def test_probability_of_improvement_is_mann_whitney_over_tasks() -> None:
    assert aggregate.probability_of_improvement([1, 2], [3, 4], [1, 2], [3, 4]) == 0.5
    assert aggregate.probability_of_improvement([3, 4], [0, 5], [1, 2], [1, 2]) == 0.75
    assert aggregate.probability_of_improvement([2, 3], [1, 2]) == pytest.approx(3.5 / 4)


def test_profile_counts_runs_above() -> None:
    assert aggregate.profile(TASKS, [-1.0, 0.0, 3.5, 7.0]) == [1.0, 0.875, 0.5, 0.0]


def test_stratified_bootstrap_redraws_within_each_task() -> None:
    """Two tasks far apart: unstratified redraws would mix their shares, stratified ones cannot."""
    tasks = [[0.0, 1.0, 2.0, 3.0, 4.0], [100.0, 101.0, 102.0, 103.0, 104.0]]
    interval = aggregate.stratified_interval(aggregate.mean_of_tasks, tasks)
    # the mean of two means of five draws from 0…4: standard deviation √(2/5)/√2 = 0.447
    assert interval.low == pytest.approx(52 - 1.96 * math.sqrt(0.2), abs=0.1)
    assert interval.high == pytest.approx(52 + 1.96 * math.sqrt(0.2), abs=0.1)
    assert interval == aggregate.stratified_interval(aggregate.mean_of_tasks, tasks)


def test_interval_of_the_interquartile_mean_agrees_with_a_direct_resampling() -> None:
    tasks = np.random.default_rng(0).standard_normal((6, 5)).tolist()
    generator = np.random.default_rng(5)
    direct = []
    for _ in range(4000):
        pooled = sorted(value for task in tasks for value in generator.choice(task, 5))
        direct.append(np.mean(pooled[7:23]))  # trim 25 % of 30, rounded down
    interval = aggregate.stratified_interval(aggregate.interquartile_mean, tasks)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(direct, [0.025, 0.975])), abs=0.04)


def test_a_single_run_gives_no_interval() -> None:
    assert aggregate.stratified_interval(aggregate.mean_of_tasks, [[1.0], [2.0, 3.0]]).high == math.inf
