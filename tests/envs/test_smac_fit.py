"""The fit of steering parameters finds hidden ones again (benchmarks/fidelity/fit.py), with a small budget."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from benchmark_files import load_benchmark
from recorded_battles import recorded

from fp3o.envs.smac.battle import Steering
from fp3o.envs.smac.check.recording import as_the_game_tells

HIDDEN = Steering(side_bonus=0.35, occupied=0.55)


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    return load_benchmark("fidelity/fit.py")


@pytest.fixture(scope="module")
def objective(fit: ModuleType) -> Any:
    """Of a recording that has no more in it than the game would tell."""
    return fit.Objective([as_the_game_tells(recorded("corridor", "nearest", 24, steering=HIDDEN))], pieces=100)


def test_hidden_parameters_are_found_again(fit: ModuleType, objective: Any) -> None:
    """Within a tenth of the searched range, the two that one map shows best; `fit.py --recover` seeks all six on three
    maps."""
    sought = [parameter for parameter in fit.PARAMETERS if parameter.name in ("side_bonus", "occupied")]
    fitted = fit.search(objective, objective, sought, samples=16, rounds=2)
    for parameter in sought:
        tolerance = 0.1 * (parameter.high - parameter.low)
        assert getattr(fitted, parameter.name) == pytest.approx(getattr(HIDDEN, parameter.name), abs=tolerance)
    excess = objective(fitted) - objective(HIDDEN)
    assert excess.sum() < 3 * fit.noise(excess)
    gain = objective(Steering()) - objective(fitted)
    assert gain.sum() > 4 * fit.noise(gain)


def test_a_profile_tells_what_recordings_say_nothing_about(fit: ModuleType, objective: Any) -> None:
    """Zerglings hardly ever run into zealots that they do not attack."""
    known = fit.profile(objective, HIDDEN, fit.Parameter("occupied", 0.3, 1.2))
    assert 0.45 < known.low <= known.fitted == HIDDEN.occupied <= known.high < 0.65
    unknown = fit.profile(objective, HIDDEN, fit.Parameter("enemy_load", 0.2, 2.0))
    assert unknown.high - unknown.low > 1.0


def test_the_score_is_least_at_the_truth(fit: ModuleType, objective: Any) -> None:
    at_truth = objective(HIDDEN).sum()
    for name, value in (("side_bonus", 0.0), ("side_bonus", 0.9), ("occupied", 0.4), ("occupied", 0.8)):
        assert objective(replace(HIDDEN, **{name: value})).sum() > 1.02 * at_truth


def test_the_same_seed_gives_the_same_score(fit: ModuleType) -> None:
    battles = recorded("corridor", "nearest", 4)
    first, again = (fit.Objective([battles], pieces=20)(Steering()) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(fit.Objective([battles], pieces=20, seed=1)(Steering()), first)
