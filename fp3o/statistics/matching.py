"""Claims on the matching degree: how often FP3O's condition agrees with the constraint it stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fp3o.statistics.findings import SHARINGS, ClaimVerdict, Finding, Pair, higher, together
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns

MATCHING_SIZES = (100, 200, 500, 1000)
MATCHING_TASKS = ("smac/2c_vs_64zg", "mamujoco/reacher-2x1")
"""The paper's examples: agents that are alike (first task), and agents that are not (second)."""


def matching(cell: CellRuns) -> tuple[int, int]:
    """Iterations in which condition and constraint agree, and all in which this was recorded, summed over seeds."""
    agree = total = 0
    for run in cell.runs:
        column = run.iterations().get("match")
        if column is not None:
            known = column[np.isfinite(column)]
            agree, total = agree + int(known.sum()), total + len(known)
    return agree, total


def matching_rises(data: SuiteRuns) -> Finding:
    """Whether the matching degree rises with the rollout size: Cochran–Armitage test for every task and sharing."""
    places = [f"{task}/{sharing}" for task in MATCHING_TASKS for sharing in SHARINGS]
    scores: list[float] = []
    for place in places:
        names = [f"{place}/fp3o-rollout-{size}" for size in MATCHING_SIZES]
        counts = [matching(data.cells[name]) if name in data.cells else (0, 0) for name in names]
        if all(total for _, total in counts):
            scores.append(trend(counts, [math.log(size) for size in MATCHING_SIZES]))
    if not scores:
        return Finding("not run", "", 0, len(places))
    rising, falling = sum(z > 1.96 for z in scores), sum(z < -1.96 for z in scores)
    verdict: ClaimVerdict = "contradicted" if falling else "supported" if rising == len(places) else "undecided"
    return Finding(verdict, f"rises in {rising}, falls in {falling} of {len(scores)} places", len(scores), len(places))


def degrees(data: SuiteRuns, cell: str) -> list[float]:
    """Each seed's matching degree, from 0 to 1; empty if not run or the settings deviate from the paper's."""
    if cell not in data.cells or data.cells[cell].deviations:
        return []
    counts = [matching(CellRuns(data.cells[cell].planned, (run,))) for run in data.cells[cell].runs]
    return [agree / total for agree, total in counts if total]


def better_matching(data: SuiteRuns, a: str, b: str, sharings: Sequence[Pair], what: str) -> Finding:
    """Whether the matching degree is higher on task `a` than on task `b`.

    sharings: pairs to compare, (sharing on `a`, sharing on `b`).
    """
    both = [
        (degrees(data, f"{a}/{first}/fp3o-rollout-{size}"), degrees(data, f"{b}/{second}/fp3o-rollout-{size}"))
        for first, second in sharings
        for size in MATCHING_SIZES
    ]
    return higher([(x, y) for x, y in both if len(x) > 1 and len(y) > 1], len(both), what, "")


def matching_by_sharing(data: SuiteRuns) -> Finding:
    """Whether sharing raises the matching degree on 2c_vs_64zg and lowers it on Reacher."""
    alike, unlike = MATCHING_TASKS
    return together(
        [
            *(
                better_matching(data, alike, alike, [(s, "none")], f"2c_vs_64zg, {s} over none")
                for s in ("full", "partial")
            ),
            *(
                better_matching(data, unlike, unlike, [("none", s)], f"Reacher, none over {s}")
                for s in ("full", "partial")
            ),
        ]
    )


def trend(counts: Sequence[tuple[int, int]], doses: Sequence[float]) -> float:
    """z of the Cochran–Armitage trend test, positive if successes rise with the dose; counts: (successes, trials)."""
    successes = np.array([agree for agree, _ in counts], float)
    trials = np.array([total for _, total in counts], float)
    dose = np.asarray(doses)
    share = successes.sum() / trials.sum()
    centred = dose - (trials * dose).sum() / trials.sum()
    variance = share * (1 - share) * (trials * centred**2).sum()
    return float((centred * (successes - trials * share)).sum() / math.sqrt(variance)) if variance > 0 else 0.0
