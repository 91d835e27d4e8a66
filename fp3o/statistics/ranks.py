"""Does the order of the algorithms agree with the paper's, row by row?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import scipy

from fp3o.statistics.intervals import Interval, Statistic, summarise, welch
from fp3o.statistics.published import Published


class RankRow(NamedTuple):
    """A row all of whose published algorithms were run."""

    name: str
    published: tuple[Published, ...]
    scores: tuple[tuple[float, ...], ...]
    """Our seeds, algorithm by algorithm."""
    statistic: Statistic

    @property
    def ours(self) -> list[float]:
        return [summarise(values, self.statistic).centre for values in self.scores]

    @property
    def theirs(self) -> list[float]:
        return [entry.value for entry in self.published]


class Agreement(NamedTuple):
    """Agreement of all rows. A single row of four algorithms can prove nothing (τ = 1 has p = 1/24)."""

    rows: int
    mean_tau: float
    interval: Interval
    """By redrawing our seeds within each cell."""
    p: float
    """Exact: chance of a mean τ as high if our labels were shuffled within rows."""
    taus: dict[str, float]
    separated_pairs: int
    """Pairs the paper itself separates (Welch, 5 %)."""
    separated_agree: int
    top_agree: int
    """Rows whose published best (any of those tied) is our best."""


def tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's τ-b; 0 where one side has no order at all."""
    found = float(scipy.stats.kendalltau(first, second).statistic)
    return found if np.isfinite(found) else 0.0


def agreement(rows: Sequence[RankRow], replicates: int = 500) -> Agreement | None:
    """All rows together; None without rows."""
    if not rows:
        return None
    taus = {row.name: tau(row.theirs, row.ours) for row in rows}
    mean = float(np.mean(list(taus.values())))
    pairs = [pair for row in rows for pair in _separated(row)]
    tops = 0
    for row in rows:
        ours = row.ours
        tops += any(
            theirs == max(row.theirs) and mine == max(ours) for theirs, mine in zip(row.theirs, ours, strict=True)
        )
    return Agreement(
        len(rows), mean, _redraw(rows, replicates), _chance(rows, mean), taus, len(pairs), sum(pairs), tops
    )


def _separated(row: RankRow) -> list[bool]:
    """For each pair the paper separates: whether ours have the same sign."""
    ours = row.ours
    found = []
    for i, j in combinations(range(len(ours)), 2):
        a, b = row.published[i], row.published[j]
        if a.spread is not None and b.spread is not None and welch(a.summary, b.summary).p < 0.05:
            found.append((a.value - b.value) * (ours[i] - ours[j]) > 0)
    return found


def _chance(rows: Sequence[RankRow], observed: float) -> float:
    """Exact permutation distribution of the sum of τ: every row's shuffles, convolved."""
    total = {0.0: 1.0}
    for row in rows:
        shuffles = list(permutations(row.ours))
        step: dict[float, float] = {}
        for shuffled in shuffles:
            value = round(tau(row.theirs, shuffled), 9)
            step[value] = step.get(value, 0.0) + 1 / len(shuffles)
        mixed: dict[float, float] = {}
        for left, p in total.items():
            for right, q in step.items():
                key = round(left + right, 6)
                mixed[key] = mixed.get(key, 0.0) + p * q
        total = mixed
    return min(1.0, sum(p for value, p in total.items() if value >= observed * len(rows) - 1e-5))


def _redraw(rows: Sequence[RankRow], replicates: int) -> Interval:
    """Percentile interval of the mean τ over redraws of our seeds within each cell."""
    generator = np.random.default_rng(0)
    found = [
        np.mean(
            [
                tau(
                    row.theirs,
                    [_centre(generator.choice(values, len(values)).tolist(), row.statistic) for values in row.scores],
                )
                for row in rows
            ]
        )
        for _ in range(replicates)
    ]
    low, high = np.quantile(found, [0.025, 0.975])
    return Interval(float(low), float(high), 0.95)


def _centre(values: Sequence[float], statistic: Statistic) -> float:
    return float(np.mean(values) if statistic == "mean" else np.median(values))
