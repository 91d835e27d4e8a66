"""The paper's quantities on a solved game: decomposed advantages, ratios, penalties, surrogates and lower bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from .game import Array, Game, Policies, Solution, average_over, expectation, product, solve


def ratios(old: Policies, new: Policies) -> Policies:
    """r(π^i) = π^i / π_k^i, one table per agent."""
    return tuple(after / before for before, after in zip(old, new, strict=True))


def max_kl(old: Array, new: Array) -> float:
    """D_KL^max(π^i, π̃^i): the largest over states, old policy first."""
    return float(np.max(np.sum(old * np.log(old / new), axis=1)))


@dataclass(frozen=True)
class Surrogates:
    """Everything measured from one old joint policy π (or π_k)."""

    game: Game
    old: Policies
    solution: Solution

    @classmethod
    def at(cls, game: Game, old: Policies) -> Surrogates:
        return cls(game, old, solve(game, old))

    @property
    def penalty(self) -> float:
        """C of Definition 1 and Theorem 1 (`theorem_bound`)."""
        gamma = self.game.gamma
        return 4 * gamma * float(np.abs(self.solution.advantage).max()) / (1 - gamma) ** 2

    def subset_value(self, agents: Collection[int]) -> Array:
        """Eq. 1 (`equation_state_action_value_function`): the other agents' actions averaged out."""
        others = [agent for agent in self.game.agents if agent not in agents]
        return average_over(self.solution.joint_value, self.old, others)

    def subset_advantage(self, before: Collection[int], agents: Collection[int]) -> Array:
        """Eq. 2 (`equation_advantage_function`): what `agents` add once `before` have acted."""
        return self.subset_value([*before, *agents]) - self.subset_value(before)

    def gain(self, before: Collection[int], agents: Collection[int], new: Policies) -> float:
        """The expectation in M: E_{s ~ ρ_π, a ~ π̃}[A^agents(s, a^before, a^agents)]."""
        return expectation(self.solution.visitation, new, self.subset_advantage(before, agents))

    def surrogate(self, before: Collection[int], agents: Collection[int], new: Policies) -> float:
        """M_π^agents(π̃^before, π̃^agents), Definition 1 (`definition_surrogate`)."""
        return self.gain(before, agents, new) - self.penalties(agents, new)

    def penalties(self, agents: Collection[int], new: Policies) -> float:
        """Σ_{i in agents} C·D_KL^max(π^i, π̃^i)."""
        return self.penalty * sum(max_kl(self.old[agent], new[agent]) for agent in agents)

    def sampled(self, weights: Array, values: Array) -> float:
        """E_{s ~ ρ_π, a ~ π}[weights · values]: what importance sampling estimates."""
        return expectation(self.solution.visitation, self.old, weights * values)

    def joint_ratio(self, new: Policies, agents: Collection[int]) -> Array:
        return product(ratios(self.old, new), agents)

    def others(self, *agents: int) -> list[int]:
        return [agent for agent in self.game.agents if agent not in agents]

    def pipeline_bound(self, separated: int, new: Policies) -> float:
        """The right side of Eq. 5 (`equation_multibound`): one row of Eq. 8 (`equation_fullmultibound`)."""
        others = self.others(separated)
        return self.solution.objective + self.surrogate([], [separated], new) + self.surrogate([separated], others, new)

    def shared_lower_bound(self, new: Policies) -> float:
        """L^S_π(π̃^1, …, π̃^n), `equation_appendix_shared_lower_bound`."""
        everyone = self.game.agents
        product_term = self.sampled(self.joint_ratio(new, everyone), self.solution.advantage)
        return self.solution.objective + product_term - self.penalties(everyone, new)
