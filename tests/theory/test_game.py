"""The solver itself, against definitions that need no linear algebra."""

from __future__ import annotations

import numpy as np

from .cases import IDENTITY, Case, every_case
from .game import average_over, expectation, product, solve


@every_case
def test_solution_is_what_rolling_the_game_out_gives(case: Case) -> None:
    """J and ρ as the paper defines them: sums over time, here until γ^t is below float precision."""
    surrogates = case.old()
    game, solution = surrogates.game, surrogates.solution
    joint = product(surrogates.old, game.agents)
    distribution, objective, visitation, discount = game.initial, 0.0, np.zeros_like(game.initial), 1.0
    while discount > 1e-17:
        visitation = visitation + discount * distribution
        objective += discount * expectation(distribution, surrogates.old, game.reward)
        weights = distribution.reshape(-1, *(1,) * len(game.agents)) * joint
        distribution = np.tensordot(weights, game.transition, axes=weights.ndim)
        discount *= game.gamma
    assert abs(objective - solution.objective) < IDENTITY
    np.testing.assert_allclose(visitation, solution.visitation, atol=IDENTITY, rtol=0)


@every_case
def test_advantage_averages_to_zero_and_visitation_is_unnormalised(case: Case) -> None:
    surrogates = case.old()
    solution = surrogates.solution
    averaged = average_over(solution.advantage, surrogates.old, surrogates.game.agents)
    assert np.abs(averaged).max() < IDENTITY
    assert abs(solution.visitation.sum() - 1 / (1 - case.gamma)) < IDENTITY


@every_case
def test_performance_difference(case: Case) -> None:
    """J(π̃) = J(π) + E_{s ~ ρ_π̃, a ~ π̃}[A_π], the identity behind Theorem 1; it needs the unnormalised ρ."""
    surrogates, new = case.old(), case.new()
    after = solve(surrogates.game, new)
    gain = expectation(after.visitation, new, surrogates.solution.advantage)
    difference = after.objective - surrogates.solution.objective
    assert abs(difference - gain) < IDENTITY
    assert abs(difference - (1 - case.gamma) * gain) > 1e-3
