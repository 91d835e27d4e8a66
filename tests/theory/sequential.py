"""HAPPO's sequential scheme on a table, every turn solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .game import Policies, average_over
from .maximisation import maximise
from .surrogate import Surrogates


class Pass(NamedTuple):
    final: Policies  # what the agents act with after the pass
    promised: list[float]  # M_{π_k}^{i_m} of each turn, as its agent left it


def happo(surrogates: Surrogates, order: Sequence[int], owners: Sequence[int]) -> Pass:
    """π_{k+1}^{i_m} = argmax M_{π_k}^{i_m}(π_{k+1}^{i_1:m-1}, π^{i_m}), below Eq. 4 (`equation_happo_bound`).

    Each turn writes into its owner's table, so under sharing it also moves everyone who uses that table. The turns
    themselves hold the preceding agents at the policies their own turns gave them, as the scheme assumes.
    """
    tables = {owner: surrogates.old[agent] for agent, owner in enumerate(owners)}
    assumed = list(surrogates.old)
    promised = []
    for turn, agent in enumerate(order):
        before = list(order[:turn])
        advantage = surrogates.subset_advantage(before, [agent])
        averaged = average_over(advantage, tuple(assumed), before)
        gain = surrogates.solution.visitation[:, None] * averaged.reshape(len(averaged), -1)
        tables[owners[agent]] = assumed[agent] = maximise(surrogates.old[agent], gain, surrogates.penalty)
        promised.append(surrogates.surrogate(before, [agent], tuple(assumed)))
    return Pass(tuple(tables[owner] for owner in owners), promised)
