"""Whether the algorithms' order agrees with the paper's, row by row (Kendall's τ)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import scipy

from fp3o.statistics.intervals import Interval, Statistic, mean_interval, summarise, welch
from fp3o.statistics.published import Published


class RankRow(NamedTuple):
    """A row of a published table all of whose algorithms were run."""

    name: str
    published: tuple[Published, ...]
    scores: tuple[tuple[float, ...], ...]
    """Our scores, one per seed, for each of the published algorithms."""
    statistic: Statistic

    @property
    def ours(self) -> list[float]:
        return [summarise(values, self.statistic).centre for values in self.scores]

    @property
    def theirs(self) -> list[float]:
        return [entry.value for entry in self.published]


class Agreement(NamedTuple):
    """Agreement over all rows; a single row of four algorithms proves little (τ = 1 has p = 1/24)."""

    rows: int
    mean_tau: float
    interval: Interval
    """Of the mean τ over rows like these: Student's t with rows as units; unbounded for a single row."""
    p: float
    """Exact probability of a mean τ at least as high if our algorithms were shuffled within rows."""
    taus: dict[str, float]
    """By row."""
    separated_pairs: int
    """Pairs of algorithms of a row whose published values differ significantly (Welch, 5 %)."""
    separated_agree: int
    """Those of them that are in the same order in ours."""
    top_agree: int
    """Rows in which our best algorithm is a published best one."""


def tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's τ-b; 0 where all values of one side are equal."""
    value = float(scipy.stats.kendalltau(first, second).statistic)
    return value if np.isfinite(value) else 0.0


def agreement(rows: Sequence[RankRow]) -> Agreement | None:
    """Agreement over all rows; None if there are none."""
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
        len(rows), mean, mean_interval(list(taus.values())), _chance(rows, mean), taus, len(pairs), sum(pairs), tops
    )


def _separated(row: RankRow) -> list[bool]:
    """For each pair whose published values differ significantly: whether ours are in the same order."""
    ours = row.ours
    agree = []
    for i, j in combinations(range(len(ours)), 2):
        a, b = row.published[i], row.published[j]
        if a.spread is not None and b.spread is not None and welch(a.summary, b.summary).p < 0.05:
            agree.append((a.value - b.value) * (ours[i] - ours[j]) > 0)
    return agree


def _chance(rows: Sequence[RankRow], observed: float) -> float:
    """Exact probability of a mean τ of at least `observed` under shuffling: the rows' distributions convolved."""
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
