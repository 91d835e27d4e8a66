"""An algorithm against a baseline of the same suite, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy

from fp3o.statistics.compare import ALPHA
from fp3o.statistics.intervals import adjust, mean_interval
from fp3o.statistics.scores import CellRuns, reduce, scoring_of

Verdict = Literal["better", "worse", "equivalent", "undecided"]
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
    """p-value of the paired t-test (null: no difference), 1 with fewer than three seeds; `judge` adjusts it for the
    number of cells in a table."""
    equivalent: bool
    """Whether the 90 % interval lies within ± the larger of 10 % of the baseline and its standard deviation."""
    verdict: Verdict


def by_seed(cell: CellRuns) -> dict[int, float]:
    """The score of every seed that has one."""
    rule = scoring_of(cell.cell).reduction
    found = {run.seed: reduce(run, rule) for run in cell.runs}
    return {seed: score for seed, score in found.items() if score is not None}


def compare(ours: Mapping[int, float], baseline: Mapping[int, float]) -> Paired | None:
    """Compare scores, given by seed; None if no seed is in both. For the cells of a table call `judge` next."""
    seeds = sorted(ours.keys() & baseline.keys())
    if not seeds:
        return None
    differences = [ours[seed] - baseline[seed] for seed in seeds]
    base = [baseline[seed] for seed in seeds]
    n, mean = len(seeds), float(np.mean(differences))
    low, high, _ = mean_interval(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    if n < LEAST_SEEDS:
        p = 1.0
    elif spread == 0:
        p = 1.0 if mean == 0 else 0.0
    else:
        p = 2 * float(scipy.special.stdtr(n - 1, -abs(mean) / (spread / math.sqrt(n))))
    margin = max(0.1 * abs(float(np.mean(base))), float(np.std(base, ddof=1)) if n > 1 else 0.0)
    narrow = mean_interval(differences, 0.90)
    same = n >= LEAST_SEEDS and -margin <= narrow.low and narrow.high <= margin
    return Paired(n, mean, low, high, p, same, _verdict(same, p, mean))


def _verdict(same: bool, p: float, mean: float) -> Verdict:
    if same:
        return "equivalent"
    return "undecided" if p >= ALPHA else "better" if mean > 0 else "worse"


def judge(found: Sequence[Paired]) -> list[Paired]:
    """The comparisons of one table with p-values adjusted for their number (Benjamini–Hochberg) and new verdicts."""
    adjusted = adjust([one.p for one in found])
    return [
        one._replace(p=p, verdict=_verdict(one.equivalent, p, one.difference))
        for one, p in zip(found, adjusted, strict=True)
    ]
