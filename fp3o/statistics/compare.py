"""Our scores against the paper's: consistent, differs or undecided, never a bare p-value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fp3o.config import Change
from fp3o.config.domains import Scoring
from fp3o.statistics.choices import USUAL, Choices
from fp3o.statistics.intervals import (
    Interval,
    Summary,
    prediction,
    replication_percentile,
    summarise,
    welch,
)
from fp3o.statistics.margins import margin_of
from fp3o.statistics.published import Published, scores
from fp3o.statistics.scores import departures, scoring_of
from fp3o.statistics.tables.digits import decimals

Verdict = Literal["consistent", "differs", "undecided"]
ALPHA = 0.05


class Comparison(NamedTuple):
    """One cell against its published value."""

    ours: Summary
    published: Published
    difference: float
    """Ours minus published."""
    low: float
    high: float
    """95 % interval of the difference. Means: Welch's. Medians: of five further seeds of ours minus the published
    value."""
    standardised: float | None
    """The difference divided by the published standard deviation; None where none is published."""
    p: float
    """Of no difference; the table's `build` adjusts it for the number of cells in a table."""
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

    def with_p(self, p: float) -> Comparison:
        return self._replace(p=p, verdict=_verdict(self.equivalent, p))


def compare(
    values: Sequence[float], published: Published, rule: Scoring, margin: float, test: str = "usual"
) -> Comparison:
    """Compare one cell's scores, one per seed, with the published value.

    Means: Welch's test and two one-sided ones. Medians: the published ± is not over seeds at all, so the published
    value is held against where the median of five further seeds of ours would fall; seeds are taken to vary by one
    episode of an evaluation (the floor) at least. test: "t" takes medians for means, as `Choices` may ask.
    """
    ours, theirs = summarise(values, rule.statistic), published.summary
    predicted = prediction(values, rule.statistic, rule.limits, rule.floor or 0.0)
    difference = ours.centre - theirs.centre
    if rule.statistic == "mean" or test == "t":
        found = welch(ours, theirs)
        same, p, (low, high, _) = found.p_equal(margin) < ALPHA, found.p, found.interval()
    else:
        narrow, wide = predicted.interval(0.90), predicted.interval()
        same = max(published.value - narrow.low, narrow.high - published.value) < margin
        p, low, high = predicted.p(published.value), wide.low - published.value, wide.high - published.value
    return Comparison(
        ours=ours,
        published=published,
        difference=difference,
        low=low,
        high=high,
        standardised=difference / published.spread if published.spread else None,
        p=p,
        margin=margin,
        equivalent=same,
        prediction=predicted.interval(),
        percentile=replication_percentile(values, published.value, rule.statistic),
        verdict=_verdict(same, p),
    )


def _verdict(same: bool, p: float) -> Verdict:
    return "consistent" if same else "differs" if p < ALPHA else "undecided"


def compare_cell(
    cell: str, values: Sequence[float], rule: Scoring | None = None, choices: Choices = USUAL
) -> Comparison | None:
    """`compare` for a cell id; None where the paper has no number or nothing was run. rule: the domain's by default."""
    published, margin = scores().get(cell), margin_of(cell, factor=choices.margin)
    if published is None or margin is None or not values:
        return None
    return compare(values, published, rule or scoring_of(cell), margin, choices.test)


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
