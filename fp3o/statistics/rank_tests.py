"""Exact rank tests over several rows, and an interval of P(A > B) that holds for five seeds.

Rows are pairs of samples; values of different rows are never compared with each other. P-values come from the exact
distribution under all ways to deal a row's values out, ties included: with five seeds the normal approximation is off
by half (0.106 where the exact p is 0.183). From `MOST_EXACT` values on it is the normal approximation: the exact
distribution would take memory with the cube of their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fp3o.statistics.intervals import Interval

Row = tuple[Sequence[float], Sequence[float]]


class RankTest(NamedTuple):
    """A test of A against B."""

    chance: float
    """P(A > B): that a seed of A scores higher than one of B, ties half, averaged over rows."""
    above: float
    """p, one-sided, of A not being higher; likewise `below`."""
    below: float

    @property
    def p(self) -> float:
        """Two-sided."""
        return min(1.0, 2 * min(self.above, self.below))


MOST_EXACT = 60
"""Values of a row; there the two p-values differ by less than 0.003 (a test compares them)."""


def rank_sum(rows: Sequence[Row]) -> RankTest:
    """Exact stratified Wilcoxon rank-sum (Mann–Whitney) test; null: in no row does A differ from B."""
    dealt = [(_doubled_ranks((*a, *b)), len(a)) for a, b in rows]
    sums = [sum(doubled[:size]) for doubled, size in dealt]
    chances = [
        (total / 2 - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)) for total, (a, b) in zip(sums, rows, strict=True)
    ]
    chance = float(np.mean(chances)) if chances else 0.5
    if any(len(doubled) > MOST_EXACT for doubled, _ in dealt):
        means = [size * float(np.mean(doubled)) for doubled, size in dealt]
        variances = [
            size * (len(doubled) - size) / (len(doubled) - 1) * float(np.var(doubled)) for doubled, size in dealt
        ]
        return _normal(chance, sum(sums) - sum(means), sum(variances))
    total = np.ones(1)
    for doubled, size in dealt:
        distribution = _dealt(tuple(sorted(doubled)), size)
        total = np.convolve(total, distribution / distribution.sum())
    return _result(chance, total, sum(sums))


def signed_rank(differences: Sequence[float]) -> RankTest:
    """Exact Wilcoxon signed-rank test of paired differences; zeros are dropped from the test and count half in P."""
    values = np.array([value for value in differences if value != 0])
    doubled = _doubled_ranks(tuple(np.abs(values).tolist()))
    observed = sum(rank for rank, value in zip(doubled, values, strict=True) if value > 0)
    zeros = len(differences) - len(values)
    chance = float(((values > 0).sum() + 0.5 * zeros) / len(differences)) if len(differences) else 0.5
    if len(doubled) > MOST_EXACT:
        return _normal(chance, observed - sum(doubled) / 2, sum(rank**2 for rank in doubled) / 4)
    total = np.ones(1)
    for rank in doubled:
        step = np.zeros(rank + 1)
        step[0] = step[rank] = 0.5
        total = np.convolve(total, step)
    return _result(chance, total, observed)


def _result(chance: float, distribution: NDArray[np.float64], observed: int) -> RankTest:
    above, below = distribution[observed:].sum(), distribution[: observed + 1].sum()
    return RankTest(chance, float(min(1.0, above)), float(min(1.0, below)))


def _normal(chance: float, excess: float, variance: float) -> RankTest:
    """excess: of the sum of doubled ranks over its expectation, corrected for its being a whole number."""
    deviation = math.sqrt(variance)
    above, below = (float(scipy.special.ndtr((sign * excess + 1) / deviation)) if variance else 1.0 for sign in (-1, 1))
    return RankTest(chance, above, below)


def _doubled_ranks(values: tuple[float, ...]) -> list[int]:
    """Twice the mid-ranks, which are whole numbers."""
    return [round(2 * rank) for rank in scipy.stats.rankdata(values)] if values else []


@cache
def _dealt(doubled: tuple[int, ...], size: int) -> NDArray[np.float64]:
    """In how many ways `size` of these ranks add up to each sum."""
    ways = np.zeros((size + 1, sum(doubled) + 1))
    ways[0, 0] = 1
    for rank in doubled:
        for taken in range(size, 0, -1):
            ways[taken, rank:] += ways[taken - 1, : ways.shape[1] - rank]
    found: NDArray[np.float64] = ways[size]
    return found


def chance_interval(chance: float, sizes: Sequence[tuple[int, int]], coverage: float = 0.95) -> Interval:
    """Interval of P(A > B), averaged over rows with these numbers of seeds: Newcombe's (2006, method 5), which takes
    the variance at the bound itself, so that 1.00 of five against five is [0.64, 1.00] and not a certainty."""
    if not sizes or min(map(min, sizes)) < 2:
        return Interval(0.0, 1.0, coverage)
    quantile = float(scipy.special.ndtri((1 + coverage) / 2))

    def inside(theta: float) -> bool:
        variance = 0.0
        for n, m in sizes:
            beyond = (n + m) / 2 - 1
            spread = 1 + beyond * (1 - theta) / (2 - theta) + beyond * theta / (1 + theta)
            variance += theta * (1 - theta) * spread / (n * m)
        return (chance - theta) ** 2 <= quantile**2 * variance / len(sizes) ** 2

    def edge(end: float) -> float:
        near, far = chance, end
        for _ in range(40):
            middle = (near + far) / 2
            near, far = (middle, far) if inside(middle) else (near, middle)
        return near

    return Interval(edge(0.0), edge(1.0), coverage)


MOST_SEEDS = 1000
_POWER = 0.8416  # Normal quantile of 80 %.


def seeds_for_chance(chance: float, rows: int, alpha: float = 0.05) -> int | None:
    """Seeds per cell with which the rank-sum test over so many rows would find this P(A > B) in 80 % of cases; None:
    more than a thousand."""
    needed = float(scipy.special.ndtri(1 - alpha / 2)) + _POWER
    for n in range(2, MOST_SEEDS + 1):
        if abs(chance - 0.5) >= needed * math.sqrt((2 * n + 1) / (12 * n * n * rows)):
            return n
    return None


def seeds_for_equivalence(deviation: float, difference: float, margin: float) -> int | None:
    """Seeds per cell with which two one-sided tests at 5 % would show a difference within the margin in 80 % of cases;
    deviation: of the seeds of one cell."""
    room = margin - abs(difference)
    if room <= 0:
        return None
    n = math.ceil(2 * ((1.645 + _POWER) * deviation / room) ** 2) + 1
    return max(2, n) if n <= MOST_SEEDS else None
