"""One minibatch step of all replicas as three functions of tensors: count, loss, apply.

They run eagerly, compiled, or (CUDA) captured in a graph; what differs between turns is data, except for `Kind`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from fp3o.algorithms.objective import clip, clipped, clipped_product, coppo_joint, product_of, value_loss
from fp3o.algorithms.turns import Rollout
from fp3o.config.settings import Settings
from fp3o.networks.actor import Actor, Owners
from fp3o.networks.critic import Critic
from fp3o.networks.sharing import Sharing
from fp3o.networks.stacked import collect
from fp3o.training.optimiser import adam_, clip_factor, squared_norm
from fp3o.training.samples import pick, pick_available, pick_first, unpack, unpack_targets
from fp3o.training.state import LearnerState, Parameters

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


class Crew(NamedTuple):
    """Who takes part in a turn, as tensors: K agents, their parameter rows, and who of them learns."""

    agents: Tensor  # [R, K]
    learns: Tensor  # [R, K] float
    trunk: Tensor  # [R, K] row of each agent
    head: Tensor  # [R, K]
    trunk_members: Tensor  # [R, K, trunks] float, learners only
    head_members: Tensor  # [R, K, heads] float, learners only
    rows: Tensor  # [R, trunks] bool: rows that move
    head_rows: Tensor  # [R, heads] bool
    clip_range: Tensor  # [R, K]
    others: Tensor | None  # [R, K, K] bool
    used: Tensor | None  # [R, K, 1, 1, d] float: which action dimensions exist


class TurnData(NamedTuple):
    """What all steps of a turn have in common."""

    rollout: Rollout
    samples: Tensor  # [R·T·N·A, fields] packed `Samples`
    crew: Crew


class LossWeights(NamedTuple):
    """Weight of one sample in each loss, so that slices of a minibatch add up; and the normaliser's statistics."""

    policy: Tensor  # [R, K]
    value: Tensor  # [R, K]
    sample: Tensor  # [R, K] one over the samples of an agent
    mean: Tensor  # [R, K]
    std: Tensor  # [R, K]


class StepSums(NamedTuple):
    """What one slice of a minibatch contributes: gradients [R, owners, size], then losses and ratios [R, K]."""

    trunk: Tensor
    head: Tensor
    critic: Tensor
    policy: Tensor
    entropy: Tensor
    value: Tensor
    ratio: Tensor
    clipped: Tensor


class StepStatistics(NamedTuple):
    """Of one minibatch step. Losses are shares: summed over an owner's agents they are the owner's loss."""

    policy: Tensor  # [R, K]
    entropy: Tensor  # [R, K]
    value: Tensor  # [R, K]
    ratio: Tensor  # [R, K] mean
    clipped: Tensor  # [R, K] fraction outside the clip range
    actor_norm: Tensor  # [R, trunks] before clipping
    critic_norm: Tensor  # [R, trunks]


class Kind(NamedTuple):
    """Compilation key: turns with equal `Kind` share one compiled step."""

    clip: Literal["own", "product", "joint"]
    clip_others: float | None
    learn: Literal["both", "actor", "critic"]
    in_order: bool
    """Agents 0 … A−1: where each agent owns its row no gather of parameters is needed."""


Step = Callable[[Tensor], StepStatistics]


class Stepper:
    """The state that steps change in place, and the step."""

    def __init__(
        self,
        actor: Actor,
        critic: Critic,
        settings: Settings,
        initial: Parameters,
        device: torch.device,
        compiler: Compiler,
    ) -> None:
        self.actor, self.critic, self.settings, self.device = actor, critic, settings, device
        sharing = actor.sharing
        replicas = initial.trunk.shape[0]
        self.state = LearnerState.fresh(initial, sharing.trunks, device)
        self.parameters, self.moments, self.normaliser, self.running = self.state
        one_hot = torch.nn.functional.one_hot(torch.tensor(sharing.trunk_of_head), sharing.trunks)
        self.head_trunk = one_hot.float().to(device)  # [heads, trunks]
        # Partial sharing: heads learn at n·lr in the release. With one head per trunk the factor is 1.
        scale = float(one_hot.sum(0).max()) if settings.head_lr_scale == "agents" else 1.0
        self.head_lr = settings.actor_lr * scale
        self._identity_trunk = sharing.trunk == tuple(range(sharing.agents))
        self._identity_head = sharing.head == tuple(range(sharing.agents))
        # Sums of the statistics over the steps a replica took, and in how many of them actor and critic learned.
        self.totals = torch.zeros(replicas, len(StepStatistics._fields) + 2, device=device)
        self._whole: Callable[..., StepStatistics] = compiler(self.whole)
        self._count, self._gradients = compiler(self.count), compiler(self.gradients)
        self._apply: Callable[..., StepStatistics] = compiler(self.apply)

    def begin(self, turn: TurnData, kind: Kind) -> Step:
        """What steps of a turn are called with: the rows of their samples."""

        def step(rows: Tensor) -> StepStatistics:
            return self.step(turn, kind, rows)

        return step

    def step(self, turn: TurnData, kind: Kind, rows: Tensor) -> StepStatistics:
        """One gradient step on the samples at `rows` [R, K, units, L], in slices whose gradients add up."""
        units = self.slice_units(rows)
        if units >= rows.shape[2]:
            return self._whole(turn, kind, rows)
        weights = self._count(turn, kind, rows)
        parts = [self._gradients(turn, kind, weights, part) for part in rows.split(units, 2)]
        return self._apply(StepSums(*(torch.stack(x).sum(0) for x in zip(*parts, strict=True))), turn.crew, kind)

    def whole(self, turn: TurnData, kind: Kind, rows: Tensor) -> StepStatistics:
        """A step without slices, as one program."""
        weights = self.count(turn, kind, rows)
        return self.apply(self.gradients(turn, kind, weights, rows), turn.crew, kind)

    def slice_units(self, rows: Tensor) -> int:
        """Units per slice: fixed by the cell's `slice_rows`, never by the machine or the number of replicas."""
        _, agents, units, length = rows.shape
        limit = self.settings.slice_rows
        return units if limit == 0 else max(1, min(units, limit // (agents * length)))

    @torch.no_grad()
    def count(self, turn: TurnData, kind: Kind, rows: Tensor) -> LossWeights:
        """Move the normaliser towards this minibatch's targets; the weight of each sample in the losses."""
        crew = turn.crew
        returns, alive = unpack_targets(turn.samples, rows)
        owned = crew.trunk_members.sum(1).clamp(min=1) * returns.shape[2]  # [R, trunks] samples per critic
        mean, std = torch.zeros_like(crew.learns), torch.ones_like(crew.learns)
        if self.settings.value_normalisation:
            if kind.learn != "actor":
                moments = torch.stack((returns.sum(-1), (returns**2).sum(-1)), 1)  # [R, 2, K]
                pooled = torch.bmm(moments, crew.trunk_members) / owned[:, None]
                moves = crew.rows & self.running[:, None] & pooled.isfinite().all(1)
                self.normaliser.update_(pooled[:, 0], pooled[:, 1], moves)
            mean, std = (x.gather(1, crew.trunk) for x in self.normaliser.statistics())
        # Pooled over the live samples of a head, averaged over the heads of a trunk, summed over trunks.
        per_head = torch.bmm(alive.sum(-1)[:, None], crew.head_members)[:, 0].clamp(min=1)  # [R, heads]
        heads = (crew.head_members.sum(1) > 0).float() @ self.head_trunk  # [R, trunks] heads that learn
        policy = crew.learns / (per_head.gather(1, crew.head) * heads.gather(1, crew.trunk).clamp(min=1))
        sample = torch.full_like(policy, 1 / returns.shape[2])
        return LossWeights(policy, crew.learns / owned.gather(1, crew.trunk), sample, mean, std)

    def gradients(self, turn: TurnData, kind: Kind, weights: LossWeights, rows: Tensor) -> StepSums:
        """Gradients of the parameters and the parts of the loss: all add up over slices."""
        parameters, owners = self.parameters, self.owners(turn.crew, kind)
        actor = self.actor.rows(parameters.trunk, parameters.head, owners)
        critic = self.critic.rows(parameters.critic, owners.trunk)
        loss, *pieces = self.loss(actor, critic, turn, kind, weights, rows)
        # With respect to the named parameters, joined afterwards: through the views, every one of them would add a
        # buffer full of zeros.
        named = [*actor.values(), *critic.values()]
        found = torch.autograd.grad(loss, named, allow_unused=True, materialize_grads=True)
        first, second = len(self.actor.trunk_layout.entries), len(actor)
        trunk = self.actor.trunk_layout.joined(found[:first])
        head = self.actor.head_layout.joined(found[first:second])
        sharing = self.actor.sharing
        return StepSums(
            collect(trunk, owners.trunk, sharing.trunks),
            collect(head, owners.head, sharing.heads),
            collect(self.critic.layout.joined(found[second:]), owners.trunk, sharing.trunks),
            *pieces,
        )

    def loss(
        self,
        actor: dict[str, Tensor],
        critic: dict[str, Tensor],
        turn: TurnData,
        kind: Kind,
        weights: LossWeights,
        rows: Tensor,
    ) -> tuple[Tensor, ...]:
        """The loss of all replicas (their gradients do not meet), then its parts: `StepSums` from policy on."""
        rollout, crew, sample = turn.rollout, turn.crew, unpack(turn.samples, rows)
        epsilon = crew.clip_range[:, :, None, None]
        policy, entropy, value, mean_ratio, outside = (torch.zeros_like(weights.policy) for _ in range(5))
        if kind.learn != "critic":
            distribution, _ = self.actor.distribution(
                self.actor.layers(actor),
                pick(rollout.observation, rows),
                pick_available(rollout.available, rows),
                pick_first(rollout.hidden_actor, rows),
                sample.keep,
            )
            log_prob = self.actor.log_prob(distribution, pick(rollout.action, rows), crew.used)
            log_ratio = log_prob - sample.log_prob
            surrogate = _surrogate(kind, log_ratio, sample.weight, sample.advantage, crew.others, epsilon)
            alive = sample.alive * weights.policy[:, :, None, None]
            policy = -(alive * surrogate).flatten(2).sum(-1)
            entropy = (alive * self.actor.entropy(distribution, crew.used)).flatten(2).sum(-1)
            ratio = log_ratio.detach().exp()
            mean_ratio = weights.sample * ratio.flatten(2).sum(-1)
            outside = weights.sample * ((ratio - 1).abs() > epsilon).float().flatten(2).sum(-1)
        if kind.learn != "actor":
            hidden = pick_first(rollout.hidden_critic, rows)
            predicted, _ = self.critic.value(self.critic.layers(critic), pick(rollout.state, rows), hidden, sample.keep)
            target = (sample.returns - weights.mean[:, :, None, None]) / weights.std[:, :, None, None]
            error = value_loss(predicted, sample.value, target, self.settings.clip, self.settings.huber_delta)
            value = weights.value * error.flatten(2).sum(-1)
        loss = (policy - self.settings.entropy_coef * entropy + value).sum()
        return loss, policy.detach(), entropy.detach(), value.detach(), mean_ratio, outside

    @torch.no_grad()
    def apply(self, sums: StepSums, crew: Crew, kind: Kind) -> StepStatistics:
        """Clip gradient norms per trunk owner and take an Adam step; a replica whose numbers are not finite stops."""
        settings, eps = self.settings, self.settings.adam_eps
        trunk, head, critic = sums.trunk, sums.head, sums.critic
        # Sums over heads of a trunk, not a matrix product, whose rounding depends on the number of replicas.
        of_heads = (squared_norm(head)[..., None] * self.head_trunk).sum(1)
        actor_norm, critic_norm = (squared_norm(trunk) + of_heads).sqrt(), squared_norm(critic).sqrt()  # [R, trunks]
        statistics = StepStatistics(
            sums.policy, sums.entropy, sums.value, sums.ratio, sums.clipped, actor_norm, critic_norm
        )
        columns, took = summary(statistics, crew), crew.rows.any(1)
        self.running.logical_and_(columns.isfinite().all(1) | ~took)
        rows = crew.rows & self.running[:, None]
        if kind.learn != "critic":
            factor = clip_factor(actor_norm, settings.gradient_clip)
            head_factor = (factor[:, None] * self.head_trunk).sum(-1)
            head_rows = crew.head_rows & self.running[:, None]
            adam_(self.parameters.trunk, trunk * factor[..., None], self.moments.trunk, settings.actor_lr, eps, rows)
            adam_(self.parameters.head, head * head_factor[..., None], self.moments.head, self.head_lr, eps, head_rows)
        if kind.learn != "actor":
            critic = critic * clip_factor(critic_norm, settings.gradient_clip)[..., None]
            adam_(self.parameters.critic, critic, self.moments.critic, settings.critic_lr, eps, rows)
        parts = torch.stack((took & (kind.learn != "critic"), took & (kind.learn != "actor")), 1)
        self.totals.add_(torch.where(took[:, None], torch.cat((columns, parts.float()), 1), 0.0))
        return statistics

    def owners(self, crew: Crew, kind: Kind) -> Owners:
        """Rows to gather; none where agent a uses row a and all agents stand in order."""
        return Owners(
            None if kind.in_order and self._identity_trunk else crew.trunk,
            None if kind.in_order and self._identity_head else crew.head,
        )


def summary(statistics: StepStatistics, crew: Crew) -> Tensor:
    """[R, 7]: losses and norms as a mean over the owners that learn, ratios as a mean over the agents that do."""
    owners = (crew.trunk_members.sum(1) > 0).sum(1).clamp(min=1)  # [R]
    agents = crew.learns.sum(1).clamp(min=1)
    per_agent = ("ratio", "clipped")
    return torch.stack(
        [
            (x * crew.learns).sum(1) / agents if name in per_agent else x.sum(1) / owners
            for name, x in statistics._asdict().items()
        ],
        1,
    )


def make_crew(
    sharing: Sharing,
    used: Tensor | None,
    agents: Tensor,
    learners: Tensor | None,
    go: Tensor | None,
    clip_range: Tensor,
    others: Tensor | None,
) -> Crew:
    """From agents [R, K] to the tensors a step needs."""
    device = agents.device
    learns = torch.ones_like(agents, dtype=torch.bool) if learners is None else learners
    trunk = torch.tensor(sharing.trunk, device=device)[agents]
    head = torch.tensor(sharing.head, device=device)[agents]
    members = [
        torch.nn.functional.one_hot(owner, count).float() * learns[..., None]
        for owner, count in ((trunk, sharing.trunks), (head, sharing.heads))
    ]
    going = torch.ones(len(agents), dtype=torch.bool, device=device) if go is None else go
    trunk_members, head_members = members
    return Crew(
        agents=agents,
        learns=learns.float(),
        trunk=trunk,
        head=head,
        trunk_members=trunk_members,
        head_members=head_members,
        rows=(trunk_members.sum(1) > 0) & going[:, None],
        head_rows=(head_members.sum(1) > 0) & going[:, None],
        clip_range=clip_range,
        others=others,
        used=None if used is None else used[agents][:, :, None, None],
    )


def _surrogate(
    kind: Kind, log_ratio: Tensor, weight: Tensor, advantage: Tensor, others: Tensor | None, epsilon: Tensor
) -> Tensor:
    if others is not None:
        if kind.clip == "joint":
            assert kind.clip_others is not None
            return coppo_joint(log_ratio, others, advantage, epsilon, kind.clip_others)
        weight = product_of(log_ratio.detach(), others)
        if kind.clip_others is not None:
            weight = clip(weight, kind.clip_others)
    objective = clipped if kind.clip == "own" else clipped_product
    return objective(log_ratio.exp(), weight, advantage, epsilon)
