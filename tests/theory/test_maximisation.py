"""The closed-form maximiser is the maximiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from .maximisation import maximise, penalised


def problem(seed: int, penalty: float) -> tuple[np.ndarray, np.ndarray, float]:
    generator = np.random.default_rng(seed)
    states, actions = 2 + seed % 3, 2 + seed % 2
    old = generator.dirichlet(np.ones(actions), size=states) + 0.03
    old /= old.sum(axis=1, keepdims=True)
    return old, generator.normal(size=(states, actions)), penalty


@pytest.mark.parametrize("penalty", [0.3, 3.0, 300.0])
@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_general_solver(seed: int, penalty: float) -> None:
    """SLSQP on softmax tables, the largest KL divergence as one more variable under constraints."""
    old, gain, penalty = problem(seed, penalty)

    def table(parameters: np.ndarray) -> np.ndarray:
        weights = old * np.exp(parameters[:-1].reshape(old.shape))
        return weights / weights.sum(axis=1, keepdims=True)

    def room(parameters: np.ndarray) -> np.ndarray:
        new = table(parameters)
        return parameters[-1] - np.sum(old * np.log(old / new), axis=1)

    found = minimize(
        lambda parameters: -np.sum(gain * table(parameters)) + penalty * parameters[-1],
        np.append(np.zeros(old.size), 1e-3),
        method="SLSQP",
        constraints={"type": "ineq", "fun": room},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    exact = maximise(old, gain, penalty)
    np.testing.assert_allclose(exact.sum(axis=1), 1, atol=1e-14)
    numerical = table(found.x)
    assert penalised(old, exact, gain, penalty) >= penalised(old, numerical, gain, penalty) - 1e-13
    np.testing.assert_allclose(numerical, exact, atol=2e-4)


@pytest.mark.parametrize("penalty", [0.3, 3.0, 300.0])
@pytest.mark.parametrize("seed", range(6))
def test_no_other_table_does_better(seed: int, penalty: float) -> None:
    old, gain, penalty = problem(seed, penalty)
    exact = maximise(old, gain, penalty)
    best = penalised(old, exact, gain, penalty)
    assert best > penalised(old, old, gain, penalty)
    generator = np.random.default_rng(seed)
    for size in 10.0 ** -np.arange(0, 7):
        for _ in range(50):
            trial = exact * np.exp(size * generator.normal(size=exact.shape))
            trial /= trial.sum(axis=1, keepdims=True)
            assert penalised(old, trial, gain, penalty) <= best + 1e-14


def test_nothing_to_gain_changes_nothing() -> None:
    """A gain that does not depend on the action, in all states or in one."""
    old, gain, _ = problem(2, 1.0)
    np.testing.assert_array_equal(maximise(old, np.ones_like(gain), 1.0), old)
    gain[0] = 0.7
    new = maximise(old, gain, 1.0)
    np.testing.assert_array_equal(new[0], old[0])
    assert np.abs(new[1:] - old[1:]).max() > 1e-2
