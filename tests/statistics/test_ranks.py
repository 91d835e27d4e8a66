"""Rank agreement on rows small enough to enumerate by hand."""

from __future__ import annotations

import pytest

from fp3o.statistics.published import Published
from fp3o.statistics.ranks import RankRow, agreement, tau


def row(name: str, theirs: list[float], ours: list[float], spread: float = 1.0) -> RankRow:
    entries = tuple(
        Published(f"{name}/{k}", v, spread, 1, False, False, "", "", "", "", 1) for k, v in enumerate(theirs)
    )
    return RankRow(name, entries, tuple((v - 0.1, v, v + 0.1) for v in ours), "mean")


def test_tau_by_hand() -> None:
    assert tau([4, 3, 2, 1], [4, 3, 2, 1]) == pytest.approx(1)
    assert tau([4, 3, 2, 1], [4, 3, 1, 2]) == pytest.approx(2 / 3)  # one of six pairs swapped
    assert tau([4, 3, 2, 1], [1, 2, 3, 4]) == pytest.approx(-1)
    assert tau([1, 1, 1, 1], [1, 2, 3, 4]) == 0.0


def test_one_row_proves_nothing() -> None:
    found = agreement([row("a", [4, 3, 2, 1], [4, 3, 2, 1])])
    assert found is not None
    assert (found.rows, found.top_agree) == (1, 1)
    assert found.mean_tau == pytest.approx(1)
    assert found.p == pytest.approx(1 / 24)


def test_two_rows_are_convolved() -> None:
    """Both perfect: 1/24². Mean τ of 5/6: also one perfect and one with a single swap (3 of 24 orders), twice."""
    perfect = agreement([row("a", [4, 3, 2, 1], [4, 3, 2, 1]), row("b", [4, 3, 2, 1], [4, 3, 2, 1])])
    assert perfect is not None
    assert perfect.p == pytest.approx(1 / 576)
    near = agreement([row("a", [4, 3, 2, 1], [4, 3, 2, 1]), row("b", [4, 3, 2, 1], [4, 3, 1, 2])])
    assert near is not None
    assert near.mean_tau == pytest.approx(5 / 6)
    assert near.p == pytest.approx(7 / 576)


def test_only_pairs_the_paper_separates_count() -> None:
    """Spread 1 separates 10 from 1, 2 and 3, and 3 from 1, but neither 3 from 2 nor 2 from 1 (t = 1.4 of five)."""
    found = agreement([row("a", [10, 3, 2, 1], [10, 1, 2, 3])])
    assert found is not None
    assert (found.separated_pairs, found.separated_agree) == (4, 3)
    assert agreement([]) is None


def test_the_interval_has_rows_as_units() -> None:
    one = agreement([row("a", [4, 3, 2, 1], [4, 3, 2, 1])])
    assert one is not None
    assert one.interval.high == float("inf")
    two = agreement([row("a", [4, 3, 2, 1], [4, 3, 2, 1]), row("b", [4, 3, 2, 1], [4, 3, 1, 2])])
    assert two is not None
    assert two.interval.low < two.mean_tau < two.interval.high  # τ of 1 and 2/3
