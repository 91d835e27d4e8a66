"""Confidence intervals and tests that hold for five seeds; SciPy does the arithmetic.

For five normal values the 95 % percentile bootstrap interval contains the mean in only 84.5 % of cases, Student's t in
95 %. So single cells use t (means) and order statistics (medians). What each interval covers with five seeds, and where
it falls short, is simulated in tests/statistics/test_coverage.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Statistic = Literal["mean", "median"]


class Interval(NamedTuple):
    """A closed interval and its true coverage, which for order statistics is rarely exactly the one asked for."""

    low: float
    high: float
    coverage: float

    def contains(self, value: float) -> bool:
        """Whether `value` lies inside, ends included."""
        return self.low <= value <= self.high


class Summary(NamedTuple):
    """What a table prints for one cell: mean or median, standard deviation (ddof = 1) and number of seeds."""

    centre: float
    spread: float
    n: int


class Student(NamedTuple):
    """An estimate whose error follows Student's t."""

    value: float
    error: float
    """Standard error."""
    freedom: float
    """Degrees of freedom; below 1 nothing is known of the error, as of a single seed."""

    def interval(self, coverage: float = 0.95) -> Interval:
        half = math.inf if self.freedom < 1 else _t((1 + coverage) / 2, self.freedom) * self.error
        return Interval(self.value - half, self.value + half, coverage)

    @property
    def sides(self) -> tuple[float, float]:
        """One-sided p-values: of the true value not being above 0, and of it not being below."""
        return self._beyond(self.value), self._beyond(-self.value)

    @property
    def p(self) -> float:
        """Two-sided, of 0."""
        return min(1.0, 2 * self._beyond(abs(self.value)))

    def p_equal(self, margin: float) -> float:
        """Of two one-sided tests (TOST): below α where the 1 − 2α interval lies within ± margin."""
        return self._beyond(margin - abs(self.value))

    def _beyond(self, distance: float) -> float:
        """One-sided p of an estimate that is as far off."""
        if self.freedom < 1:
            return 1.0
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        return float(scipy.special.stdtr(self.freedom, -distance / self.error))


def summarise(values: Sequence[float], statistic: Statistic) -> Summary:
    """Mean or median, with the standard deviation over seeds (0 for a single seed)."""
    centre = float(np.mean(values) if statistic == "mean" else np.median(values))
    return Summary(centre, float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values))


def _t(probability: float, freedom: float) -> float:
    """Quantile of Student's t. From scipy.special, because scipy.stats takes a second to import."""
    return float(scipy.special.stdtrit(freedom, probability))


def mean_of(values: Sequence[float]) -> Student:
    """The mean of a sample."""
    centre, spread, n = summarise(values, "mean")
    return Student(centre, spread / math.sqrt(n), n - 1)


def mean_interval(values: Sequence[float]) -> Interval:
    """95 % Student-t interval of the mean; unbounded for a single value."""
    return mean_of(values).interval()


def welch(ours: Summary, theirs: Summary) -> Student:
    """The difference of two means, ours minus theirs, with Welch's degrees of freedom."""
    a, b = ours.spread**2 / ours.n, theirs.spread**2 / theirs.n
    freedom = 0.0
    if min(ours.n, theirs.n) > 1:  # No spread on either side: 100 % in every seed, say.
        freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / (theirs.n - 1)) if a + b else 1.0
    return Student(ours.centre - theirs.centre, math.sqrt(a + b), freedom)


def median_interval(values: Sequence[float], coverage: float = 0.95) -> Interval:
    """The narrowest symmetric pair of order statistics with at least `coverage`, or [min, max] if none has.

    n = 5: [min, max], 93.75 %. n = 10: 2nd to 9th, 97.9 %.
    """
    ordered, n = sorted(values), len(values)
    for depth in range((n - 1) // 2, -1, -1):
        covers = 1 - 2 * float(scipy.special.bdtr(depth, n, 0.5))
        if covers >= coverage or depth == 0:
            return Interval(ordered[depth], ordered[n - 1 - depth], covers)
    raise ValueError("no values")


def median_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, Interval]:
    """The difference of two medians, and an interval from those of both: it contains the true difference at least
    where both contain their medians, which are independent."""
    a, b = median_interval(first), median_interval(second)
    centre = summarise(first, "median").centre - summarise(second, "median").centre
    return centre, Interval(a.low - b.high, a.high - b.low, a.coverage * b.coverage)


def interval_of(values: Sequence[float], statistic: Statistic) -> Interval:
    """The 95 % interval that belongs to the statistic."""
    return mean_interval(values) if statistic == "mean" else median_interval(values)


FURTHER = 5
"""Seeds of the repetition that prediction intervals are about: as many as the paper's."""
# Variance of the mean and of the median of five normal values, in units of theirs.
_VARIANCE: dict[Statistic, float] = {"mean": 1 / FURTHER, "median": 0.286834}


class Prediction(NamedTuple):
    """Where the mean or median of five further runs would fall."""

    centre: Student
    limits: tuple[float, float]

    def interval(self, coverage: float = 0.95) -> Interval:
        low, high, _ = self.centre.interval(coverage)
        return Interval(max(low, self.limits[0]), min(high, self.limits[1]), coverage)

    def p(self, value: float) -> float:
        """Two-sided: of a repetition at least as far from our mean as `value`."""
        return self.centre._replace(value=value - self.centre.value).p


def prediction(
    values: Sequence[float],
    statistic: Statistic = "mean",
    limits: tuple[float, float] = (-math.inf, math.inf),
    least: float = 0.0,
) -> Prediction:
    """Our mean ± t·s·√(1/n + v), where v·s² is the variance of the mean (1/5) or median (0.287) of five runs.

    For medians the order statistics would not do: [min, max] of five seeds contains the median of five others in 83 %.
    limits: of the score. least: s is at least this much, so that five equal seeds do not make a certainty.
    """
    centre, spread, n = summarise(values, "mean")
    scale = max(spread, least) * math.sqrt(1 / n + _VARIANCE[statistic])
    return Prediction(Student(centre, scale, n - 1), limits)


def replication_percentile(values: Sequence[float], published: float, statistic: Statistic, seeds: int = 5) -> float:
    """Fraction of "papers", each made of `seeds` of our runs drawn with replacement, whose value is below `published`.

    Exact up to `MOST_ENUMERATED` runs, by every multiset of draws with its multinomial weight; beyond, where there are
    millions of them, from 50,000 papers drawn with a fixed seed. Ties are counted half.
    """
    draws, weights = _papers(len(values), seeds)
    drawn = np.asarray(values, float)[draws]
    centres = drawn.mean(1) if statistic == "mean" else np.median(drawn, 1)
    below = np.where(np.isclose(centres, published, rtol=1e-12, atol=0), 0.5, centres < published)
    return float(below @ weights / weights.sum())


MOST_ENUMERATED = 20
_SAMPLED = 50_000


@lru_cache(maxsize=4)
def _papers(n: int, seeds: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Multisets of `seeds` draws out of n, and in how many ways each is drawn."""
    if n > MOST_ENUMERATED:
        return np.random.default_rng(0).integers(0, n, (_SAMPLED, seeds)), np.ones(_SAMPLED)
    draws = list(combinations_with_replacement(range(n), seeds))
    ways = [math.factorial(seeds) / math.prod(math.factorial(draw.count(k)) for k in set(draw)) for draw in draws]
    return np.array(draws), np.array(ways)


def wilson(successes: int, trials: int, coverage: float = 0.95) -> Interval:
    """Wilson's interval of a proportion."""
    if trials == 0:
        return Interval(0.0, 1.0, coverage)
    bounds = scipy.stats.binomtest(successes, trials).proportion_ci(coverage, "wilson")
    return Interval(float(bounds.low), float(bounds.high), coverage)


def share_interval(shares: Sequence[float], trials: int) -> Interval:
    """95 % interval of the mean of shares, one per seed: Wilson's, with Student's t and for as many trials as would by
    chance alone spread the mean so much (at most those there were). Student's own interval leaves 0 … 1 and, of five
    seeds near an end, contains the mean in 90 %."""
    mean, spread, n = summarise(shares, "mean")
    if n < 2:
        return Interval(0.0, 1.0, 0.95)
    effective = min(trials, mean * (1 - mean) * n / spread**2) if spread else trials
    square = _t(0.975, n - 1) ** 2 / effective
    half = math.sqrt(square * mean * (1 - mean) + square**2 / 4)
    low, high = ((mean + square / 2 + sign * half) / (1 + square) for sign in (-1, 1))
    return Interval(low, high, 0.95)


def share_difference(first: int, of_first: int, second: int, of_second: int) -> Interval:
    """95 % interval of the difference of two proportions: Newcombe's (1998, method 10), from both Wilson intervals."""
    a, b = wilson(first, of_first), wilson(second, of_second)
    p, q = first / of_first, second / of_second
    below = math.sqrt((p - a.low) ** 2 + (b.high - q) ** 2)
    above = math.sqrt((a.high - p) ** 2 + (q - b.low) ** 2)
    return Interval(p - q - below, p - q + above, 0.95)


def adjust(p_values: Sequence[float], planned: int = 0) -> list[float]:
    """Benjamini–Hochberg adjusted p-values, in the order given.

    planned: how many tests the family has; those that were not run count as p = 1. A result that arrives later can
    then only lower the adjusted p-values of the others, never raise them.
    """
    padded = [*p_values, *[1.0] * (planned - len(p_values))]
    return [float(p) for p in scipy.stats.false_discovery_control(padded)][: len(p_values)] if padded else []
