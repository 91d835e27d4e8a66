"""Eqs. 1–3 and the appendix's decomposition lemma (`lemma_fp3o_decomposition`)."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from .cases import IDENTITY, Case, every_case


@every_case
def test_advantage_decomposition_in_every_order(case: Case) -> None:
    """Eq. 3 (`equation_multi_agent_advantage_decomposition`)."""
    surrogates = case.old()
    for order in permutations(surrogates.game.agents):
        total = sum(surrogates.subset_advantage(order[:m], [agent]) for m, agent in enumerate(order))
        assert np.abs(total - surrogates.solution.advantage).max() < IDENTITY


@every_case
def test_one_agent_and_the_rest(case: Case) -> None:
    """`lemma_fp3o_decomposition`: A^{i_p}(s, a^∅, a^{i_p}) + A^{-i_p}(s, a^{i_p}, a^{-i_p}) = A for every i_p."""
    surrogates = case.old()
    for separated in surrogates.game.agents:
        alone = surrogates.subset_advantage([], [separated])
        rest = surrogates.subset_advantage([separated], surrogates.others(separated))
        assert np.abs(alone + rest - surrogates.solution.advantage).max() < IDENTITY


@every_case
def test_minus_printed_in_the_proof_of_the_lemma_is_wrong(case: Case) -> None:
    """The third line of the proof prints a minus between its two brackets; with it the equality fails everywhere."""
    surrogates = case.old()
    for separated in surrogates.game.agents:
        value = surrogates.solution.value.reshape(-1, *(1,) * case.agents)
        own = surrogates.subset_value([separated])
        joint = surrogates.subset_value(list(surrogates.game.agents))
        as_printed = (own - value) - (joint - own)
        corrected = (own - value) + (joint - own)
        assert np.abs(corrected - surrogates.solution.advantage).max() < IDENTITY
        assert np.abs(as_printed - surrogates.solution.advantage).max() > 0.1
