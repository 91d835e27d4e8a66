"""Our scores against the paper's: consistent, differs or undecided, never a bare p-value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fp3o.config import Change
from fp3o.statistics.intervals import (
    Interval,
    Statistic,
    Summary,
    adjust,
    equivalent,
    median_interval,
    prediction_interval,
    replication_percentile,
    summarise,
    welch,
)
from fp3o.statistics.published import Published, scores
from fp3o.statistics.scores import departures, scoring_of
from fp3o.statistics.tables.digits import decimals

Verdict = Literal["consistent", "differs", "undecided"]
ALPHA = 0.05
# Coverage that an interval of medians must have to call two medians equivalent: 90 %, as with two one-sided 5 % tests.
# The interval of five seeds has 93.75 %, that of four only 87.5 %.
MEDIAN_COVERAGE = 0.90


class Comparison(NamedTuple):
    """One cell against its published value."""

    ours: Summary
    published: Published
    difference: float
    """Ours minus published."""
    low: float
    high: float
    """95 % Welch interval of the difference."""
    standardised: float | None
    """The difference divided by the published standard deviation; None where none is published."""
    p: float
    """Of no difference; `judge` adjusts it for the number of cells in a table."""
    margin: float
    """Differences smaller than this count as equivalent."""
    equivalent: bool
    """Whether the test of equivalence within the margin succeeds."""
    prediction: Interval
    """Where the mean (median) of five further seeds would fall, judging by ours."""
    percentile: float
    """Fraction of "papers" made of five of our seeds whose value is below the published one."""
    verdict: Verdict

    @property
    def direction(self) -> str:
        """For `differs`: whether ours is higher or lower; "" for other verdicts."""
        return "" if self.verdict != "differs" else "ours higher" if self.difference > 0 else "ours lower"

    @property
    def words(self) -> str:
        """The verdict for readers: consistent, undecided, undecided (outside our prediction interval), differs (ours
        lower) or differs (ours higher)."""
        if self.verdict == "undecided" and not self.prediction.contains(self.published.value):
            return "undecided (outside our prediction interval)"
        return f"{self.verdict} ({self.direction})" if self.direction else self.verdict


def compare(
    values: Sequence[float], published: Published, statistic: Statistic, margin: float | None = None
) -> Comparison:
    """Compare one cell's scores, one per seed, with the published value. For the cells of a table call `judge` next.

    margin: None: the larger of 10 % of the published value and its standard deviation.
    """
    ours, theirs = summarise(values, statistic), published.summary
    spread = published.spread or 0.0
    width = margin if margin is not None else max(0.1 * abs(published.value), spread)
    test = welch(ours, theirs)
    if statistic == "mean":
        same, predicted, p = equivalent(ours, theirs, width), prediction_interval(values), test.p
    else:
        # Medians: standard deviations say little about them, and the published one is not over seeds at all.
        # Equivalent: our interval of the median lies within the margin. Different: by Welch's test, if the published
        # value also lies outside that interval.
        predicted = median_interval(values)
        near = max(abs(predicted.low - published.value), abs(predicted.high - published.value))
        same = predicted.coverage >= MEDIAN_COVERAGE and near < width
        p = 1.0 if predicted.contains(published.value) else test.p
    return Comparison(
        ours=ours,
        published=published,
        difference=test.difference,
        low=test.low,
        high=test.high,
        standardised=test.difference / spread if spread else None,
        p=p,
        margin=width,
        equivalent=same,
        prediction=predicted,
        percentile=replication_percentile(values, published.value, statistic),
        verdict=_verdict(same, p),
    )


def _verdict(same: bool, p: float) -> Verdict:
    return "consistent" if same else "differs" if p < ALPHA else "undecided"


def judge(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one table with p-values adjusted for their number (Benjamini–Hochberg) and new verdicts."""
    adjusted = adjust([comparison.p for comparison in comparisons])
    return [
        comparison._replace(p=p, verdict=_verdict(comparison.equivalent, p))
        for comparison, p in zip(comparisons, adjusted, strict=True)
    ]


def compare_cell(cell: str, values: Sequence[float]) -> Comparison | None:
    """`compare` for a cell id; None where the paper has no number or nothing was run."""
    published = scores().get(cell)
    if published is None or not values:
        return None
    rule = scoring_of(cell)
    return compare(values, published, rule.statistic, rule.margin)


def _plus_minus(centre: float, spread: float | None, digits: int = 1) -> str:
    """`4102 ± 40`: both numbers with one decimal (or so many), or from a thousand on with none."""
    digits = 0 if abs(centre) >= 1000 else digits
    return f"{centre:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def sentence(
    cell: str,
    values: Sequence[float],
    deviations: Sequence[Change] = (),
    judged: Comparison | None = None,
    brief: bool = False,
    beside_paper: bool = True,
) -> str:
    """What `fp3o train` prints at the end: 4102 ± 40 (n = 5), published 4128 ± 367: consistent.

    `judged`: the comparison as corrected for the other cells of its table; by default the cell stands by itself.
    `brief`: departures from the paper's settings are counted, not listed. `beside_paper`: with the published value.
    """
    if not values:
        return "no score: every seed diverged before its first evaluation"
    centre, spread, n = summarise(values, scoring_of(cell).statistic)
    digits = decimals(cell.partition("/")[0], [centre])
    ours = f"{_plus_minus(centre, spread if n > 1 else None, digits)} (n = {n})"
    if not beside_paper:
        return ours
    comparison = judged or compare_cell(cell, values)
    if comparison is None:
        return f"{ours}, no published value"
    theirs = comparison.published
    departed = departures(deviations)
    if departed and brief:
        words = f"not compared, settings that deviate from the paper: {len(departed)}"
    elif departed:
        words = f"not compared, deviates from the paper: {'; '.join(map(str, departed))}"
    elif comparison.verdict == "undecided" and n > 1:
        low, high = (_plus_minus(bound, None) for bound in (comparison.low, comparison.high))
        outside = "outside our prediction interval; " if comparison.words != "undecided" else ""
        words = f"undecided ({outside}95 % interval of the difference {low} … {high})"
    else:
        words = comparison.words
    return f"{ours}, published {_plus_minus(theirs.value, theirs.spread)}: {words}"
