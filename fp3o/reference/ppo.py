"""PPO (Schulman et al. 2017) for one agent: what every algorithm here reduces to when n = 1."""

from __future__ import annotations

import torch
from torch import nn

from fp3o.reference.common import Actor, Critic, Hyperparameters, Permutation, Rollout, estimate, value_loss


class PPO:
    """An actor, a critic and their optimisers."""

    def __init__(self, actor: Actor, critic: Critic, p: Hyperparameters) -> None:
        self.actor, self.critic, self.p = actor, critic, p
        self.actor_optimiser = torch.optim.Adam(actor.parameters(), p.actor_lr, eps=p.adam_eps)
        self.critic_optimiser = torch.optim.Adam(critic.parameters(), p.critic_lr, eps=p.adam_eps)

    def update(self, rollout: Rollout, permutation: Permutation = torch.randperm) -> None:
        """One iteration: θ_k → θ_{k+1}."""
        p = self.p
        samples = estimate(rollout, self.critic, p)  # Â (their Eqs. 11, 12) and critic targets
        size = len(samples.advantage) // p.minibatches

        for _ in range(p.epochs):
            for rows in permutation(len(samples.advantage)).split(size)[: p.minibatches]:
                batch = samples.at(rows)

                # r(π_θ) = π_θ(a|o) / π_k(a|o)
                policy = self.actor(batch)
                ratio = torch.exp(policy.log_prob(batch.action) - batch.log_prob)

                # L^CLIP (their Eq. 7) and the entropy bonus (their Eq. 9)
                clipped = ratio.clamp(1 - p.clip, 1 + p.clip)
                surrogate = torch.min(ratio * batch.advantage, clipped * batch.advantage)
                gain = surrogate + p.entropy_coef * policy.entropy()
                policy_loss = -(batch.alive * gain).sum() / batch.alive.sum().clamp(min=1)

                self.actor_optimiser.zero_grad()
                policy_loss.backward()
                nn.utils.clip_grad_norm_(self.actor.parameters(), p.gradient_clip)
                self.actor_optimiser.step()

                # The critic, on normalised targets
                self.critic.normaliser.update(batch.returns)
                target = self.critic.normaliser.normalise(batch.returns)
                error = value_loss(self.critic(batch.state), batch.value, target, p)

                self.critic_optimiser.zero_grad()
                error.backward()
                nn.utils.clip_grad_norm_(self.critic.parameters(), p.gradient_clip)
                self.critic_optimiser.step()
