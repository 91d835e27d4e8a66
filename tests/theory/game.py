"""A small tabular cooperative Markov game, solved exactly in float64.

Tables over joint actions have the shape [S, actions of agent 0, …, actions of agent n-1]; a policy is one table
[S, actions] per agent. Averaged axes are kept with length one, so everything broadcasts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Policies = tuple[Array, ...]


@dataclass(frozen=True)
class Game:
    """The tuple <S, N, A, P, r, γ, ρ_0> of the paper's problem formulation."""

    transition: Array  # [S, A_0, …, A_{n-1}, S]
    reward: Array  # [S, A_0, …, A_{n-1}]
    gamma: float
    initial: Array  # [S]

    @property
    def agents(self) -> range:
        return range(self.reward.ndim - 1)


class Solution(NamedTuple):
    """Everything the paper defines for one joint policy."""

    objective: float  # J
    value: Array  # V, [S]
    joint_value: Array  # Q
    advantage: Array  # A = Q - V
    visitation: Array  # ρ = Σ_t γ^t P(s_t = s), unnormalised: it sums to 1 / (1 - γ)


def random_game(seed: int, agents: int, states: int, actions: int, gamma: float) -> Game:
    """Rewards from a normal distribution; transitions peaked enough that states differ in how often they are seen."""
    generator = np.random.default_rng(seed)
    shape = (states, *(actions,) * agents)
    return Game(
        transition=generator.dirichlet(np.full(states, 0.5), size=shape),
        reward=generator.normal(size=shape),
        gamma=gamma,
        initial=generator.dirichlet(np.ones(states)),
    )


def random_policies(seed: int, game: Game, owners: Sequence[int] | None = None) -> Policies:
    """Tables with every probability above 0.02; agents with the same owner hold the same table."""
    generator = np.random.default_rng(seed)
    states = game.reward.shape[0]
    tables = []
    for actions in game.reward.shape[1:]:
        table = generator.dirichlet(np.ones(actions), size=states) + 0.03
        tables.append(table / table.sum(axis=1, keepdims=True))
    return tuple(tables if owners is None else [tables[owner] for owner in owners])


def along(table: Array, agent: int, agents: int) -> Array:
    """A table [S, actions] laid along its agent's axis."""
    shape = [table.shape[0], *(1,) * agents]
    shape[agent + 1] = table.shape[1]
    return table.reshape(shape)


def product(tables: Policies, agents: Collection[int]) -> Array:
    """The product over the given agents of one table each: a joint policy or a joint ratio."""
    result = np.ones((tables[0].shape[0], *(1,) * len(tables)))
    for agent in agents:
        result = result * along(tables[agent], agent, len(tables))
    return result


def average_over(values: Array, tables: Policies, agents: Collection[int]) -> Array:
    """The expectation over the actions of the given agents, drawn from their tables."""
    axes = tuple(agent + 1 for agent in agents)
    return np.sum(values * product(tables, agents), axis=axes, keepdims=True)


def expectation(weights: Array, tables: Policies, values: Array) -> float:
    """E_{s ~ weights, a ~ tables}[values]: with ρ a weighted sum, since ρ is not a distribution."""
    joint = product(tables, range(len(tables)))
    return float(np.sum(weights.reshape(-1, *(1,) * len(tables)) * joint * values))


def solve(game: Game, policies: Policies) -> Solution:
    """V and ρ from their linear systems."""
    states = len(game.initial)
    joint = product(policies, game.agents)
    reward = np.sum((joint * game.reward).reshape(states, -1), axis=1)
    move = np.sum((joint[..., None] * game.transition).reshape(states, -1, states), axis=1)  # [S, S']
    system = np.eye(states) - game.gamma * move
    value = np.linalg.solve(system, reward)
    joint_value = game.reward + game.gamma * game.transition @ value
    return Solution(
        objective=float(game.initial @ value),
        value=value,
        joint_value=joint_value,
        advantage=joint_value - value.reshape(-1, *(1,) * len(game.agents)),
        visitation=np.linalg.solve(system.T, game.initial),
    )
