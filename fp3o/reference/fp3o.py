"""FP3O: the paper's Algorithm 1 (`algorithm_policyiteration_fp3o`), line by line, for two agents or more."""

from __future__ import annotations

import torch
from torch import Tensor

from fp3o.reference.common import Actor, Critic, Hyperparameters, Permutation, Rollout, Samples, Team, estimate

TOLERANCE = 1e-5  # added to the left side of the condition, as in the release


class FP3O:
    """Actors and critics of n agents, possibly the same objects (see `common.py`)."""

    def __init__(self, actors: list[Actor], critics: list[Critic], p: Hyperparameters) -> None:
        self.team, self.p = Team(actors, critics, p), p  # line 1: θ_0

    def update(self, rollouts: list[Rollout], permutation: Permutation = torch.randperm) -> bool:
        """One iteration (lines 3 to 9): θ_k → θ_{k+1}. rollouts[i] is agent i's experience of the same steps.

        Returns whether the dependent step was taken.
        """
        critics = self.team.critics

        # Line 3: Â and its parts Â^i. Average split: each agent's own estimate. The paper's factor 1/n is left out:
        # Adam does not notice the scale of a loss, so it would only change the weight of the entropy bonus.
        samples = [estimate(rollout, critic, self.p) for rollout, critic in zip(rollouts, critics, strict=True)]

        # Line 4: the independent step (`equation_full_step1`), max L^FP3O(θ^i|θ_k). There r(π_{θ_k}) = 1.
        self._solve(samples, torch.ones(len(samples), len(samples[0].log_prob)), self.p.epochs, permutation)

        # Line 5: the probabilities under π_{k+0.5}, as ratios to π_k.
        ratios = self._ratios(samples)  # [n, T·N]

        # Line 7: Σ_i μ(π^{-i}_{k+0.5}) ≥ Σ_i μ(π^{-i}_k). In `equation_full_step2` μ(π̃^{-i}) is the expectation of A^i
        # where agent i follows π_{k+0.5} and the others π̃. The samples were collected by π_k, so they are weighted by
        # the importance ratio r(π^i_{k+0.5})·r(π̃^{-i}).
        intermediate, old = torch.zeros(()), torch.zeros(())
        for i, agent in enumerate(samples):
            intermediate = intermediate + (agent.alive * ratios.prod(0) * agent.advantage).sum()
            old = old + (agent.alive * ratios[i] * agent.advantage).sum()
        go = bool(intermediate + TOLERANCE >= old)

        # Line 8: the dependent step (`equation_full_step2`), max L^FP3O(θ^i|θ_{k+0.5}).
        if go:
            self._solve(samples, ratios, self.p.epochs_dependent, permutation)
        return go

    def _solve(self, samples: list[Samples], frozen: Tensor, epochs: int, permutation: Permutation) -> None:
        """Maximise L^FP3O(θ^i|θ̄) for all agents at once; frozen [n, T·N] are the ratios r(π_θ̄), which stay fixed."""
        team, p = self.team, self.p
        n, steps = frozen.shape
        for _ in range(epochs):
            orders = [permutation(steps).split(steps // p.minibatches) for _ in samples]
            for number in range(p.minibatches):
                batches = [s.at(order[number]) for s, order in zip(samples, orders, strict=True)]

                gains = []
                for i, (actor, batch) in enumerate(zip(team.actors, batches, strict=True)):
                    # Line 6: non-overlapping selection (`equation_mapping`), here the next agent: j = f⁻¹(i).
                    j = (i + 1) % n
                    rest = [m for m in range(n) if m not in (i, j)]
                    r_j, r_rest = frozen[j, orders[i][number]], frozen[rest][:, orders[i][number]].prod(0)

                    # r(π^i) = π^i_θ(a^i|o^i) / π^i_k(a^i|o^i)
                    policy = actor(batch)
                    ratio = torch.exp(policy.log_prob(batch.action) - batch.log_prob)
                    clipped = ratio.clamp(1 - p.clip, 1 + p.clip)

                    # L^FP3O(θ^i|θ̄) as printed (Section "Practical Implementation")
                    surrogate = torch.min(
                        (ratio * r_rest - 1) * r_j * batch.advantage, (clipped * r_rest - 1) * r_j * batch.advantage
                    )
                    gains.append(surrogate + p.entropy_coef * policy.entropy())

                team.step_actors(gains, [batch.alive for batch in batches])
                team.step_critics(batches)

    @torch.no_grad()
    def _ratios(self, samples: list[Samples]) -> Tensor:
        """r(π^i) of every action in the rollout under the current policies, [n, T·N]."""
        pairs = zip(self.team.actors, samples, strict=True)
        return torch.stack([torch.exp(actor(s).log_prob(s.action) - s.log_prob) for actor, s in pairs])
