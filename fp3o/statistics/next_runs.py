"""What to run next: the missing cells that are expected to decide most claims per minute.

A claim rests on rows that are compared. Each row that is complete adds one normal deviate to the claim's test; their
mean, the effect per row, is known from the rows that exist, else from the same rows at a tenth of the steps, and is
drawn towards a weak prior. So the chance that a claim is decided once some more of its rows are there is that of a sum
of normal deviates to pass a threshold. Cells are chosen one group after the other, by what they add per minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from statistics import NormalDist

from fp3o.config import Cell
from fp3o.grouping import grouped
from fp3o.statistics.claims import every_claim, ledger, watch
from fp3o.statistics.findings import UNTESTED, Claim, Finding
from fp3o.statistics.suites import SuiteRuns

THRESHOLD = NormalDist().inv_cdf(1 - 0.007 / 2)
"""p = 0.007: about what Benjamini and Hochberg's rule asks of one of 35 claims when a few others hold."""
PRIOR, PRECISION = 0.4, 4.0
"""Mean and precision of a claim's effect per row, in normal deviates, before any row is known."""
NORMAL = NormalDist()
DECIDED = ("supported", "contradicted", "equivalent")


@dataclass(frozen=True)
class Question:
    """A claim that is open."""

    name: str
    text: str
    rows: tuple[frozenset[str], ...]
    """The cells that must be there for each of its comparisons."""
    done: int
    """Rows that are complete."""
    deviate: float
    """Of the claim's test on them."""
    hint: float
    rows_of_hint: int
    """The same at a tenth of the steps."""

    def chance(self, known: Set[str]) -> float:
        """That it is decided with these cells."""
        more = sum(row <= known for row in self.rows) - self.done
        if more <= 0:
            return 0.0
        rows, precision = self.done + more, PRECISION + self.done + self.rows_of_hint
        sums = self.deviate * math.sqrt(self.done) + self.hint * math.sqrt(self.rows_of_hint)
        effect = (PRIOR * PRECISION + sums) / precision
        mean = (self.deviate * math.sqrt(self.done) + more * effect) / math.sqrt(rows)
        spread = math.sqrt((more + more**2 / precision) / rows)
        return NORMAL.cdf((mean - THRESHOLD) / spread) + NORMAL.cdf((-THRESHOLD - mean) / spread)


@dataclass(frozen=True)
class Step:
    """Cells to train together, since a comparison needs all of them."""

    cells: tuple[str, ...]
    minutes: float
    gain: float
    """Expected number of claims it decides."""
    claims: tuple[str, ...]
    """Those it helps most."""


def deviate_of(finding: Finding) -> float:
    """The normal deviate of the more significant side of its test."""
    if finding.verdict in UNTESTED:
        return 0.0
    p = min(finding.p_for, finding.p_against)
    return NORMAL.inv_cdf(1 - min(max(p, 1e-12), 1.0) / 2)


def rows_of(claim: Claim, data: SuiteRuns) -> tuple[Finding, tuple[frozenset[str], ...]]:
    """What a claim's test finds by itself, and the cells of each row that it compares: of one task and sharing, or of
    one task where sharings are compared."""
    finding, names = watch(claim, data)
    by_row = grouped((Cell.of(name).row, name) for name in names)
    if any(len(cells) > 1 for cells in by_row.values()):
        return finding, tuple(frozenset(cells) for cells in by_row.values() if len(cells) > 1)
    by_task = grouped((Cell.of(name).row[:2], name) for name in names)
    return finding, tuple(frozenset(cells) for cells in by_task.values())


def questions(data: SuiteRuns, early: SuiteRuns | None = None, judged: SuiteRuns | None = None) -> list[Question]:
    """The claims that miss runs and are not decided.

    data: the suite whose cells could be trained. early: the same at a tenth of the steps. judged: the runs by which
    claims are judged today, where other suites have some: a task is taken from one suite as a whole, so that what they
    have does not help here.
    """
    have = {name for name in data.cells if data.cells[name].runs}
    verdicts = {claim.name: finding.verdict for claim, finding in ledger(judged or data)}
    found = []
    for claim in every_claim():
        finding, rows = rows_of(claim, data)
        missing = [row for row in rows if not row <= have]
        if verdicts[claim.name] in DECIDED or not missing:
            continue
        hint, hinted = 0.0, 0
        if early is not None:
            early_finding, early_rows = rows_of(claim, early)
            hint = deviate_of(early_finding)
            hinted = sum(all(early.cells[cell].runs for cell in row) for row in early_rows)
        done = len(rows) - len(missing)
        found.append(Question(claim.name, claim.text, rows, done, deviate_of(finding) if done else 0.0, hint, hinted))
    return found


def plan(
    open_questions: Sequence[Question],
    have: Iterable[str],
    minutes_of: Callable[[str], float | None],
    budget: float,
) -> list[Step]:
    """Groups of cells by expected decisions per minute, until the budget is spent; not those of unknown cost."""
    known, steps, left = set(have), list[Step](), budget
    while True:
        best: Step | None = None
        for bundle in _bundles(open_questions, known, minutes_of, left):
            cost = sum(minutes_of(cell) or 0.0 for cell in bundle)
            gains = {q.name: q.chance(known | bundle) - q.chance(known) for q in open_questions if _touches(q, bundle)}
            gain = sum(gains.values())
            if gain > 0 and (best is None or gain * best.minutes > best.gain * cost):
                top = sorted(gains, key=lambda name: -gains[name])[:3]
                best = Step(tuple(sorted(bundle)), cost, gain, tuple(name for name in top if gains[name] > 0))
        if best is None:
            return steps
        known |= set(best.cells)
        left -= best.minutes
        steps.append(best)


def _bundles(
    open_questions: Sequence[Question], known: Set[str], minutes_of: Callable[[str], float | None], most: float
) -> list[frozenset[str]]:
    """Of every claim the cells missing for its cheapest row, its two cheapest, and so on: a single row rarely decides
    anything. Those that take at most so many minutes."""
    found: dict[frozenset[str], None] = {}
    for question in open_questions:
        priced: list[tuple[float, list[str]]] = []
        for row in question.rows:
            missing = sorted(row.difference(known))
            costs = [minutes_of(cell) for cell in missing]
            if missing and None not in costs:
                priced.append((sum(cost or 0.0 for cost in costs), missing))
        together: set[str] = set()
        for _, missing in sorted(priced):
            together |= set(missing)
            if sum(minutes_of(cell) or 0.0 for cell in together) > most:
                break
            found[frozenset(together)] = None
    return list(found)


def _touches(question: Question, bundle: frozenset[str]) -> bool:
    return any(not bundle.isdisjoint(row) for row in question.rows)


@dataclass(frozen=True)
class MoreSeeds:
    """What would decide a claim all of whose comparisons were run."""

    seeds: int
    """Per cell."""
    minutes: float | None
    """For those that are missing; None where a cell's cost is not known."""
    cells: tuple[str, ...]
    """That have fewer."""


def more_seeds(data: SuiteRuns, minutes_of: Callable[[str], float | None]) -> dict[str, MoreSeeds]:
    """By claim that stays open though all its comparisons were run."""
    found: dict[str, MoreSeeds] = {}
    for claim, finding in ledger(data):
        _, rows = rows_of(claim, data)
        cells = sorted(frozenset().union(*rows)) if rows else []
        run = all(data.cells[cell].runs for cell in cells)
        if finding.verdict == "undecided" and run and finding.seeds:
            costs = [(minutes_of(cell), len(data.cells[cell].runs)) for cell in cells]
            extra = sum((cost or 0.0) * max(0, finding.seeds - n) / n for cost, n in costs)
            few = tuple(cell for cell in cells if len(data.cells[cell].runs) < finding.seeds)
            minutes = extra if all(cost is not None for cost, _ in costs) else None
            found[claim.name] = MoreSeeds(finding.seeds, minutes, few)
    return found
