"""Tests that several claims use, and their result: a verdict, its effect with an interval, how much of it was run.

Comparisons over several rows use the exact stratified rank-sum test, where seeds share their episodes the exact
signed-rank test of their differences. The effect shown is P(A > B), the probability that a random seed of A scores
higher than a random seed of B, averaged over rows; of paired seeds it is the mean difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.statistics.choices import Family
from fp3o.statistics.compare import ALPHA
from fp3o.statistics.intervals import Student, adjust, mean_of, summarise, welch
from fp3o.statistics.margins import margin_of
from fp3o.statistics.rank_tests import (
    RankTest,
    chance_interval,
    rank_sum,
    seeds_for_chance,
    seeds_for_equivalence,
    signed_rank,
)
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.spread import log_spread_ratio
from fp3o.statistics.suites import SuiteRuns

ClaimVerdict = Literal["supported", "contradicted", "equivalent", "undecided", "floor", "not comparable", "not run"]
UNTESTED: tuple[ClaimVerdict, ...] = ("floor", "not comparable", "not run")
"""Verdicts that no p-value gives or takes."""


class Effect(NamedTuple):
    """What a claim's test measures, with a 95 % interval."""

    name: str
    value: float
    low: float
    high: float

    @staticmethod
    def of(name: str, found: Student) -> Effect:
        return Effect(name, found.value, *found.interval()[:2])

    @property
    def text(self) -> str:
        bounds = f" [{self.low:.2f}, {self.high:.2f}]" if math.isfinite(self.high - self.low) else ""
        return f"{self.name} = {self.value:.2f}{bounds}"


class Finding(NamedTuple):
    """The result of a claim's test."""

    verdict: ClaimVerdict
    evidence: str
    found: int
    """Number of comparisons (or cells) that could be made from the runs that exist."""
    needed: int
    """Number of comparisons (or cells) that the claim is about."""
    effect: Effect | None = None
    """Of a claim with several parts, that of the part with the weakest support."""
    seeds: int | None = None
    """Seeds per cell that would decide the claim in 80 % of cases, were today's effect and spread the true ones; None:
    more than a thousand, or not known."""
    cells: tuple[str, ...] = ()
    """Ids of the cells with runs that the test looked at."""
    p_for: float = 1.0
    """p-value with which the claim is supported; contradicted: `p_against`; shown to be no difference: `p_equal`.
    All are two-sided where a test has sides."""
    p_against: float = 1.0
    p_equal: float = 1.0

    @property
    def words(self) -> str:
        """The verdict as text, with "`found` of `needed`" while comparisons are missing."""
        if self.found >= self.needed or self.verdict in (*UNTESTED, "undecided"):
            return self.verdict
        return f"{self.verdict} so far, {self.found} of {self.needed}"

    def judged(self, p_for: float, p_against: float, p_equal: float = 1.0) -> Finding:
        """With these p-values, by themselves or as `correct` adjusts them, and the verdict that follows."""
        verdict: ClaimVerdict = "undecided"
        if p_equal < ALPHA:
            verdict = "equivalent"
        elif p_for < ALPHA:
            verdict = "supported"
        elif p_against < ALPHA:
            verdict = "contradicted"
        p_for, p_against, p_equal = (min(1.0, p) for p in (p_for, p_against, p_equal))
        return self._replace(verdict=verdict, p_for=p_for, p_against=p_against, p_equal=p_equal)


def correct(findings: Sequence[Finding], family: Family = "planned") -> list[Finding]:
    """The verdicts after Benjamini and Hochberg over all claims, those that were not run included."""
    if family == "alone":
        return list(findings)
    told = [one for one in findings if one.verdict not in UNTESTED]
    planned = len(findings) if family == "planned" else len(told)
    columns = [adjust([getattr(one, name) for one in told], planned) for name in ("p_for", "p_against", "p_equal")]
    judged = iter([one.judged(*p_values) for one, *p_values in zip(told, *columns, strict=True)])
    return [one if one.verdict in UNTESTED else next(judged) for one in findings]


class Claim(NamedTuple):
    """A sentence of the paper that can be tested, or a check of ours."""

    name: str
    text: str
    source: str
    """LaTeX label in the paper; "ours" for our checks of confounders that the paper does not control."""
    test: Callable[[SuiteRuns], Finding]


Pair = tuple[str, str]
SHARINGS = ("full", "partial", "none")  # the paper's


def scores_of(data: SuiteRuns, cell: str) -> list[float]:
    """Scores of a cell, one per seed; empty if it was not run or deviates from the paper's settings."""
    found = cell_at(data, cell)
    return found.scores() if found is not None else []


def cell_at(data: SuiteRuns, cell: str, steps: int | None = None) -> CellRuns | None:
    """A cell's runs, up to `steps` environment steps; None if it was not run or deviates from the paper's settings."""
    runs = data.cells.get(cell)
    if runs is None or not runs.runs or runs.deviations:
        return None
    return runs if steps is None else runs.until(steps)


def common_steps(data: SuiteRuns, pair: Pair) -> int | None:
    """The smaller budget of the two cells, in environment steps; None if they are equal."""
    cells = [data.cells[cell] for cell in pair if cell in data.cells]
    steps = {int(run.document["settings"]["total_steps"]) for cell in cells for run in cell.runs}
    return min(steps) if len(steps) > 1 else None


class Compared(NamedTuple):
    """Two cells that a claim compares, both with at least two seeds."""

    pair: Pair
    first: dict[int, float]
    """Scores by seed; likewise of the second cell."""
    second: dict[int, float]
    margin: float | None
    paired: bool
    """Whether seeds of equal number were scored on the same episodes."""
    floor: bool
    """Whether no seed of either is above the floor."""
    steps: int | None = None
    """Where the budgets are unequal: the steps after which both are scored."""

    @property
    def samples(self) -> tuple[list[float], list[float]]:
        return list(self.first.values()), list(self.second.values())

    @property
    def differences(self) -> list[float]:
        """Seed by seed."""
        return [self.first[seed] - self.second[seed] for seed in sorted(self.first.keys() & self.second.keys())]

    @property
    def gap(self) -> Student:
        """The difference of the means, paired or Welch's."""
        return mean_of(self.differences) if self.paired else welch(*(summarise(x, "mean") for x in self.samples))

    @property
    def p_equal(self) -> float:
        """Of two one-sided tests against the margin."""
        return 1.0 if self.margin is None else self.gap.p_equal(self.margin)

    @property
    def seeds_to_show_equal(self) -> int | None:
        """Seeds per cell that would show that the difference is within the margin."""
        if self.paired:
            deviation = summarise(self.differences, "mean").spread / math.sqrt(2)
        else:
            deviation = math.sqrt(sum(summarise(values, "mean").spread ** 2 for values in self.samples) / 2)
        return seeds_for_equivalence(deviation, self.gap.value, self.margin or 0.0)


def compared(data: SuiteRuns, pairs: Sequence[Pair]) -> list[Compared]:
    """The pairs of which both cells have at least two seeds.

    On some maps the paper's budget depends on the sharing: such a pair is compared at the end of the shorter budget.
    """
    found = []
    for pair in pairs:
        steps = common_steps(data, pair)
        one, other = (cell_at(data, cell, steps) for cell in pair)
        if one is None or other is None:
            continue
        first, second = one.by_seed(), other.by_seed()
        if min(len(first), len(second)) > 1:
            paired = one.scoring.paired and data.choices.test == "usual" and len(first.keys() & second.keys()) > 1
            margin = margin_of(pair[1], data.suite, data.choices.margin)
            found.append(Compared(pair, first, second, margin, paired, one.at_floor and other.at_floor, steps))
    return found


def better(data: SuiteRuns, pairs: Sequence[Pair], what: str) -> Finding:
    """Whether A scores higher than B, over all pairs (A, B) that exist. Rows where nobody wins say nothing."""
    every = compared(data, pairs)
    rows = [row for row in every if not row.floor]
    if not rows:
        return _nothing_to_compare(every, len(pairs), what)
    unequal = ", ".join(f"{Cell.of(row.pair[0]).task} {row.steps / 1e6:g} M" for row in rows if row.steps)
    note = f" (unequal budgets, compared at the steps both have: {unequal})" if unequal else ""
    note += f"; at the floor in {len(every) - len(rows)} of {len(every)}" if len(rows) < len(every) else ""
    test, effect = _rank_test(rows, data.choices.test)
    p_equal = max(row.p_equal for row in rows)
    by_either = (seeds_for_chance(test.chance, len(rows)), _most([row.seeds_to_show_equal for row in rows]))
    seeds = min((n for n in by_either if n is not None), default=None)
    equal = "; no difference beyond the margin in any row" if p_equal < ALPHA else ""
    paired = f", {effect.text}" if effect.name != "P" else ""
    text = f"{what}: {_chance_text(test.chance, rows)}{paired}, {p_text(test.p)}{equal}{note}"
    finding = Finding("undecided", text, len(every), len(pairs), effect, seeds)
    return finding.judged(2 * test.above, 2 * test.below, p_equal)


def _nothing_to_compare(every: Sequence[Compared], needed: int, what: str) -> Finding:
    if not every:
        return Finding("not run", "", 0, needed)
    return Finding("floor", f"{what}: nobody wins in {len(every)} of {len(every)}", len(every), needed)


def _rank_test(rows: Sequence[Compared], test: str) -> tuple[RankTest, Effect]:
    """By exact ranks, or by Student's t of the mean difference where `test` is "t"."""
    if all(row.paired for row in rows):
        found = signed_rank([value for row in rows for value in row.differences])
        return found, Effect.of("difference", _mean_gap(rows))
    if test == "t":
        gap = _mean_gap(rows)
        return RankTest(rank_sum([row.samples for row in rows]).chance, *gap.sides), Effect.of("difference", gap)
    found = rank_sum([row.samples for row in rows])
    interval = chance_interval(found.chance, [(len(row.first), len(row.second)) for row in rows])
    return found, Effect("P", found.chance, interval.low, interval.high)


def _mean_gap(rows: Sequence[Compared]) -> Student:
    """Mean over rows of the difference, in margins where every row has one."""
    scales = [row.margin or 1.0 for row in rows]
    if len({Cell.of(row.pair[0]).domain for row in rows}) == 1 and all(row.paired for row in rows):
        scales = [1.0] * len(rows)
    gaps = [row.gap for row in rows]
    mean = float(np.mean([gap.value / scale for gap, scale in zip(gaps, scales, strict=True)]))
    variances = [(gap.error / scale / len(rows)) ** 2 for gap, scale in zip(gaps, scales, strict=True)]
    squares = sum(variance**2 / gap.freedom for variance, gap in zip(variances, gaps, strict=True))
    return Student(mean, math.sqrt(sum(variances)), sum(variances) ** 2 / squares if squares else 1.0)


def _chance_text(chance: float, rows: Sequence[Compared]) -> str:
    if all(row.paired for row in rows):
        return f"higher in {chance:.0%} of pairs of seeds"
    low, high, _ = chance_interval(chance, [(len(row.first), len(row.second)) for row in rows])
    return f"P = {chance:.2f} [{low:.2f}, {high:.2f}]"


def _most(seeds: Sequence[int | None]) -> int | None:
    return None if None in seeds else max((n for n in seeds if n is not None), default=None)


def higher(samples: Sequence[tuple[Sequence[float], Sequence[float]]], needed: int, what: str) -> Finding:
    """Whether the first sample of a pair tends to be higher than the second, over all pairs of samples.

    needed: number of pairs the claim is about; what: text before the numbers in the evidence.
    """
    if not samples:
        return Finding("not run", "", 0, needed)
    test = rank_sum(samples)
    low, high, _ = chance_interval(test.chance, [(len(a), len(b)) for a, b in samples])
    text = f"{what}: P = {test.chance:.2f} [{low:.2f}, {high:.2f}], {p_text(test.p)}"
    effect, seeds = Effect("P", test.chance, low, high), seeds_for_chance(test.chance, len(samples))
    return Finding("undecided", text, len(samples), needed, effect, seeds).judged(2 * test.above, 2 * test.below)


def p_text(value: float) -> str:
    """A p-value for readers."""
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def together(findings: Sequence[Finding]) -> Finding:
    """The finding of a claim with several parts: contradicted if any is, supported if all are, equivalent if all are
    no different, else undecided."""
    done = [finding for finding in findings if finding.verdict != "not run"]
    found, needed = sum(f.found for f in findings), sum(f.needed for f in findings)
    if not done:
        return Finding("not run", "", 0, needed)
    evidence = "; ".join(finding.evidence for finding in done)
    told = [finding for finding in done if finding.verdict not in UNTESTED]
    if not told:
        return Finding(done[0].verdict, evidence, found, needed)
    weakest = max(told, key=lambda finding: finding.p_for)
    seeds = _most([finding.seeds for finding in told])
    return Finding("undecided", evidence, found, needed, weakest.effect, seeds).judged(
        max(finding.p_for for finding in findings),
        len(told) * min(finding.p_against for finding in told),
        max(finding.p_equal for finding in findings),
    )


def same(data: SuiteRuns, pairs: Sequence[Pair]) -> Finding:
    """Whether A and B are equivalent: two one-sided tests against the margin in every row."""
    every = compared(data, pairs)
    rows = [row for row in every if not row.floor]
    if not rows:
        return _nothing_to_compare(every, len(pairs), "alike")
    equal = sum(row.p_equal < ALPHA for row in rows)
    adjusted = adjust([row.gap.p for row in rows], len(pairs))
    apart = sum(p < ALPHA for p in adjusted)
    # The row that is furthest from being shown equal is the claim's effect, in margins.
    row = max(rows, key=lambda one: one.p_equal)
    gap, margin = row.gap, row.margin or math.inf
    effect = Effect.of("difference in margins", gap._replace(value=gap.value / margin, error=gap.error / margin))
    text = f"equivalent in {equal}, different in {apart} of {len(rows)} comparisons of means"
    text += f" (smallest {p_text(min(adjusted))}; margin: 10 points of win rate, a tenth of the paper's range)"
    seeds = _most([one.seeds_to_show_equal for one in rows])
    finding = Finding("undecided", text, len(every), len(pairs), effect, seeds)
    return finding.judged(1.0, min(adjusted), row.p_equal)


def less_spread(data: SuiteRuns, pairs: Sequence[Pair], part: float, what: str) -> Finding:
    """Whether A's scores vary less over seeds than B's in the first `part` (a fraction) of training: Miller's jackknife
    of the ratio of their standard deviations. Rows where nobody wins have nothing that could vary."""
    known = [(data.cells[a], data.cells[b]) for a, b in pairs if a in data.cells and b in data.cells]
    both = [(early_curves(a, part), early_curves(b, part)) for a, b in known]
    samples = [(a, b) for a, b in both if a is not None and b is not None]
    if not samples:
        return Finding("not run", "", 0, len(pairs))
    floor = known[0][0].scoring.floor or 0.0
    moving = [(a, b) for a, b in samples if max(a.max(), b.max()) > floor]
    if not moving:
        return Finding("floor", f"{what}: nobody wins", len(samples), len(pairs))
    # Win rates come in steps of one episode, which alone make a uniform error of this deviation.
    found = log_spread_ratio(moving, floor / math.sqrt(12))
    less = sum(log_spread_ratio([row], floor / math.sqrt(12)).value < 0 for row in moving)
    finding = Finding("undecided", f"{what} in {less} of {len(moving)}", len(samples), len(pairs))
    return spread_finding(finding, found)


def spread_finding(finding: Finding, log_ratio: Student) -> Finding:
    """Of a claim that A varies less than B; its evidence is completed."""
    effect = Effect("ratio of deviations", *map(math.exp, (log_ratio.value, *log_ratio.interval()[:2])))
    more, less = log_ratio.sides
    text = f"{finding.evidence}: {effect.text}, {p_text(log_ratio.p)}"
    return finding._replace(evidence=text, effect=effect).judged(2 * less, 2 * more)


def early_curves(cell: CellRuns, part: float) -> NDArray[np.float64] | None:
    """Scores [seeds, E] at the evaluations in the first `part` (a fraction) of training.

    None if there are fewer than three seeds or the settings deviate from the paper's.
    """
    length = min((len(run.curve.value) for run in cell.runs), default=0)
    if len(cell.runs) < 3 or length == 0 or cell.deviations:
        return None
    return np.stack([run.curve.value[: max(1, round(length * part))] for run in cell.runs])
