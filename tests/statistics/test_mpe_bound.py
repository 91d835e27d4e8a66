"""The bound's search against all plans, and against a return it must not beat."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from benchmarks import mpe_bound
from fp3o.statistics import published


def brute_force(start: Any, goal: Any, steps: int) -> float:
    """Every plan, stepped one by one: velocity first, then position."""
    best = -np.inf
    for plan in itertools.product(mpe_bound.MOVES, repeat=steps):
        position, velocity, total = np.array(start), np.zeros(2), 0.0
        for move in plan:
            velocity = 0.75 * velocity + 0.1 * 5.0 * move
            position = position + 0.1 * velocity
            total -= float(((position - goal) ** 2).sum())
        best = max(best, total)
    return best


def test_the_search_finds_the_best_of_all_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpe_bound, "STEPS", 4)
    generator = np.random.default_rng(0)
    start, goal = generator.uniform(-1, 1, (5, 2)), generator.uniform(-1, 1, (5, 2))
    expected = [brute_force(a, b, 4) for a, b in zip(start, goal, strict=True)]
    assert mpe_bound.best_returns(start, goal, 0, 5**4) == pytest.approx(np.array(expected))
    narrow = mpe_bound.best_returns(start, goal, 0, 16)
    assert (narrow <= np.array(expected) + 1e-12).all()
    assert narrow == pytest.approx(np.array(expected), abs=0.01)


def test_waiting_costs_and_standing_on_the_goal_is_free() -> None:
    generator = np.random.default_rng(1)
    start, goal = generator.uniform(-1, 1, (20, 2)), generator.uniform(-1, 1, (20, 2))
    assert (mpe_bound.best_returns(start, goal, 0, 32) >= mpe_bound.best_returns(start, goal, 1, 32) - 1e-9).all()
    assert mpe_bound.best_returns(goal, goal, 0, 32) == pytest.approx(np.zeros(20))


def test_the_committed_numbers_are_the_scripts() -> None:
    """Two hundred episodes with a narrower beam: within three standard errors."""
    for bound in published.bounds():
        found = mpe_bound.bound(bound.task, 0 if bound.goal_known == "at once" else 1, episodes=40, width=24)
        assert abs(found.mean() - bound.value) < 3 * bound.spread / 200**0.5
