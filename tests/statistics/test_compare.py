"""Verdicts: each is reached, none is reached by accident."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fp3o.config import Change
from fp3o.config.domains import RETURN
from fp3o.statistics import compare, published
from fp3o.statistics.compare import Comparison, compare_cell, sentence
from fp3o.statistics.published import Published
from fp3o.statistics.tables.build import judge

CHEETAH = "mamujoco/halfcheetah-6x1/full/fp3o"  # published 4128.3 ± 366.9
HOPPER = "mamujoco/hopper-3x1/full/fp3o"  # published 3514.1 ± 133.4
BANE = "smac/bane_vs_bane/partial/happo"  # published 65.6 ± 26.4
Around = Callable[..., list[float]]


def test_the_sentence_after_training(scores_around: Around) -> None:
    assert sentence(HOPPER, scores_around(3520, 60)) == "3520 ± 60 (n = 5), published 3514 ± 133: consistent"
    assert "undecided" in sentence(CHEETAH, scores_around(4130, 60))  # The published ± alone is wider than the margin.
    assert sentence(CHEETAH, scores_around(4102, 310)) == (
        "4102 ± 310 (n = 5), published 4128 ± 367: undecided (95 % interval of the difference -563.5 … 510.9)"
    )
    assert sentence(CHEETAH, scores_around(2000, 310)).endswith("published 4128 ± 367: differs (ours lower)")
    assert sentence(CHEETAH, scores_around(7000, 310)).endswith("published 4128 ± 367: differs (ours higher)")
    assert sentence(CHEETAH, [4102.0]) == "4102 (n = 1), published 4128 ± 367: undecided"
    assert sentence("matrix/two-step/full/fp3o", [7.0, 8.0]) == "7.50 ± 0.71 (n = 2), no published value"
    assert sentence(CHEETAH, []).startswith("no score")


def test_undecided_but_not_where_ours_would_fall(scores_around: Around) -> None:
    """MPE's published ± is so wide that hardly anything differs; our own seeds may still tell."""
    text = sentence("mpe/simple-reference/full/happo", scores_around(-6.0, 0.3))  # published −9.8 ± 6.4
    assert "published -9.8 ± 6.4: undecided (outside our prediction interval; 95 %" in text


def test_a_run_that_deviates_is_not_compared() -> None:
    changes = [Change("total_steps", "10000000", "40000", "suite quick")]
    assert sentence(CHEETAH, [4.0, 5.0], changes) == (
        "4.5 ± 0.7 (n = 2), published 4128 ± 367: not compared, deviates from the paper: "
        "total_steps 10000000 → 40000 (suite quick)"
    )
    brief = sentence(CHEETAH, [4.0, 5.0], changes, brief=True)
    assert brief.endswith("not compared, settings that deviate from the paper: 1")


def test_numbers_of_a_mean_cell(scores_around: Around) -> None:
    found = compare_cell(CHEETAH, scores_around(3628.3, 300))
    assert found is not None
    assert found.difference == pytest.approx(-500)
    assert found.standardised == pytest.approx(-500 / 366.9)
    assert found.margin == pytest.approx(219.58)  # a tenth of the paper's 2683.5 … 4879.3 on this task
    # The published ± is taken as ddof = 0: 366.9·√(5/4) = 410.2; √(300²/5 + 410.2²/5) = 227.3, ν = 7.33, t = 2.343
    assert found.high - found.low == pytest.approx(2 * 2.343 * 227.3, rel=2e-3)
    # Five more of our seeds: ± 2.7764·300·√(2/5)
    assert found.prediction.high == pytest.approx(3628.3 + 526.8, abs=0.1)


def test_medians_are_held_against_where_five_further_seeds_would_fall() -> None:
    assert verdict(BANE, [63, 64, 65, 68, 69]) == "consistent"  # 90 % of repetitions within ten points
    assert verdict(BANE, [60, 62, 65, 70, 78]) == "undecided"
    assert verdict(BANE, [0, 0, 0, 0, 0]) == "differs"
    assert verdict(BANE, [0, 0, 0, 0, 66]) == "undecided"
    found = compare_cell(BANE, [0.0, 0.0, 0.0, 0.0, 66.0])
    assert found is not None
    # Mean 13.2, s = 29.5: ± 2.776·29.5·√(1/5 + 0.2868), cut at 0.
    assert (found.prediction.low, found.prediction.high) == pytest.approx((0.0, 13.2 + 57.18), abs=0.1)
    assert (found.low, found.high) == pytest.approx((-65.6, 13.2 + 57.18 - 65.6), abs=0.1)


def test_a_certain_win_rate_needs_no_spread() -> None:
    cell = "smac/bane_vs_bane/none/fp3o"  # published 100.0 ± 0.0
    assert verdict(cell, [100.0] * 5) == "consistent"
    assert verdict(cell, [50.0] * 5) == "differs"


def verdict(cell: str, values: list[float]) -> str:
    found = compare_cell(cell, [float(value) for value in values])
    assert found is not None
    return found.verdict


def judged(*found: Comparison, planned: int = 0) -> list[Comparison]:
    return list(judge({str(place): one for place, one in enumerate(found)}, planned).values())


def test_judging_a_table_is_stricter_than_judging_a_cell(scores_around: Around) -> None:
    """One cell at p ≈ 0.03 among twenty that agree well but cannot be shown to: no longer a difference."""
    entry = published.scores()[CHEETAH]
    wide = compare.compare(scores_around(4300, 900), entry, RETURN, 200.0)
    near = compare.compare(scores_around(3500, 330), entry, RETURN, 200.0)
    assert near.verdict == "differs"
    assert 0.02 < near.p < 0.05
    verdicts = [found.verdict for found in judged(near, *[wide] * 20)]
    assert verdicts == ["undecided"] * 21
    assert judged(near)[0].verdict == "differs"
    # The table's plan counts, not what was run of it.
    assert judged(near, planned=21)[0].verdict == "undecided"
    sure = near._replace(p=0.0001)
    alone, later = judged(sure, planned=21)[0], judged(sure, near, *[wide] * 19, planned=21)[0]
    assert alone.verdict == later.verdict == "differs"
    assert later.p <= alone.p


def test_false_alarms_stay_at_the_promised_rate() -> None:
    """Both sides drawn from one normal distribution: at most 5 % differ."""
    draws = np.random.default_rng(0).normal(100, 10, (1500, 2, 5))
    wrong = 0
    for ours, theirs in draws:
        entry = fake(float(theirs.mean()), float(theirs.std()))
        wrong += compare.compare(ours.tolist(), entry, RETURN, 1.0).verdict == "differs"
    assert wrong / len(draws) < 0.06


def fake(value: float, spread: float) -> Published:
    return Published("a/b/c/d", value, spread, 1, False, False, "", "", "", "", 1)
