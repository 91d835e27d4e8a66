"""Full-pipeline optimisation on a table: the independent step, the dependent step and its constraint, solved exactly.

Sharing is a vector of owners, as in the package: agents with the same owner use the same table. Then the steps
maximise the mean over pipelines, as the paper prescribes below Eq. 11, and the group's penalty is counted per agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from .game import Array, Policies, average_over
from .maximisation import maximise
from .surrogate import Surrogates

Split = Literal["average", "positive", "disturbed"]


def split_advantage(advantage: Array, agents: int, how: Split, generator: np.random.Generator) -> list[Array]:
    """A^1, …, A^n with Σ A^i = A: equal parts, random positive parts of each entry, or equal parts disturbed.

    The disturbance is a fifth of the largest advantage: enough to break the constraint in about half of the games.
    """
    if how == "average":
        return [advantage / agents] * agents
    if how == "positive":
        weights = generator.dirichlet(np.ones(agents), size=advantage.shape)
        return [advantage * weights[..., agent] for agent in range(agents)]
    noise = 0.2 * np.abs(advantage).max() * generator.normal(size=(agents, *advantage.shape))
    return list(advantage / agents + noise - noise.mean(axis=0))


def best_responses(surrogates: Surrogates, parts: list[Array], others: Policies, owners: Sequence[int]) -> Policies:
    """Every owner's exact maximiser of Σ_i E[r(π^i)·r(others^-i)·A^i] - C·D_KL^max over its agents i."""
    tables: dict[int, Array] = {}
    for owner in sorted(set(owners)):
        group = [agent for agent in surrogates.game.agents if owners[agent] == owner]
        gain = sum(marginal_gain(surrogates, parts[agent], others, agent) for agent in group)
        tables[owner] = maximise(surrogates.old[group[0]], np.asarray(gain), len(group) * surrogates.penalty)
    return tuple(tables[owner] for owner in owners)


def marginal_gain(surrogates: Surrogates, part: Array, others: Policies, agent: int) -> Array:
    """The gain [S, actions] whose product with π^i is E[r(π^i)·r(others^-i)·A^i]."""
    averaged = average_over(part, others, surrogates.others(agent))
    return surrogates.solution.visitation[:, None] * averaged.reshape(len(part), -1)


def independent_step(surrogates: Surrogates, parts: list[Array], owners: Sequence[int]) -> Policies:
    """π_{k+0.5}, Eq. 10 (`equation_full_step1`): the others' ratios are one."""
    return best_responses(surrogates, parts, surrogates.old, owners)


def dependent_step(surrogates: Surrogates, parts: list[Array], half: Policies, owners: Sequence[int]) -> Policies:
    """π_{k+1}, Eq. 11 (`equation_full_step2`) without its constraint.

    The objective of each pipeline holds the other agents' *new* policies, so this is a fixed point: all are best
    responses to each other at once. It is reached by repetition from π_{k+0.5}. The term -r(π^{i_p})·A^{j_p} does not
    hold the policy being updated and drops out of the maximisation, and the mapping f with it.

    Plain repetition contracts by about max|A^i| / (C·(1 - γ)). It fails, loudly, only where a state's gain vanishes at
    the fixed point: then any row within the KL radius is a maximum, and repetition jumps between the two ends.
    """
    current = half
    for _ in range(100):
        following = best_responses(surrogates, parts, current, owners)
        distance = max(np.abs(a - b).max() for a, b in zip(following, current, strict=True))
        current = following
        if distance < 1e-13:
            return current
    raise ArithmeticError(f"the dependent step did not settle: policies still move by {distance:.1e}")


def constraint_gap(surrogates: Surrogates, parts: list[Array], half: Policies, new: Policies) -> float:
    """Σ μ(π_{k+1}^-i) - Σ μ(π_k^-i), Eq. 11's constraint: satisfied where this is not negative."""
    gap = 0.0
    for agent in surrogates.game.agents:
        change_of_others = surrogates.joint_ratio(new, surrogates.others(agent)) - 1
        gap += surrogates.sampled(surrogates.joint_ratio(half, [agent]) * change_of_others, parts[agent])
    return gap


def dependent_objective(
    surrogates: Surrogates, part: Array, new: Policies, selected: int, separated: int, trial: Array
) -> float:
    """The bracket of Eq. 11 as printed, for π^{j_p} = trial in the pipeline of the separated agent i_p."""
    policies = tuple(trial if agent == selected else new[agent] for agent in surrogates.game.agents)
    rest = surrogates.others(separated, selected)
    weight = surrogates.joint_ratio(policies, [selected, *rest]) - 1
    gain = surrogates.sampled(weight * surrogates.joint_ratio(policies, [separated]), part)
    return gain - surrogates.penalties([selected], policies)


class Iteration(NamedTuple):
    half: Policies
    new: Policies  # the unconstrained fixed point
    gap: float


def iterate(surrogates: Surrogates, parts: list[Array], owners: Sequence[int]) -> Iteration:
    half = independent_step(surrogates, parts, owners)
    new = dependent_step(surrogates, parts, half, owners)
    return Iteration(half, new, constraint_gap(surrogates, parts, half, new))
