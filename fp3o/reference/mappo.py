"""MAPPO (Yu et al. 2022): PPO (`ppo.py`) for each of n agents, whose critics see the state.

If critics see the agent's own observation instead, this is IPPO (de Witt et al. 2020).
"""

from __future__ import annotations

import torch

from fp3o.reference.common import Actor, Critic, Hyperparameters, Permutation, Rollout, Team, estimate


class MAPPO:
    """Actors and critics of n agents, possibly the same objects (see `common.py`)."""

    def __init__(self, actors: list[Actor], critics: list[Critic], p: Hyperparameters) -> None:
        self.team, self.p = Team(actors, critics, p), p

    def update(self, rollouts: list[Rollout], permutation: Permutation = torch.randperm) -> None:
        """One iteration: θ_k → θ_{k+1}. rollouts[i] is agent i's experience of the same steps."""
        team, p = self.team, self.p
        samples = [estimate(rollout, critic, p) for rollout, critic in zip(rollouts, team.critics, strict=True)]
        steps = len(samples[0].advantage)

        for _ in range(p.epochs):
            orders = [permutation(steps).split(steps // p.minibatches) for _ in samples]
            for number in range(p.minibatches):
                batches = [s.at(order[number]) for s, order in zip(samples, orders, strict=True)]

                gains = []
                for actor, batch in zip(team.actors, batches, strict=True):
                    # r(π^i) = π^i_θ(a^i|o^i) / π^i_k(a^i|o^i)
                    policy = actor(batch)
                    ratio = torch.exp(policy.log_prob(batch.action) - batch.log_prob)

                    # The paper's Listing "Actor update of MAPPO": surr1, surr2
                    clipped = ratio.clamp(1 - p.clip, 1 + p.clip)
                    surrogate = torch.min(ratio * batch.advantage, clipped * batch.advantage)
                    gains.append(surrogate + p.entropy_coef * policy.entropy())

                team.step_actors(gains, [batch.alive for batch in batches])
                team.step_critics(batches)
