"""What ppo.py, mappo.py, happo.py and fp3o.py have in common: networks, advantages, value normaliser, gradient steps.

Networks are MLPs: a GRU would double these files and changes nothing in the algorithms. Agents share parameters by
having the same object in the list of actors or critics:

    none      actors = [Actor(trunk(o, h), CategoricalHead(h, d)) for _ in range(n)]    critics = [Critic(s, h), …]
    partial   body = trunk(o, h)
              actors = [Actor(body, CategoricalHead(h, d)) for _ in range(n)]           critics = [Critic(s, h)] * n
    full      actors = [Actor(trunk(o, h), CategoricalHead(h, d))] * n                  critics = [Critic(s, h)] * n
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal

Permutation = Callable[[int], Tensor]  # n → a random order of 0 … n − 1, such as torch.randperm
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Hyperparameters:
    """Named as in `fp3o/config/settings.py`, which says what they mean and what the paper has."""

    epochs: int
    epochs_dependent: int
    minibatches: int
    clip: float
    gamma: float
    gae_lambda: float
    actor_lr: float
    critic_lr: float
    adam_eps: float
    entropy_coef: float
    gradient_clip: float
    huber_delta: float


class Rollout(NamedTuple):
    """The experience of one agent: T steps in each of N environments, under the policy π_k."""

    observation: Tensor  # [T, N, O]
    available: Tensor | None  # [T, N, D] bool: legal choices, of categorical actions
    action: Tensor  # [T, N] choices, or [T, N, d] Gaussian
    log_prob: Tensor  # [T, N] log π_k(a|o)
    alive: Tensor  # [T, N] 1, or 0 where the agent was dead
    reward: Tensor  # [T, N]
    continues: Tensor  # [T, N] 0 where the episode ended at this step
    state: Tensor  # [T, N, S] critic input
    value: Tensor  # [T, N] critic output, in units of the value normaliser
    next_value: Tensor  # [N] likewise, of the state after the last step


class Samples(NamedTuple):
    """Steps of one agent along one axis: all B = T·N of them, or those of a minibatch."""

    observation: Tensor
    available: Tensor | None
    action: Tensor
    log_prob: Tensor
    alive: Tensor
    state: Tensor
    value: Tensor
    returns: Tensor  # critic targets, in units of reward
    advantage: Tensor  # standardised

    def at(self, rows: Tensor) -> Samples:
        """The samples with these numbers: a minibatch."""
        return Samples._make(None if x is None else x[rows] for x in self)


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def trunk(inputs: int, hidden: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.LayerNorm(inputs)]
    for size in (inputs, hidden):
        layers += [linear(size, hidden, math.sqrt(2)), nn.ReLU(), nn.LayerNorm(hidden)]
    return nn.Sequential(*layers)


class CategoricalHead(nn.Module):
    """Categorical policy over the available choices."""

    def __init__(self, hidden: int, choices: int) -> None:
        super().__init__()
        self.logits = linear(hidden, choices, 0.01)

    def forward(self, features: Tensor, available: Tensor | None) -> Distribution:
        logits = self.logits(features)
        return Categorical(logits=logits if available is None else logits.masked_fill(~available, -1e10))


class GaussianHead(nn.Module):
    """Gaussian policy with independent dimensions; σ = 0.5·sigmoid(ψ) does not depend on the observation."""

    def __init__(self, hidden: int, dimensions: int) -> None:
        super().__init__()
        self.mean = linear(hidden, dimensions, 0.01)
        self.psi = nn.Parameter(torch.ones(dimensions))

    def forward(self, features: Tensor, available: Tensor | None) -> Distribution:
        return Independent(Normal(self.mean(features), 0.5 * torch.sigmoid(self.psi)), 1)


class Actor(nn.Module):
    """π(a|o)."""

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head

    def forward(self, samples: Samples) -> Distribution:
        policy: Distribution = self.head(self.trunk(samples.observation), samples.available)
        return policy


class Critic(nn.Module):
    """V(s), in units of its value normaliser."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(trunk(inputs, hidden), linear(hidden, 1, 1.0))
        self.normaliser = ValueNormaliser()

    def forward(self, state: Tensor) -> Tensor:
        value: Tensor = self.net(state)
        return value.squeeze(-1)


class ValueNormaliser:
    """Running mean and std of critic targets, debiased as Adam's moments are."""

    decay = 0.99999

    def __init__(self) -> None:
        self.first = self.second = self.weight = 0.0

    def update(self, returns: Tensor) -> None:
        self.first = self.decay * self.first + (1 - self.decay) * returns.mean().item()
        self.second = self.decay * self.second + (1 - self.decay) * (returns**2).mean().item()
        self.weight = self.decay * self.weight + (1 - self.decay)

    def statistics(self) -> tuple[float, float]:
        weight = max(self.weight, 1e-5)
        mean = self.first / weight
        return mean, math.sqrt(max(self.second / weight - mean**2, 1e-2))

    def normalise(self, returns: Tensor) -> Tensor:
        mean, std = self.statistics()
        return (returns - mean) / std

    def denormalise(self, value: Tensor) -> Tensor:
        mean, std = self.statistics()
        return value * std + mean


def gae(reward: Tensor, value: Tensor, next_value: Tensor, continues: Tensor, gamma: float, lam: float) -> Tensor:
    """GAE [T, N]: Â_t = δ_t + γλ·Â_{t+1} with δ_t = R_t + γ·V(s_{t+1}) − V(s_t); where an episode ends, the terms of
    t + 1 are 0. next_value [N] is V after the last step."""
    advantage, following = torch.zeros_like(reward), torch.zeros_like(next_value)
    for t in reversed(range(len(reward))):
        delta = reward[t] + gamma * continues[t] * next_value - value[t]
        following = delta + gamma * lam * continues[t] * following
        advantage[t], next_value = following, value[t]
    return advantage


def estimate(rollout: Rollout, critic: Critic, p: Hyperparameters) -> Samples:
    """One agent's rollout as samples, with advantages and critic targets; called once per iteration."""
    value, next_value = (critic.normaliser.denormalise(v) for v in (rollout.value, rollout.next_value))
    advantage = gae(rollout.reward, value, next_value, rollout.continues, p.gamma, p.gae_lambda)
    live = advantage[rollout.alive > 0]
    samples = Samples(
        observation=rollout.observation,
        available=rollout.available,
        action=rollout.action,
        log_prob=rollout.log_prob,
        alive=rollout.alive,
        state=rollout.state,
        value=rollout.value,
        returns=advantage + value,
        advantage=(advantage - live.mean()) / (live.std(correction=0) + 1e-5),
    )
    return Samples._make(None if x is None else x.flatten(0, 1) for x in samples)


def value_loss(value: Tensor, old: Tensor, target: Tensor, p: Hyperparameters) -> Tensor:
    """PPO's clipped value loss: the larger Huber loss of V and of V clipped to within ±ε of `old`, averaged."""
    near = old + (value - old).clamp(-p.clip, p.clip)
    return torch.max(*(F.huber_loss(v, target, reduction="none", delta=p.huber_delta) for v in (value, near))).mean()


def distinct(modules: Iterable[Module]) -> list[Module]:
    """The distinct objects of a list, in their order."""
    return list(dict.fromkeys(modules))


class Team:
    """The networks of n agents (agent i's at place i) and their optimisers. The only class that knows about sharing."""

    def __init__(
        self, actors: list[Actor], critics: list[Critic], p: Hyperparameters, scale_heads: bool = True
    ) -> None:
        self.actors, self.critics, self.p = actors, critics, p
        # Families: distinct actors with the same trunk. One actor each under full and no sharing, n under partial.
        self.families = [
            [actor for actor in distinct(actors) if actor.trunk is body]
            for body in distinct(actor.trunk for actor in actors)
        ]
        groups = []
        for family in self.families:
            groups.append({"params": list(family[0].trunk.parameters()), "lr": p.actor_lr})
            # In the release the n heads of a shared trunk have n times the learning rate; HAPPO trains one at a time.
            heads = [w for actor in family for w in actor.head.parameters()]
            groups.append({"params": heads, "lr": p.actor_lr * (len(family) if scale_heads else 1)})
        self.actor_optimiser = torch.optim.Adam(groups, eps=p.adam_eps)
        weights = [w for critic in distinct(critics) for w in critic.parameters()]
        self.critic_optimiser = torch.optim.Adam(weights, p.critic_lr, eps=p.adam_eps)

    def step_actors(self, gains: list[Tensor], alive: list[Tensor], agents: list[int] | None = None) -> None:
        """One Adam step that increases the gains, [B] per agent; of these agents alone, by default of all.

        An actor's objective is the mean gain over the samples of the agents that share it, where they are alive; actors
        of a family are averaged ("maximizing the expectation along pipelines").
        """
        learning = self.actors if agents is None else [self.actors[i] for i in agents]
        objective = torch.zeros(())
        for family in self.families:
            own = [actor for actor in family if any(actor is other for other in learning)]
            for actor in own:
                mine = [i for i, other in enumerate(learning) if other is actor]
                gain, mask = (torch.cat([x[i] for i in mine]) for x in (gains, alive))
                objective = objective + (mask * gain).sum() / mask.sum().clamp(min=1) / len(own)
        self.actor_optimiser.zero_grad()
        (-objective).backward()
        for family in self.families:
            # A module list yields the parameters of a common trunk once.
            nn.utils.clip_grad_norm_(nn.ModuleList(family).parameters(), self.p.gradient_clip)
        self.actor_optimiser.step()

    def step_critics(self, batch: list[Samples], agents: list[int] | None = None) -> None:
        """One Adam step of every critic on the targets of the agents that share it, dead or alive; of these agents
        alone, by default of all."""
        learning = self.critics if agents is None else [self.critics[i] for i in agents]
        loss = torch.zeros(())
        for critic in distinct(learning):
            mine = [samples for samples, other in zip(batch, learning, strict=True) if other is critic]
            returns, old = torch.cat([s.returns for s in mine]), torch.cat([s.value for s in mine])
            critic.normaliser.update(returns)
            value = critic(torch.cat([s.state for s in mine]))
            loss = loss + value_loss(value, old, critic.normaliser.normalise(returns), self.p)
        self.critic_optimiser.zero_grad()
        loss.backward()
        for critic in distinct(learning):
            nn.utils.clip_grad_norm_(critic.parameters(), self.p.gradient_clip)
        self.critic_optimiser.step()
