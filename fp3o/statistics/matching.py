"""Claims on the matching degree: how often FP3O's condition agrees with the constraint it stands for.

Seeds are the units: iterations of one run are not independent. A degree is read beside two numbers: what "always go"
would score, and Cohen's κ, which is 0 for chance agreement and 1 for full agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fp3o.statistics.findings import (
    SHARINGS,
    Effect,
    Finding,
    Pair,
    cell_at,
    higher,
    p_text,
    together,
)
from fp3o.statistics.intervals import mean_of
from fp3o.statistics.scores import CellRuns, Run, recalled
from fp3o.statistics.suites import SuiteRuns

MATCHING_SIZES = (100, 200, 500, 1000)
MATCHING_TASKS = ("smac/2c_vs_64zg", "mamujoco/reacher-2x1")
"""The paper's examples: agents that are alike (first task), and agents that are not (second)."""


class Matching(NamedTuple):
    """How condition and constraint agree over iterations."""

    agree: int
    total: int
    go: int
    """Iterations in which the condition says go."""
    holds: int
    """Iterations in which the constraint holds."""

    @property
    def degree(self) -> float:
        return self.agree / self.total

    @property
    def constant(self) -> float:
        """The degree of the better of "always go" and "never go"."""
        return max(self.holds, self.total - self.holds) / self.total

    @property
    def kappa(self) -> float:
        """Cohen's κ; 0 where one of the two never varies, which shows no agreement beyond chance."""
        go, holds = self.go / self.total, self.holds / self.total
        chance = go * holds + (1 - go) * (1 - holds)
        return (self.degree - chance) / (1 - chance) if chance < 1 else 0.0


@recalled
def matching_of(run: Run) -> Matching | None:
    """None where it was not recorded."""
    columns = run.iterations()
    match, go = columns.get("match"), columns.get("go")
    if match is None:
        return None
    known = np.isfinite(match)
    agrees = match[known] > 0.5
    goes = go[known] > 0.5 if go is not None else np.ones_like(agrees)
    if not len(agrees):
        return None
    return Matching(int(agrees.sum()), len(agrees), int(goes.sum()), int((goes == agrees).sum()))


def matching(cell: CellRuns) -> list[Matching]:
    """Of every seed that recorded it."""
    return [found for run in cell.runs if (found := matching_of(run)) is not None]


def matching_rises(data: SuiteRuns) -> Finding:
    """Whether the matching degree rises with the rollout size: per task and sharing, each seed's slope over the
    logarithm of the size, tested against 0."""
    parts = []
    doses = np.log2(MATCHING_SIZES) - np.mean(np.log2(MATCHING_SIZES))
    for task in MATCHING_TASKS:
        for sharing in SHARINGS:
            cells = [degrees(data, f"{task}/{sharing}/fp3o-rollout-{size}") for size in MATCHING_SIZES]
            seeds = min(map(len, cells))
            if seeds < 2:
                parts.append(Finding("not run", "", 0, 1))
                continue
            values = np.array([cell[:seeds] for cell in cells])  # [sizes, seeds]
            slopes = 100 * (doses @ values) / float(doses @ doses)
            mean = mean_of(slopes.tolist())
            low, high, _ = mean.interval()
            above, below = mean.sides
            name = f"{task.partition('/')[2]}, {sharing}"
            text = f"{name}: {mean.value:+.2f} [{low:.2f}, {high:.2f}] points per doubling, {p_text(mean.p)}"
            effect = Effect("points per doubling", mean.value, low, high)
            parts.append(Finding("undecided", text, 1, 1, effect).judged(2 * above, 2 * below))
    return _with_base_rates(data, together(parts))


def _with_base_rates(data: SuiteRuns, finding: Finding) -> Finding:
    """The evidence with κ and the degree of the constant answer, per task."""
    texts = []
    for task in MATCHING_TASKS:
        names = [f"{task}/{sharing}/fp3o-rollout-{size}" for sharing in SHARINGS for size in MATCHING_SIZES]
        cells = [cell for name in names if (cell := cell_at(data, name)) is not None]
        found = [one for cell in cells for one in matching(cell)]
        if found:
            # Of all iterations together: a seed in which one of the two never varies has no κ of its own.
            pool = Matching(*(sum(column) for column in zip(*found, strict=True)))
            numbers = f"degree {pool.degree:.1%}, a constant answer {pool.constant:.1%}, Cohen's κ {pool.kappa:.2f}"
            texts.append(f"{task.partition('/')[2]}: {numbers}")
    return finding._replace(evidence="; ".join([finding.evidence, *texts])) if texts else finding


def degrees(data: SuiteRuns, cell: str) -> list[float]:
    """Each seed's matching degree, from 0 to 1; empty if not run or the settings deviate from the paper's."""
    found = cell_at(data, cell)
    return [one.degree for one in matching(found)] if found is not None else []


def better_matching(data: SuiteRuns, a: str, b: str, sharings: Sequence[Pair], what: str) -> Finding:
    """Whether the matching degree is higher on task `a` than on task `b`.

    sharings: pairs to compare, (sharing on `a`, sharing on `b`).
    """
    both = [
        (degrees(data, f"{a}/{first}/fp3o-rollout-{size}"), degrees(data, f"{b}/{second}/fp3o-rollout-{size}"))
        for first, second in sharings
        for size in MATCHING_SIZES
    ]
    return higher([(x, y) for x, y in both if len(x) > 1 and len(y) > 1], len(both), what)


def matching_by_task(data: SuiteRuns) -> Finding:
    """Whether the matching degree is higher on 2c_vs_64zg than on Reacher."""
    return better_matching(data, *MATCHING_TASKS, [(s, s) for s in SHARINGS], "2c_vs_64zg over Reacher")


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
