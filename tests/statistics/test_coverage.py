"""What each interval that is printed covers with five seeds, simulated again, and held against what the docs say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from benchmarks import coverage
from benchmarks.coverage import OTHERS, PRINTED, TRIALS, WINS, drawn, share
from fp3o import config
from fp3o.statistics import intervals

with (config.repository() / coverage.FILE).open(newline="", encoding="utf-8") as _file:
    WRITTEN = {(row["interval"], row["method"], row["seeds"]): float(row["covers"]) for row in csv.DictReader(_file)}

# More than two points from the 95 % that are asked for: means of few skewed seeds. Everything else holds.
SHORT = {
    ("mean of a cell", "skewed"): 88,
    ("mean of a cell", "wins, high"): 89,
    ("mean of a cell", "wins, either end"): 92,
    ("where five further seeds fall, mean", "skewed"): 91,
    ("where five further seeds fall, mean", "wins, high"): 91,
    ("the same, median", "wins, either end"): 93,
    ("difference of means", "skewed"): 91,
    ("ratio of two deviations", "wins, either end"): 98,
    ("mean over six tasks", "skewed"): 92,
    ("interquartile mean, one row", "skewed"): 91,
    ("interquartile mean, one row", "wins"): 93,
    ("interquartile mean, one row", "wins, either end"): 87,
    ("difference of two shares", "wins, high"): 97,
}
CASES = [(row, kind) for row in (*PRINTED, *OTHERS) for kind in row[2]]


@pytest.mark.parametrize(("row", "kind"), CASES, ids=[f"{row[0]}, {row[1]}: {kind}" for row, kind in CASES])
def test_the_docs_say_what_an_interval_covers(row: coverage.Row, kind: str) -> None:
    """The same draws on every machine: only rounding may differ."""
    interval, method, _, covers = row
    found = 100 * covers(kind)
    assert WRITTEN[interval, method, kind] == pytest.approx(found, abs=0.3)
    if interval != "alternative":
        assert abs(found - SHORT.get((interval, kind), 95)) <= (2 if (interval, kind) not in SHORT else 0.7), found


def test_the_docs_say_nothing_else() -> None:
    assert WRITTEN.keys() == {(row[0], row[1], kind) for row, kind in CASES}


def test_no_other_interval_of_the_mean_holds_everywhere() -> None:
    """Within two points of 95 %, for normal and skewed seeds and win rates: why Student's t stays."""
    for _, method, kinds, _ in OTHERS:
        assert any(abs(WRITTEN["alternative", method, kind] - 95) > 2 for kind in kinds), f"{method} would do"


@pytest.mark.parametrize("kind", ["normal", "skewed", *WINS])
def test_a_prediction_and_its_p_value_agree(kind: str) -> None:
    """Where the score's limits do not cut the interval; [min, max] of five seeds would contain the median in 83 %."""
    ours, centres = drawn(kind, TRIALS, 5).tolist(), np.median(drawn(kind, TRIALS, 5, seed=1), 1).tolist()
    found = [intervals.prediction(row, "median") for row in ours]
    likely = [one.p(c) >= 0.05 for one, c in zip(found, centres, strict=True)]
    assert likely == [one.interval().contains(c) for one, c in zip(found, centres, strict=True)]
    assert share([min(row) <= c <= max(row) for row, c in zip(ours, centres, strict=True)]) < 0.9


def test_shares_stay_within_their_limits() -> None:
    """Also those of seeds that are all equal, which say how many trials they had."""
    assert intervals.share_interval([1.0] * 5, 160)[:2] == pytest.approx((0.954, 1.0), abs=1e-3)
    low, high, _ = intervals.share_interval([0.0, 0.0, 0.0, 0.0, 0.01], 5000)
    assert 0 < low < 0.002 < high < 0.02
    assert intervals.share_interval([0.4], 100)[:2] == (0.0, 1.0)


def test_redrawing_five_seeds_would_not_do() -> None:
    """What these replace: percentile bootstraps of five seeds cover 84 % for a mean and less for a deviation."""
    generator = np.random.default_rng(16)
    draws, places = drawn("normal", 1000, 5, seed=17), generator.integers(0, 5, (400, 5))
    means, deviations = draws[:, places].mean(2), draws[:, places].std(2, ddof=1)
    for redrawn, value, most in ((means, 0.0, 0.88), (deviations, 1.0, 0.80)):
        low, high = np.quantile(redrawn, [0.025, 0.975], axis=1)
        assert share(((low <= value) & (value <= high)).tolist()) < most
