"""Exact rank tests against enumeration and SciPy, and the interval of P(A > B)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy
from scipy import stats

from fp3o.statistics import rank_tests

A, B = [5.0, 6.0, 7.0, 3.5, 9.0], [1.0, 2.0, 4.0, 3.0, 6.5]


def test_one_row_is_the_exact_mann_whitney_test() -> None:
    found = rank_tests.rank_sum([(A, B)])
    expected = stats.mannwhitneyu(A, B, method="exact")
    assert found.chance == pytest.approx(expected.statistic / 25)
    assert found.p == pytest.approx(expected.pvalue)
    # A case of the shipped runs (FP3O and A2PO on 3s5z), where the normal approximation says 0.106.
    a, b = [100.0, 100.0, 100.0, 96.9, 98.4], [96.9, 95.3, 100.0, 93.8, 96.9]
    assert stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False).pvalue == pytest.approx(0.07, abs=0.04)
    assert rank_tests.rank_sum([(a, b)]).p > 0.1


def test_ties_are_dealt_out_too() -> None:
    a, b = [0.0, 0.0, 50.0, 100.0], [0.0, 0.0, 0.0, 50.0]
    pool = np.array(a + b)
    ranks = stats.rankdata(pool)
    sums = [ranks[list(hand)].sum() for hand in combinations(range(8), 4)]
    found = rank_tests.rank_sum([(a, b)])
    assert found.above == pytest.approx(np.mean(np.array(sums) >= ranks[:4].sum()))
    assert found.below == pytest.approx(np.mean(np.array(sums) <= ranks[:4].sum()))
    assert rank_tests.rank_sum([([1.0, 1.0], [1.0, 1.0])]) == (0.5, 1.0, 1.0)


def test_rows_are_pooled_without_comparing_across_them() -> None:
    """Two rows at very different levels, in each a complete lead: the chance of both is 1/252²."""
    rows = [([11.0, 12, 13, 14, 15], [1.0, 2, 3, 4, 5]), ([1011.0, 1012, 1013, 1014, 1015], [1001.0, 1002, 3, 4, 5])]
    found = rank_tests.rank_sum(rows)
    assert found.chance == 1.0
    assert found.above == pytest.approx(1 / 252**2)


def test_signed_ranks_by_enumeration() -> None:
    differences = [0.3, -0.1, 0.5, 0.2, 0.0, 0.2]
    found = rank_tests.signed_rank(differences)
    values = [value for value in differences if value]
    ranks = stats.rankdata(np.abs(values))
    observed = ranks[np.array(values) > 0].sum()
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=5)]
    assert found.above == pytest.approx(np.mean(np.array(sums) >= observed))
    assert found.chance == pytest.approx(4.5 / 6)


def test_five_against_five_is_no_certainty() -> None:
    """A bootstrap of five seeds would print 1.00 [1.00, 1.00]."""
    low, high, _ = rank_tests.chance_interval(1.0, [(5, 5)])
    assert (round(low, 2), high) == (0.64, 1.0)
    wide, narrow = (rank_tests.chance_interval(0.7, [(5, 5)] * rows) for rows in (1, 18))
    assert wide.low < narrow.low < 0.7 < narrow.high < wide.high
    assert rank_tests.chance_interval(0.5, [(1, 5)])[:2] == (0.0, 1.0)


def test_the_number_of_seeds_that_would_decide() -> None:
    """Simulated: with so many seeds the exact test finds the difference in about 80 % of cases."""
    shift = 1.0
    chance = float(stats.norm.cdf(shift / np.sqrt(2)))
    n = rank_tests.seeds_for_chance(chance, rows=1)
    assert n is not None
    draws = np.random.default_rng(0).standard_normal((300, 2, n))
    found = np.mean([rank_tests.rank_sum([(list(a + shift), list(b))]).p < 0.05 for a, b in draws])
    assert 0.7 < found < 0.9
    assert rank_tests.seeds_for_chance(0.5, rows=18) is None
    assert rank_tests.seeds_for_chance(chance, rows=18) == 2
    needed = rank_tests.seeds_for_equivalence(deviation=1.0, difference=0.0, margin=1.0)
    assert needed is not None
    assert 12 < needed < 25
    assert rank_tests.seeds_for_equivalence(1.0, difference=1.0, margin=1.0) is None


@pytest.mark.parametrize("ties", [False, True])
def test_many_values_are_judged_by_the_normal_approximation(ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as that is as good; a thousand seeds against a thousand take no memory to speak of."""
    generator = np.random.default_rng(0)
    draw = (lambda n: generator.integers(0, 12, n).astype(float)) if ties else generator.standard_normal
    half = rank_tests.MOST_EXACT // 2
    rows = [((draw(half) + shift).tolist(), draw(half).tolist()) for shift in (0.0, 0.3)]
    differences = (draw(rank_tests.MOST_EXACT) - draw(rank_tests.MOST_EXACT) + 0.2).tolist()
    exact = [rank_tests.rank_sum(rows), rank_tests.signed_rank(differences)]
    monkeypatch.setattr(rank_tests, "MOST_EXACT", 10)
    approximate = [rank_tests.rank_sum(rows), rank_tests.signed_rank(differences)]
    for one, other in zip(exact, approximate, strict=True):
        assert one.chance == other.chance
        assert other.above == pytest.approx(one.above, abs=0.003)
        assert other.below == pytest.approx(one.below, abs=0.003)
    a, b = draw(1000), draw(1000)
    mine = rank_tests.rank_sum([(a.tolist(), b.tolist())]).p
    assert mine == pytest.approx(scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue, abs=1e-6)
    assert rank_tests.rank_sum([([1.0] * 50, [1.0] * 50)]).p == 1.0
