"""Frozen values: computed by hand or with R's formulas from the definitions, never with the code under test."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from fp3o.statistics import intervals
from fp3o.statistics.intervals import Summary

FIVE = [2.0, 4.0, 4.0, 4.0, 6.0]  # mean 4, sum of squares about it 8, s² = 2


def test_summary_uses_the_sample_standard_deviation() -> None:
    centre, spread, n = intervals.summarise(FIVE, "mean")
    assert (centre, n) == (4.0, 5)
    assert spread == pytest.approx(math.sqrt(2))
    assert intervals.summarise([1.0, 9.0, 2.0], "median").centre == 2.0


def test_mean_interval_is_students() -> None:
    low, high, coverage = intervals.mean_interval(FIVE)
    half = 2.7764451 * math.sqrt(2) / math.sqrt(5)  # t table, 4 degrees of freedom, 97.5 %
    assert (low, high) == pytest.approx((4 - half, 4 + half), rel=1e-7)
    assert coverage == 0.95
    assert intervals.mean_interval([3.0]).high == math.inf


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"), [(5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (10, 2, 9, 0.978515625), (1, 1, 1, 0.0)]
)
def test_median_interval_is_order_statistics(n: int, low: float, high: float, coverage: float) -> None:
    shuffled = np.random.default_rng(0).permutation(np.arange(1.0, n + 1)).tolist()
    assert intervals.median_interval(shuffled) == pytest.approx((low, high, coverage))


def test_difference_of_medians() -> None:
    """From both intervals; of equal samples it contains 0 at least as often as both contain their medians."""
    centre, found = intervals.median_difference([1.0, 2.0, 3.0, 4.0, 9.0], [0.0, 1.0, 1.0, 1.0, 2.0])
    assert (centre, *found) == pytest.approx((2.0, -1.0, 9.0, 0.9375**2))
    draws = np.random.default_rng(0).exponential(size=(400, 2, 5)).tolist()
    covered = sum(intervals.median_difference(*pair)[1].contains(0.0) for pair in draws)
    assert covered / 400 > 0.9375**2


def test_t_covers_the_mean_and_the_bootstrap_would_not() -> None:
    """The reason for Student's t: with five values it covers 95 %, a percentile bootstrap about 84 %."""
    draws = np.random.default_rng(1).standard_normal((4000, 5))
    covered = np.mean([intervals.mean_interval(row.tolist()).contains(0.0) for row in draws])
    assert abs(covered - 0.95) < 0.011  # three standard errors of 4000 trials
    bootstrap = draws[:, np.random.default_rng(2).integers(0, 5, (500, 5))].mean(2)
    low, high = np.quantile(bootstrap, [0.025, 0.975], axis=1)
    assert 0.81 < np.mean((low <= 0) & (high >= 0)) < 0.88


def test_prediction_interval() -> None:
    low, high, _ = intervals.prediction(FIVE).interval()
    half = 2.7764451 * math.sqrt(2) * math.sqrt(1 / 5 + 1 / 5)
    assert (low, high) == pytest.approx((4 - half, 4 + half), rel=1e-7)
    assert intervals.prediction(FIVE).p(high) == pytest.approx(0.05)
    assert intervals.prediction([3.0]).interval().high == math.inf
    # Five equal seeds are no certainty where a least spread is given.
    assert intervals.prediction([100.0] * 5).p(99.0) == 0.0
    assert intervals.prediction([100.0] * 5, "median", (0.0, 100.0), 3.125).p(98.0) > 0.05


def test_the_median_of_five_normal_values_has_this_variance() -> None:
    draws = np.random.default_rng(0).standard_normal((400_000, 5))
    assert np.median(draws, 1).var() == pytest.approx(intervals._VARIANCE["median"], rel=0.01)


def test_welch_from_summaries() -> None:
    """Ant, full sharing, FP3O against HAPPO as published: t = 321.2/√(190.9²/5 + 181.3²/5) = 2.7280, ν = 7.979."""
    found = intervals.welch(Summary(2617.4, 190.9, 5), Summary(2296.2, 181.3, 5))
    assert found.value == pytest.approx(321.2)
    assert found.p == pytest.approx(0.026, abs=5e-4)
    low, high, _ = found.interval()
    assert low == pytest.approx(321.2 - 2.3069 * 117.7393, abs=0.1)
    assert low + high == pytest.approx(2 * 321.2)


def test_welch_without_spread_or_with_one_seed() -> None:
    assert intervals.welch(Summary(100, 0, 5), Summary(100, 0, 5)).p == 1.0
    assert intervals.welch(Summary(0, 0, 5), Summary(100, 0, 5)).p == 0.0
    assert intervals.welch(Summary(0, 0, 1), Summary(100, 1, 5)).p == 1.0


def test_equivalence_needs_the_90_percent_interval_inside_the_margin() -> None:
    ours, theirs = Summary(10.0, 1.0, 5), Summary(10.0, 1.0, 5)
    half = 1.8595 * math.sqrt(0.4)  # t, 8 degrees of freedom, 95 %
    assert intervals.welch(ours, theirs).p_equal(half + 1e-3) < 0.05
    assert intervals.welch(ours, theirs).p_equal(half - 1e-3) > 0.05
    assert intervals.welch(Summary(11.0, 1.0, 5), theirs).p_equal(half + 0.9) > 0.05
    assert intervals.welch(Summary(10.0, 0.0, 1), theirs).p_equal(100.0) == 1.0


def test_one_sided_p_values() -> None:
    """t = 4/√(2/5) = 6.325 with 4 degrees of freedom. Five zeros are above 0 no more than below it."""
    above, below = intervals.mean_of(FIVE).sides
    assert above == pytest.approx(0.0016, abs=5e-5)
    assert above + below == pytest.approx(1.0)
    assert intervals.mean_of([0.0] * 5).sides == (1.0, 1.0)
    assert intervals.mean_of([1.0] * 5).sides == (0.0, 1.0)


@pytest.mark.parametrize(("n", "margin", "power"), [(5, 1.0, 0.06), (5, 2.0, 0.77), (10, 1.0, 0.39), (10, 1.5, 0.88)])
def test_power_of_equivalence(n: int, margin: float, power: float) -> None:
    """What the test can show with five and ten seeds (two normal samples with equal means)."""
    draws = np.random.default_rng(3).standard_normal((800, 2, n))
    passed = [
        intervals.welch(*(intervals.summarise(x.tolist(), "mean") for x in pair)).p_equal(margin) < 0.05
        for pair in draws
    ]
    assert np.mean(passed) == pytest.approx(power, abs=0.055)


def test_replication_percentile_is_exact() -> None:
    """Median of 5 draws from {0, 1} is 0 in half of all cases by symmetry; from {0, 0, 1} when ≥ 3 draws are 0."""
    assert intervals.replication_percentile([0.0, 1.0], 0.5, "median") == pytest.approx(0.5)
    at_most_two_ones = sum(math.comb(5, k) * (1 / 3) ** k * (2 / 3) ** (5 - k) for k in range(3))
    assert intervals.replication_percentile([0.0, 0.0, 1.0], 0.5, "median") == pytest.approx(at_most_two_ones)
    assert intervals.replication_percentile(FIVE, 4.0, "mean") == pytest.approx(0.5)
    assert intervals.replication_percentile(FIVE, 7.0, "mean") == 1.0


def test_wilson() -> None:
    """Newcombe 1998, table I: 81 of 263 gives 0.2553 … 0.3662."""
    low, high, _ = intervals.wilson(81, 263)
    assert (low, high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert intervals.wilson(0, 0) == (0.0, 1.0, 0.95)


def test_benjamini_hochberg() -> None:
    assert intervals.adjust([0.04, 0.01, 0.03, 0.5]) == pytest.approx([0.16 / 3, 0.04, 0.16 / 3, 0.5])
    assert intervals.adjust([]) == []


def test_a_family_is_what_was_planned() -> None:
    """Tests that were not run count as p = 1, so that their results can only help the others."""
    assert intervals.adjust([0.01], 10) == pytest.approx([0.1])
    assert intervals.adjust([0.01, 0.012], 10) == pytest.approx([0.06, 0.06])


def test_replication_percentiles_of_many_runs_are_sampled() -> None:
    """All multisets of five out of a thousand would be 8·10¹² of them."""
    many = np.random.default_rng(3).normal(size=1000)
    for published, statistic, scale in ((0.1, "mean", 5**-0.5), (0.1, "median", 0.536)):
        expected = scipy.stats.norm.cdf((published - many.mean()) / (scale * many.std()))
        found = intervals.replication_percentile(many.tolist(), published, statistic)  # type: ignore[arg-type]
        assert found == pytest.approx(expected, abs=0.02)
        assert found == intervals.replication_percentile(many.tolist(), published, statistic)  # type: ignore[arg-type]
