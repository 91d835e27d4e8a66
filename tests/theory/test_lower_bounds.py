"""Theorem 1, Eqs. 4, 5, 8 and Lemma 1: bounds for any pair of policies, without any maximisation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from .cases import IDENTITY, Case, every_case
from .game import Policies, expectation, product, solve

# From a small step, where the bound is tight to first order, to an unrelated policy.
STEPS = (1e-3, 0.03, 0.3, 1.0)


def towards(old: Policies, new: Policies, step: float) -> Policies:
    return tuple((1 - step) * before + step * after for before, after in zip(old, new, strict=True))


@every_case
@pytest.mark.parametrize("step", STEPS)
def test_bounds_hold_for_any_new_policy(case: Case, step: float) -> None:
    """Theorem 1 (`theorem_bound`) for the joint policy; the weaker Eq. 4 (`equation_happo_bound`) in every order."""
    surrogates = case.old()
    for draw in range(3):
        new = towards(surrogates.old, case.new(draw), step)
        everyone = surrogates.game.agents
        objective = solve(surrogates.game, new).objective
        before, after = product(surrogates.old, everyone), product(new, everyone)
        joint_kl = np.sum(before * np.log(before / after), axis=tuple(range(1, before.ndim))).max()
        gain = expectation(surrogates.solution.visitation, new, surrogates.solution.advantage)
        bound = surrogates.solution.objective + gain - surrogates.penalty * joint_kl
        assert objective >= bound
        for order in permutations(everyone):
            terms = [surrogates.surrogate(order[:m], [agent], new) for m, agent in enumerate(order)]
            assert bound >= surrogates.solution.objective + sum(terms) - IDENTITY


@every_case
@pytest.mark.parametrize("step", STEPS)
def test_shared_lower_bound(case: Case, step: float) -> None:
    """Lemma 1 (`lemma_shared_lower_bound`): Eq. 5 (`equation_multibound`) gives one number in all pipelines (Eq. 8)."""
    surrogates = case.old()
    new = towards(surrogates.old, case.new(), step)
    shared = surrogates.shared_lower_bound(new)
    scale = 1 + abs(shared)
    for separated in surrogates.game.agents:
        assert abs(surrogates.pipeline_bound(separated, new) - shared) < IDENTITY * scale
    sequence = [surrogates.surrogate(range(agent), [agent], new) for agent in surrogates.game.agents]
    assert abs(surrogates.solution.objective + sum(sequence) - shared) < IDENTITY * scale
    assert solve(surrogates.game, new).objective >= shared
    assert abs(surrogates.shared_lower_bound(surrogates.old) - surrogates.solution.objective) < IDENTITY


@every_case
def test_definition_read_literally_breaks_the_shared_bound_beyond_two_agents(case: Case) -> None:
    """M^{-i_p}(π̃^{-j_p}, π̃^{j_p}) in Lemma 1 is M^{-i_p}(π̃^{i_p}, π̃^{-i_p}) renamed, not Definition 1 with its sets.

    Definition 1's sets would have to be -j_p (before) and j_p (acting); that agrees for two agents only.
    """
    surrogates, new = case.old(), case.new()
    agents = surrogates.game.agents
    bounds = []
    for separated in agents:
        selected = (separated + 1) % case.agents
        literal = surrogates.surrogate(surrogates.others(selected), [selected], new)
        bounds.append(surrogates.solution.objective + surrogates.surrogate([], [separated], new) + literal)
    assert (np.ptp(bounds) < IDENTITY * (1 + abs(bounds[0]))) == (case.agents == 2)


@every_case
def test_visitation_as_a_probability_would_break_theorem_1(case: Case) -> None:
    """The paper writes E_{s ~ ρ_π}; with ρ_π normalised to one, a small step downhill violates the bound."""
    surrogates = case.old()
    new = case.new()
    if surrogates.shared_lower_bound(towards(surrogates.old, new, 1e-6)) > surrogates.solution.objective:
        new = tuple(2 * old - other for old, other in zip(surrogates.old, new, strict=True))
    downhill = towards(surrogates.old, new, 1e-6)
    gain = expectation(surrogates.solution.visitation, downhill, surrogates.solution.advantage)
    difference = solve(surrogates.game, downhill).objective - surrogates.solution.objective
    penalties = surrogates.penalties(surrogates.game.agents, downhill)
    assert difference >= gain - penalties - IDENTITY
    assert difference < (1 - case.gamma) * gain - penalties


@every_case
def test_superscript_of_the_sequential_objective(case: Case) -> None:
    """Below Eq. 4 HAPPO's turn is printed with M^{i_1:m}; the summands of Eq. 4 are M^{i_m}.

    M^{i_1:m} with nobody before is the sum of the first m of them, so adding those up counts the early turns again.
    """
    surrogates, new = case.old(), case.new()
    order = list(surrogates.game.agents)
    turns = [surrogates.surrogate(order[:m], [agent], new) for m, agent in enumerate(order)]
    cumulative = [surrogates.surrogate([], order[: m + 1], new) for m in range(len(order))]
    np.testing.assert_allclose(cumulative, np.cumsum(turns), rtol=IDENTITY)
    assert abs(sum(cumulative) - sum(turns)) > 1e-3
