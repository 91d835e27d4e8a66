"""Tests that several claims use, and their result: a verdict, the evidence, how many of the runs needed exist.

Comparisons over several rows use the stratified Wilcoxon rank-sum test. The effect shown is P(A > B), the probability
that a random seed of A scores higher than a random seed of B, averaged over rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.statistics import aggregate
from fp3o.statistics.compare import ALPHA
from fp3o.statistics.intervals import adjust, equivalent, summarise, welch
from fp3o.statistics.scores import CellRuns, scoring_of
from fp3o.statistics.suites import SuiteRuns

ClaimVerdict = Literal["supported", "contradicted", "undecided", "not run"]


class Finding(NamedTuple):
    """The result of a claim's test."""

    verdict: ClaimVerdict
    evidence: str
    found: int
    """Number of comparisons (or cells) that could be made from the runs that exist."""
    needed: int
    """Number of comparisons (or cells) that the claim is about."""
    cells: tuple[str, ...] = ()
    """Ids of the cells with runs that the test looked at."""

    @property
    def words(self) -> str:
        """The verdict as text, with "`found` of `needed`" while comparisons are missing."""
        if self.found >= self.needed or self.verdict in ("not run", "undecided"):
            return self.verdict
        return f"{self.verdict} so far, {self.found} of {self.needed}"


class Claim(NamedTuple):
    """A sentence of the paper that can be tested, or a check of ours."""

    name: str
    text: str
    source: str
    """LaTeX label in the paper; "ours" for our checks of confounders that the paper does not control."""
    test: Callable[[SuiteRuns], Finding]


Pair = tuple[str, str]
SHARINGS = ("full", "partial", "none")  # the paper's


def scores_of(data: SuiteRuns, cell: str, steps: int | None = None) -> list[float]:
    """Scores of a cell, one per seed, at the end or after `steps` environment steps.

    Empty if the cell was not run or deviates from the paper's settings.
    """
    cell_runs = data.cells.get(cell)
    if cell_runs is None or cell_runs.deviations:
        return []
    return (cell_runs if steps is None else cell_runs.until(steps)).scores()


def available(data: SuiteRuns, pairs: Sequence[Pair]) -> list[tuple[list[float], list[float]]]:
    """The scores of both cells, for every pair in which each has at least two seeds.

    On some maps the paper's budget depends on the sharing: such a pair is compared at the end of the shorter budget.
    """
    both = [tuple(scores_of(data, cell, common_steps(data, pair)) for cell in pair) for pair in pairs]
    return [(a, b) for a, b in both if len(a) > 1 and len(b) > 1]


def common_steps(data: SuiteRuns, pair: Pair) -> int | None:
    """The smaller budget of the two cells, in environment steps; None if they are equal."""
    cells = [data.cells[cell] for cell in pair if cell in data.cells]
    steps = {int(run.document["settings"]["total_steps"]) for cell in cells for run in cell.runs}
    return min(steps) if len(steps) > 1 else None


def rank_sum(samples: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float]:
    """Stratified rank-sum test: P(A > B) averaged over rows, and the two-sided p-value (null: no row differs)."""
    excess = variance = 0.0
    chances = []
    for a, b in samples:
        n, m = len(a), len(b)
        chance = float(aggregate.probability_of_improvement(a, b))
        chances.append(chance)
        ties = np.unique([*a, *b], return_counts=True)[1]
        correction = float((ties**3 - ties).sum()) / ((n + m) * (n + m - 1))
        excess += (chance - 0.5) * n * m
        variance += n * m / 12 * (n + m + 1 - correction)
    p = 1.0 if variance <= 0 else float(2 * scipy.stats.norm.sf(abs(excess) / math.sqrt(variance)))
    return float(np.mean(chances)), p


def better(data: SuiteRuns, pairs: Sequence[Pair], what: str) -> Finding:
    """Whether A scores higher than B, over all pairs (A, B) that exist."""
    cut = {pair: common_steps(data, pair) for pair in pairs if available(data, [pair])}
    unequal = ", ".join(f"{Cell.of(a).task} {steps / 1e6:g} M" for (a, _), steps in cut.items() if steps)
    note = f" (unequal budgets, compared at the steps both have: {unequal})" if unequal else ""
    return higher(available(data, pairs), len(pairs), what, note)


def higher(samples: Sequence[tuple[Sequence[float], Sequence[float]]], needed: int, what: str, note: str) -> Finding:
    """Whether the first sample of a pair tends to be higher than the second, over all pairs of samples.

    needed: number of pairs the claim is about; what, note: text before and after the numbers in the evidence.
    """
    if not samples:
        return Finding("not run", "", 0, needed)
    chance, p = rank_sum(samples)
    verdict: ClaimVerdict = "undecided" if p >= ALPHA else "supported" if chance > 0.5 else "contradicted"
    return Finding(verdict, f"{what}: P = {chance:.2f}, {p_text(p)}{note}", len(samples), needed)


def p_text(value: float) -> str:
    """A p-value for readers."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def together(findings: Sequence[Finding]) -> Finding:
    """The finding of a claim with several parts: contradicted if any is, supported if all are, else undecided."""
    done = [finding for finding in findings if finding.verdict != "not run"]
    found, needed = sum(f.found for f in findings), sum(f.needed for f in findings)
    if not done:
        return Finding("not run", "", 0, needed)
    evidence = "; ".join(finding.evidence for finding in done)
    verdicts = {finding.verdict for finding in findings}
    if "contradicted" in verdicts:
        return Finding("contradicted", evidence, found, needed)
    return Finding("supported" if verdicts == {"supported"} else "undecided", evidence, found, needed)


def same(data: SuiteRuns, pairs: Sequence[Pair]) -> Finding:
    """Whether A and B are equivalent: within 10 % or one standard deviation of B (win rates: 10 percentage points)."""
    samples = [(a, b, pair[1]) for pair in pairs for a, b in available(data, [pair])]
    if not samples:
        return Finding("not run", "", 0, len(pairs))
    equal, p_values = 0, []
    for a, b, cell in samples:
        ours, theirs = summarise(a, "mean"), summarise(b, "mean")
        margin = scoring_of(cell).margin or max(0.1 * abs(theirs.centre), theirs.spread)
        equal += equivalent(ours, theirs, margin)
        p_values.append(welch(ours, theirs).p)
    adjusted = adjust(p_values)
    apart = sum(p < ALPHA for p in adjusted)
    verdict: ClaimVerdict = "contradicted" if apart else "supported" if equal == len(pairs) else "undecided"
    text = f"equivalent in {equal}, different in {apart} of {len(samples)} comparisons of means"
    text += f" (Welch's test, smallest {p_text(min(adjusted))})"
    return Finding(verdict, text, len(samples), len(pairs))


def less_spread(data: SuiteRuns, pairs: Sequence[Pair], part: float, what: str) -> Finding:
    """Whether A's scores vary less over seeds than B's in the first `part` (a fraction) of training.

    Tests the mean difference of their standard deviations, with a bootstrap interval over seeds within every cell.
    """
    known = [(data.cells[a], data.cells[b]) for a, b in pairs if a in data.cells and b in data.cells]
    both = [(early_curves(a, part), early_curves(b, part)) for a, b in known]
    samples = [(a, b) for a, b in both if a is not None and b is not None]
    if not samples:
        return Finding("not run", "", 0, len(pairs))
    spreads = [(_deviation(a), _deviation(b)) for a, b in samples]
    generator = np.random.default_rng(0)
    redrawn = np.mean(
        [
            [_deviation(_redraw(a, generator)) - _deviation(_redraw(b, generator)) for _ in range(1000)]
            for a, b in samples
        ],
        axis=0,
    )
    low, high = np.quantile(redrawn, [0.025, 0.975])
    verdict: ClaimVerdict = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
    less, mean = sum(a < b for a, b in spreads), np.mean([a - b for a, b in spreads])
    text = f"{what} in {less} of {len(samples)}: mean difference {mean:.2f} [{low:.2f}, {high:.2f}]"
    return Finding(verdict, text, len(samples), len(pairs))


def early_curves(cell: CellRuns, part: float) -> NDArray[np.float64] | None:
    """Scores [seeds, E] at the evaluations in the first `part` (a fraction) of training.

    None if there are fewer than two seeds or the settings deviate from the paper's.
    """
    length = min((len(run.curve.value) for run in cell.runs), default=0)
    if len(cell.runs) < 2 or length == 0 or cell.deviations:
        return None
    return np.stack([run.curve.value[: max(1, round(length * part))] for run in cell.runs])


def _deviation(curves: NDArray[np.float64]) -> float:
    return float(curves.std(0, ddof=1).mean())


def _redraw(curves: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = curves[generator.integers(0, len(curves), len(curves))]
    return drawn
