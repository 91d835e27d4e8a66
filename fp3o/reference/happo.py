"""HAPPO (Kuba et al. 2022): agents learn one after the other, each weighted by what those before it have changed."""

from __future__ import annotations

import torch
from torch import Tensor

from fp3o.reference.common import Actor, Critic, Hyperparameters, Permutation, Rollout, Samples, Team, estimate


class HAPPO:
    """Actors and critics of n agents, possibly the same objects (see `common.py`)."""

    def __init__(self, actors: list[Actor], critics: list[Critic], p: Hyperparameters) -> None:
        self.team, self.p = Team(actors, critics, p, scale_heads=False), p

    def update(self, rollouts: list[Rollout], order: Tensor, permutation: Permutation = torch.randperm) -> None:
        """One iteration: θ_k → θ_{k+1}. rollouts[i] is agent i's experience of the same steps; order [n]: whose turn
        comes first, second, …: torch.randperm(n)."""
        samples = [
            estimate(rollout, critic, self.p) for rollout, critic in zip(rollouts, self.team.critics, strict=True)
        ]

        # The paper's Listing "Actor update of HAPPO": factor_1_to_m, the ratios of the agents before this one.
        factor = torch.ones_like(samples[0].log_prob)
        for i in order.tolist():
            before = self._log_prob(i, samples[i])
            self._turn(i, samples[i], factor, permutation)
            # With shared parameters earlier turns have moved this policy too: only its own turn counts here.
            factor = factor * torch.exp(self._log_prob(i, samples[i]) - before)

    def _turn(self, i: int, samples: Samples, factor: Tensor, permutation: Permutation) -> None:
        """All epochs of agent i."""
        team, p = self.team, self.p
        steps = len(factor)
        for _ in range(p.epochs):
            for rows in permutation(steps).split(steps // p.minibatches):
                batch = samples.at(rows)
                # r(π^i) = π^i_θ(a^i|o^i) / π^i_k(a^i|o^i)
                policy = team.actors[i](batch)
                ratio = torch.exp(policy.log_prob(batch.action) - batch.log_prob)

                # surr1, surr2
                clipped = ratio.clamp(1 - p.clip, 1 + p.clip)
                weighted = batch.advantage * factor[rows]
                surrogate = torch.min(ratio * weighted, clipped * weighted)
                gain = surrogate + p.entropy_coef * policy.entropy()

                team.step_actors([gain], [batch.alive], [i])
                team.step_critics([batch], [i])

    @torch.no_grad()
    def _log_prob(self, i: int, samples: Samples) -> Tensor:
        log_prob: Tensor = self.team.actors[i](samples).log_prob(samples.action)
        return log_prob
