"""Eqs. 6 and 7 and their proofs (`equation_appendix_sampling1`, `equation_appendix_sampling2`)."""

from __future__ import annotations

import numpy as np

from .cases import IDENTITY, Case, every_case
from .full_pipeline import dependent_objective
from .game import expectation


@every_case
def test_objective_of_the_separated_agent(case: Case) -> None:
    """Eq. 6 (`equation_impsampling1`): M^{i_p}(∅, π̃^{i_p}) = E[r(π̃^{i_p})·A] - C·D_KL^max."""
    surrogates, new = case.old(), case.new()
    for separated in surrogates.game.agents:
        ratio = surrogates.joint_ratio(new, [separated])
        sampled = surrogates.sampled(ratio, surrogates.solution.advantage) - surrogates.penalties([separated], new)
        assert abs(sampled - surrogates.surrogate([], [separated], new)) < IDENTITY * (1 + abs(sampled))


@every_case
def test_objective_of_the_other_agents(case: Case) -> None:
    """Eq. 7 (`equation_impsampling2`): M^{-i_p}(π̃^{i_p}, π̃^{-i_p}) = E[(r(π̃^{-i_p}) - 1)·r(π̃^{i_p})·A] - Σ C·D."""
    surrogates, new = case.old(), case.new()
    for separated in surrogates.game.agents:
        others = surrogates.others(separated)
        weight = (surrogates.joint_ratio(new, others) - 1) * surrogates.joint_ratio(new, [separated])
        sampled = surrogates.sampled(weight, surrogates.solution.advantage) - surrogates.penalties(others, new)
        assert abs(sampled - surrogates.surrogate([separated], others, new)) < IDENTITY * (1 + abs(sampled))


@every_case
def test_second_expectation_in_the_proof_of_equation_7_needs_its_states(case: Case) -> None:
    """Lines 3–6 of `equation_appendix_sampling2` print the subtracted expectation over actions only.

    Read so, it is still a function of the state, and at no state does the difference equal the left side.
    """
    surrogates, new = case.old(), case.new()
    separated, visitation = 0, surrogates.solution.visitation
    left = surrogates.gain([separated], surrogates.others(separated), new)
    joint_term = expectation(visitation, new, surrogates.solution.advantage)
    own = surrogates.subset_advantage([], [separated])
    assert abs(joint_term - expectation(visitation, new, own) - left) < IDENTITY
    for state in np.eye(case.states):
        assert abs(joint_term - expectation(state, new, own) - left) > 1e-4


@every_case
def test_mapping_does_not_enter_the_dependent_objective(case: Case) -> None:
    """(r_i·r_{-{i,j}} - 1)·r_j = r_i·r_{-i} - r_j: the separated agent j only adds a constant, for any advantage."""
    surrogates, new, other = case.old(), case.new(), case.new(draw=1)
    part = surrogates.game.reward  # any table may stand for A^i
    for selected in surrogates.game.agents:
        changes = []
        for separated in surrogates.others(selected):
            before, after = (
                dependent_objective(surrogates, part, new, selected, separated, trial[selected])
                for trial in (new, other)
            )
            changes.append(after - before)
        assert np.ptp(changes) < IDENTITY * (1 + abs(changes[0]))
        assert abs(changes[0]) > 1e-3
