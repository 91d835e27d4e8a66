"""Ours against the paper's: consistent, differs or undecided, never a bare p-value."""

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
from fp3o.statistics.scores import departures, protocol_of

Verdict = Literal["consistent", "differs", "undecided"]
ALPHA = 0.05
# 90 %, as two one-sided 5 % tests have it; order statistics of five seeds reach 93.75 %, of four only 87.5 %.
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
    """The difference in published spreads."""
    p: float
    margin: float
    equivalent: bool
    prediction: Interval
    """Where the mean (median) of the paper's five seeds should fall if ours are right."""
    percentile: float
    """Where the published value falls among papers made of our seeds."""
    verdict: Verdict

    @property
    def direction(self) -> str:
        """`differs` is always said with a direction."""
        return "" if self.verdict != "differs" else "ours higher" if self.difference > 0 else "ours lower"

    @property
    def words(self) -> str:
        """consistent | undecided | undecided (outside our prediction interval) | differs (ours lower)."""
        if self.verdict == "undecided" and not self.prediction.contains(self.published.value):
            return "undecided (outside our prediction interval)"
        return f"{self.verdict} ({self.direction})" if self.direction else self.verdict


def compare(
    values: Sequence[float], published: Published, statistic: Statistic, margin: float | None = None
) -> Comparison:
    """The comparison of one cell by itself; within a table `judge` corrects for the number of cells."""
    ours, theirs = summarise(values, statistic), published.summary
    spread = published.spread or 0.0
    width = margin if margin is not None else max(0.1 * abs(published.value), spread)
    test = welch(ours, theirs)
    if statistic == "mean":
        same, predicted, p = equivalent(ours, theirs, width), prediction_interval(values), test.p
    else:
        # A median's deviation says little and the published one is not over seeds at all. Equivalence: the order
        # statistics lie within the margin. Difference: Welch says so and the published value is outside our range.
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
    """The cells of one table together: p-values adjusted after Benjamini and Hochberg, verdicts accordingly."""
    adjusted = adjust([comparison.p for comparison in comparisons])
    return [
        comparison._replace(p=p, verdict=_verdict(comparison.equivalent, p))
        for comparison, p in zip(comparisons, adjusted, strict=True)
    ]


def compare_cell(cell: str, values: Sequence[float]) -> Comparison | None:
    """A cell by its name; None where the paper has no number or nothing was run."""
    published = scores().get(cell)
    if published is None or not values:
        return None
    protocol = protocol_of(cell)
    return compare(values, published, protocol.statistic, protocol.margin)


def _plus_minus(centre: float, spread: float | None) -> str:
    """One decimal as in the paper, none from a thousand on; both numbers alike."""
    digits = 0 if abs(centre) >= 1000 else 1
    return f"{centre:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def sentence(cell: str, values: Sequence[float], deviations: Sequence[Change] = ()) -> str:
    """What a finished training prints: 4102 ± 40 (n = 5), published 4128 ± 367: consistent."""
    if not values:
        return "no score: every seed diverged before its first evaluation"
    centre, spread, n = summarise(values, protocol_of(cell).statistic)
    ours = f"{_plus_minus(centre, spread if n > 1 else None)} (n = {n})"
    comparison = compare_cell(cell, values)
    if comparison is None:
        return f"{ours}, no published value"
    theirs = comparison.published
    if departures(deviations):
        words = f"not compared, deviates from the paper: {'; '.join(map(str, departures(deviations)))}"
    elif comparison.verdict == "undecided" and n > 1:
        low, high = (_plus_minus(bound, None) for bound in (comparison.low, comparison.high))
        outside = "outside our prediction interval; " if comparison.words != "undecided" else ""
        words = f"undecided ({outside}95 % interval of the difference {low} … {high})"
    else:
        words = comparison.words
    return f"{ours}, published {_plus_minus(theirs.value, theirs.spread)}: {words}"
