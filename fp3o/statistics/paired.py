"""An algorithm against a baseline of the same suite, seed by seed."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fp3o.statistics.compare import ALPHA
from fp3o.statistics.intervals import mean_of
from fp3o.statistics.rank_tests import rank_sum
from fp3o.statistics.scores import CellRuns

Verdict = Literal["better", "worse", "equivalent", "undecided", "floor"]
LEAST_SEEDS = 3
"""With fewer nothing is decided: two seeds whose differences happen to agree would make a certainty."""


class Paired(NamedTuple):
    """One cell compared with the baseline's cell in the same row, over the n seeds that both have."""

    n: int
    difference: float
    """Mean over seeds of the cell's score minus the baseline's."""
    low: float
    high: float
    """`low` and `high`: 95 % t interval of the difference; unbounded for a single seed."""
    p: float
    """p-value of no difference, 1 with fewer than three seeds: of the paired t-test, for win rates of the exact
    rank-sum test; the table's `build` adjusts it for the number of its cells."""
    equivalent: bool
    """Whether the 90 % interval lies within ± the margin."""
    floor: bool
    """Whether no seed of either is above the floor: there is nothing to compare."""
    verdict: Verdict

    def with_p(self, p: float) -> Paired:
        return self._replace(p=p, verdict=_verdict(self.floor, self.equivalent, p, self.difference))


def against_baseline(ours: CellRuns, baseline: CellRuns, margin: float | None, test: str = "usual") -> Paired | None:
    """Compare two cells; None if no seed is in both.

    margin: smaller differences count as none; None: nothing is ever equivalent. test: as `Choices.test`.
    """
    a, b = ours.by_seed(), baseline.by_seed()
    seeds = sorted(a.keys() & b.keys())
    if not seeds:
        return None
    n, found = len(seeds), mean_of([a[seed] - b[seed] for seed in seeds])
    if n < LEAST_SEEDS:
        p = 1.0
    elif test == "ranks" or (test == "usual" and ours.scoring.limits[0] > -math.inf):
        p = rank_sum([([a[seed] for seed in seeds], [b[seed] for seed in seeds])]).p
    else:
        p = found.p
    same = n >= LEAST_SEEDS and margin is not None and found.p_equal(margin) < ALPHA
    floor = ours.at_floor and baseline.at_floor
    low, high, _ = found.interval()
    return Paired(n, found.value, low, high, p, same, floor, _verdict(floor, same, p, found.value))


def _verdict(floor: bool, same: bool, p: float, mean: float) -> Verdict:
    if floor:
        return "floor"
    if same:
        return "equivalent"
    return "undecided" if p >= ALPHA else "better" if mean > 0 else "worse"
