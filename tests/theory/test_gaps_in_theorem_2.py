"""Where Theorem 2 needs more than the paper states, by counter-examples worked out exactly.

Both are one-state games, two agents with two actions, uniform old policies. With s_i = +1 for action 0 and -1 for
action 1 an advantage is a polynomial in s_1, s_2, and every expectation follows from the means m_i = E[s_i].
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from .full_pipeline import constraint_gap, dependent_objective, independent_step
from .game import Array, Game, Policies, solve
from .surrogate import Surrogates

SIGN = np.array([1.0, -1.0])
FIRST, SECOND = SIGN[None, :, None], SIGN[None, None, :]
UNIFORM = np.array([[0.5, 0.5]])


def one_state(reward: Array) -> Surrogates:
    """With one state and a reward of mean zero the advantage is the reward."""
    game = Game(np.ones((1, 2, 2, 1)), reward, 0.9, np.ones(1))
    surrogates = Surrogates.at(game, (UNIFORM, UNIFORM))
    np.testing.assert_allclose(surrogates.solution.advantage, reward, atol=1e-14)
    return surrogates


def with_mean(mean: float) -> Array:
    return np.array([[(1 + mean) / 2, (1 - mean) / 2]])


def test_keeping_the_intermediate_policy_when_the_condition_fails_can_lower_the_return() -> None:
    """Algorithm 1 (`algorithm_policyiteration_fp3o`) leaves π_{k+0.5} in place where its condition fails.

    A = s_2 + 3·s_1·s_2, so agent 2 should raise m_2. Split per joint action with positive weights that add up to one,
    as a random split may: agent 2 is given nearly all of the entries that argue against action 0 of its own.
    """
    advantage = SECOND + 3 * FIRST * SECOND + np.zeros((1, 2, 2))
    surrogates = one_state(advantage)
    weight = np.where(FIRST * SECOND < 0, np.where(SECOND > 0, 0.99, 0.01), np.where(SECOND > 0, 0.01, 0.99))
    parts = [(1 - weight) * advantage, weight * advantage]
    assert 0 < weight.min() < weight.max() < 1
    half = independent_step(surrogates, parts, (0, 1))
    assert constraint_gap(surrogates, parts, half, half) < 0  # so the dependent step is skipped
    assert solve(surrogates.game, half).objective < surrogates.solution.objective - 1e-3


def constrained_equilibrium() -> tuple[Surrogates, list[Array], Policies]:
    """A = -s_2/2 split into A^1 = s_1 + s_2/2 and A^2 = -s_1 - s_2: agent 1 gains by m_1, agent 2 loses by m_2.

    The constraint reads m_2/2 ≥ m_1. Agent 1 takes its free maximum, which is feasible if m_2 = 2·m_1, and agent 2,
    which would rather have m_2 < 0, can do no better than that.
    """
    surrogates = one_state(-SECOND / 2 + np.zeros((1, 2, 2)))
    parts = [FIRST + SECOND / 2, -FIRST - SECOND]
    first = independent_step(surrogates, parts, (0, 1))[0]  # no interaction in A^1: the others do not matter
    mean = float(first[0] @ SIGN)
    return surrogates, parts, (first, with_mean(2 * mean))


def test_maxima_under_the_constraint_need_not_improve_anything() -> None:
    """Eq. 11 (`equation_full_step2`) solved literally, each π^{j_p} the maximum under the constraint given the other.

    The proof of Lemma 2 compares π_{k+1}^{j_p} with π_{k+0.5}^{j_p}, which must then be feasible. Here it is not, and
    Lemma 2, the shared lower bound and the return all fail.
    """
    surrogates, parts, new = constrained_equilibrium()
    half = independent_step(surrogates, parts, (0, 1))
    assert abs(constraint_gap(surrogates, parts, half, new)) < 1e-12
    for selected in (0, 1):
        separated = 1 - selected

        def joint(mean: float, selected: int = selected) -> Policies:
            return tuple(with_mean(mean) if agent == selected else new[agent] for agent in (0, 1))

        def objective(mean: float, selected: int = selected, separated: int = separated) -> float:
            return dependent_objective(surrogates, parts[selected], new, selected, separated, with_mean(mean))

        reached = float(new[selected][0] @ SIGN)
        feasible = [
            mean for mean in np.linspace(-0.99, 0.99, 1999) if constraint_gap(surrogates, parts, half, joint(mean)) >= 0
        ]
        assert feasible
        assert max(map(objective, feasible)) <= objective(reached) + 1e-12
    # Agent 1 is at its free maximum, found here by a general solver too; agent 2's comparison policy is infeasible.
    free = minimize_scalar(
        lambda mean: -dependent_objective(surrogates, parts[0], new, 0, 1, with_mean(mean)),
        bounds=(-0.99, 0.99),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert abs(free.x - float(new[0][0] @ SIGN)) < 1e-6
    assert constraint_gap(surrogates, parts, half, (new[0], half[1])) < -1e-3

    agents = surrogates.game.agents
    lemma_2 = 0.0
    for agent in agents:
        own = surrogates.joint_ratio(half, [agent])
        others = surrogates.joint_ratio(new, surrogates.others(agent))
        lemma_2 += surrogates.sampled(surrogates.joint_ratio(new, agents) - own * others + own - 1, parts[agent])
    assert surrogates.penalties(agents, new) > lemma_2 + 1e-3
    assert surrogates.shared_lower_bound(new) < surrogates.solution.objective - 1e-3
    assert solve(surrogates.game, new).objective < surrogates.solution.objective - 1e-3
