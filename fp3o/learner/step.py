"""One gradient step of all replicas on a minibatch, in functions of tensors: `loss_weights`, then `actor_gradients` and
`critic_gradients`, then `apply`. Turns differ in data only, except for what `StepVariant` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from fp3o.algorithms.objective import clip, clipped, clipped_product, coppo_joint, product_of, value_loss
from fp3o.algorithms.own_loss import Loss, own_loss
from fp3o.algorithms.turns import ActorBatch, CriticBatch, Rollout
from fp3o.config.settings import Settings
from fp3o.learner.optimiser import adam_, clip_factor, squared_norm
from fp3o.learner.samples import pick, pick_available, pick_first, unpack, unpack_targets
from fp3o.learner.state import LearnerState, Parameters
from fp3o.networks.actor import Actor, Distribution, Owners
from fp3o.networks.critic import Critic
from fp3o.networks.sharing import Sharing
from fp3o.networks.stacked import collect


class TurnAgents(NamedTuple):
    """The K agents that take part in a turn: their parameter rows, and which of them learn."""

    agents: Tensor  # [R, K] agent numbers
    learns: Tensor  # [R, K] float: 1 for agents that learn
    trunk: Tensor  # [R, K] parameter row of each agent's trunk and critic
    head: Tensor  # [R, K] likewise of its head
    trunk_members: Tensor  # [R, K, trunks] float: 1 where a learning agent uses a trunk
    head_members: Tensor  # [R, K, heads] float: likewise for heads
    rows: Tensor  # [R, trunks] bool: rows that the turn changes
    head_rows: Tensor  # [R, heads] bool: likewise for heads
    clip_range: Tensor  # [R, K] PPO's ε
    others: Tensor | None  # [R, K, K] bool, see `Turn.others`
    used: Tensor | None  # [R, K, 1, 1, d] float: 1 for action dimensions that exist; None: all do
    varying: dict[str, Tensor] = {}  # noqa: RUF012 (never changed)
    """Settings with a schedule, one number each: they are inputs of programs, in which all others are constants."""


class TurnData(NamedTuple):
    """The inputs that all steps of a turn have in common."""

    rollout: Rollout
    samples: Tensor  # [R·T·N·A, fields] packed `Samples`
    members: TurnAgents
    inputs: dict[str, Tensor] = {}  # noqa: RUF012 (never changed)
    """For losses of plug-ins: `Turn.inputs`, [R, 1, 1, 1] or [R, T, N, A] each."""
    old_std: Tensor | None = None
    """[R, K, 1, 1, d] σ of π_k, where a loss reads it."""


class LossWeights(NamedTuple):
    """Weight of one sample of each agent in each loss, so that the losses of a minibatch's slices can be added; and the
    value normaliser's mean and std of each agent. [R, K] each."""

    policy: Tensor
    value: Tensor
    sample: Tensor  # 1 / number of samples of the agent
    mean: Tensor
    std: Tensor


class ActorSums(NamedTuple):
    """The sums over one slice of a minibatch: gradients [R, owners, size], then losses and ratios [R, K]."""

    trunk: Tensor
    head: Tensor
    policy: Tensor
    entropy: Tensor
    ratio: Tensor
    clipped: Tensor


class CriticSums(NamedTuple):
    """Likewise of the critic."""

    gradient: Tensor
    value: Tensor


Sums = TypeVar("Sums", ActorSums, CriticSums)


class StepStatistics(NamedTuple):
    """Statistics of one step. The losses of an owner's agents sum up to the owner's loss."""

    policy: Tensor  # [R, K]
    entropy: Tensor  # [R, K]
    value: Tensor  # [R, K]
    ratio: Tensor  # [R, K] mean
    clipped: Tensor  # [R, K] fraction outside the clip range
    actor_norm: Tensor  # [R, trunks] before clipping
    critic_norm: Tensor  # [R, trunks]


class StepVariant(NamedTuple):
    """What is fixed in the code of a step: turns that agree in it run the same operations."""

    clip: Literal["own", "product", "joint"]
    clip_others: float | None
    learn: Literal["both", "actor", "critic"]
    in_order: bool
    """Whether the turn's agents are 0 … A − 1; if each has a row of its own, no parameters need to be gathered."""
    loss: Loss | None = None
    critic_loss: Loss | None = None
    """The losses of `Turn`, see `plain_function`."""


class Steps(Protocol):
    """Takes the gradient steps of a learner: `Stepper` itself, or a faster form of it (fp3o/execution/steps.py)."""

    def begin(self, turn: TurnData, variant: StepVariant) -> Callable[[Tensor], StepStatistics]:
        """The step function of a turn; its argument is the rows of a minibatch."""

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The same function of tensors whose shapes never change; its result may be overwritten by the next call."""


class Stepper:
    """Takes gradient steps, which change its `LearnerState` in place."""

    def __init__(
        self,
        actor: Actor,
        critic: Critic,
        settings: Settings,
        initial: Parameters,
        device: torch.device,
        own: Mapping[str, Tensor],
    ) -> None:
        """own: initial values of the algorithm's own state."""
        self.actor, self.critic, self.settings, self.device = actor, critic, settings, device
        # Held here so that they are inputs of compiled programs, as all tensors of this object are.
        self.actor_buffers, self.critic_buffers = (network.trunk.buffers(device) for network in (actor, critic))
        sharing = actor.sharing
        replicas = initial.trunk.shape[0]
        self.state = LearnerState.fresh(initial, sharing.trunks, device, own)
        self.parameters, self.moments, self.normaliser, self.running, _ = self.state
        one_hot = torch.nn.functional.one_hot(torch.tensor(sharing.trunk_of_head), sharing.trunks)
        self.head_trunk = one_hot.float().to(device)  # [heads, trunks]
        # Partial sharing: heads learn at n·lr in the release. With one head per trunk the factor is 1.
        self.head_scale = float(one_hot.sum(0).max()) if settings.head_lr_scale == "agents" else 1.0
        self.head_lr = settings.actor_lr * self.head_scale
        self._identity_trunk = sharing.trunk == tuple(range(sharing.agents))
        self._identity_head = sharing.head == tuple(range(sharing.agents))
        # Sums over the steps of a replica: the statistics, then the number of steps of its actor and of its critic.
        self.totals = torch.zeros(replicas, len(StepStatistics._fields) + 2, device=device)

    def begin(self, turn: TurnData, variant: StepVariant) -> Callable[[Tensor], StepStatistics]:
        return partial(self.step, turn, variant)

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return function

    def step(self, turn: TurnData, variant: StepVariant, rows: Tensor) -> StepStatistics:
        return take_step(self, turn, variant, rows)

    def slice_units(self, rows: Tensor) -> int:
        """Units per slice. From the setting `slice_rows` alone, so that results do not depend on the machine."""
        _, agents, units, length = rows.shape
        limit = self.settings.slice_rows
        return units if limit == 0 else max(1, min(units, limit // (agents * length)))

    @torch.no_grad()
    def loss_weights(self, turn: TurnData, variant: StepVariant, rows: Tensor) -> LossWeights:
        """Update the value normaliser with this minibatch's targets; returns the loss weights."""
        members = turn.members
        returns, alive = unpack_targets(turn.samples, rows)
        owned = members.trunk_members.sum(1).clamp(min=1) * returns.shape[2]  # [R, trunks] samples per critic
        mean, std = torch.zeros_like(members.learns), torch.ones_like(members.learns)
        if self.settings.value_normalisation:
            if variant.learn != "actor":
                moments = torch.stack((returns.sum(-1), (returns**2).sum(-1)), 1)  # [R, 2, K]
                pooled = torch.bmm(moments, members.trunk_members) / owned[:, None]
                moves = members.rows & self.running[:, None] & pooled.isfinite().all(1)
                self.normaliser.update_(pooled[:, 0], pooled[:, 1], moves)
            mean, std = (x.gather(1, members.trunk) for x in self.normaliser.statistics())
        # The policy loss is a mean over the alive samples of a head, averaged over a trunk's heads, summed over trunks.
        per_head = torch.bmm(alive.sum(-1)[:, None], members.head_members)[:, 0].clamp(min=1)  # [R, heads]
        heads = (members.head_members.sum(1) > 0).float() @ self.head_trunk  # [R, trunks] heads that learn
        policy = members.learns / (per_head.gather(1, members.head) * heads.gather(1, members.trunk).clamp(min=1))
        sample = torch.full_like(policy, 1 / returns.shape[2])
        return LossWeights(policy, members.learns / owned.gather(1, members.trunk), sample, mean, std)

    def actor_gradients(self, turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor) -> ActorSums:
        """Gradients of the actors' parameters and the parts of their loss, for the samples of one slice."""
        owners, sharing = self.owners(turn.members, variant), self.actor.sharing
        named = self.actor.rows(self.parameters.trunk, self.parameters.head, owners)
        loss, *pieces = self.actor_loss(named, turn, variant, weights, rows)
        gradients, trunks = _gradients(loss, named), len(self.actor.trunk_layout.entries)
        trunk = self.actor.trunk_layout.joined(gradients[:trunks])
        head = self.actor.head_layout.joined(gradients[trunks:])
        return ActorSums(
            collect(trunk, owners.trunk, sharing.trunks), collect(head, owners.head, sharing.heads), *pieces
        )

    def critic_gradients(self, turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor) -> CriticSums:
        """Likewise of the critics'."""
        owners = self.owners(turn.members, variant).trunk
        named = self.critic.rows(self.parameters.critic, owners)
        loss, value = self.critic_loss(named, turn, variant, weights, rows)
        joined = self.critic.layout.joined(_gradients(loss, named))
        return CriticSums(collect(joined, owners, self.actor.sharing.trunks), value)

    def actor_loss(
        self, actor: dict[str, Tensor], turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor
    ) -> tuple[Tensor, ...]:
        """The sum of all replicas' losses (no parameter occurs in two of them), then the fields of `ActorSums` from
        `policy` on."""
        rollout, members = turn.rollout, turn.members
        if variant.learn == "critic":
            none, *pieces = (torch.zeros_like(weights.policy) for _ in range(5))
            return none.sum(), *pieces
        sample, epsilon = unpack(turn.samples, rows), members.clip_range[:, :, None, None]
        observation, available = pick(rollout.observation, rows), pick_available(rollout.available, rows)
        hidden = pick_first(rollout.hidden_actor, rows)
        layers = self.actor.layers(actor | self.actor_buffers)
        distribution, _ = self.actor.distribution(layers, observation, available, hidden, sample.keep)
        action = pick(rollout.action, rows)
        log_prob = self.actor.log_prob(distribution, action, members.used)
        log_ratio = log_prob - sample.log_prob
        weight = _factor(variant, log_ratio, sample.weight, members.others)
        surrogate = _surrogate(variant, log_ratio, weight, sample.advantage, members.others, epsilon)
        alive = sample.alive * weights.policy[:, :, None, None]
        entropies = self.actor.entropy(distribution, members.used)
        if variant.loss is not None:
            old = Distribution(pick(rollout.location, rows), turn.old_std)
            batch = ActorBatch(
                log_prob=log_prob,
                ratio=log_ratio.exp(),
                location=distribution.location,
                std=distribution.std,
                entropy=entropies,
                kl=self.actor.kl(distribution, old, members.used),
                surrogate=surrogate,
                old_log_prob=sample.log_prob,
                old_location=old.location,
                old_std=None if old.std is None else old.std.expand_as(old.location),
                advantage=sample.advantage,
                weight=weight,
                clip_range=epsilon,
                old_value=sample.value,
                returns=sample.returns,
                alive=sample.alive,
                observation=observation,
                action=action,
                available=available,
                inputs=_inputs(turn, rows),
            )
            surrogate = -own_loss(variant.loss, batch, log_prob)
        policy = -(alive * surrogate).flatten(2).sum(-1)
        entropy = (alive * entropies).flatten(2).sum(-1)
        ratio = log_ratio.detach().exp()
        mean_ratio = weights.sample * ratio.flatten(2).sum(-1)
        outside = weights.sample * ((ratio - 1).abs() > epsilon).float().flatten(2).sum(-1)
        coefficient = members.varying.get("entropy_coef", self.settings.entropy_coef)
        loss = (policy - coefficient * entropy).sum()
        return loss, policy.detach(), entropy.detach(), mean_ratio, outside

    def critic_loss(
        self, critic: dict[str, Tensor], turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sum of all replicas' losses, then the loss of each agent."""
        if variant.learn == "actor":
            zeros = torch.zeros_like(weights.value)
            return zeros.sum(), zeros
        rollout, sample = turn.rollout, unpack(turn.samples, rows)
        hidden, state = pick_first(rollout.hidden_critic, rows), pick(rollout.state, rows)
        layers = self.critic.layers(critic | self.critic_buffers)
        predicted, _ = self.critic.value(layers, state, hidden, sample.keep)
        target = (sample.returns - weights.mean[:, :, None, None]) / weights.std[:, :, None, None]
        epsilon = turn.members.varying.get("clip", self.settings.clip)
        error = value_loss(predicted, sample.value, target, epsilon, self.settings.huber_delta)
        if variant.critic_loss is not None:
            inputs = _inputs(turn, rows)
            batch = CriticBatch(predicted, error, sample.value, target, sample.returns, sample.alive, state, inputs)
            error = own_loss(variant.critic_loss, batch, predicted)
        value = weights.value * error.flatten(2).sum(-1)
        return value.sum(), value.detach()

    @torch.no_grad()
    def apply(self, actor: ActorSums, critic: CriticSums, members: TurnAgents, variant: StepVariant) -> StepStatistics:
        """Clip gradient norms per trunk owner and take an Adam step, except in replicas with numbers that are not
        finite: they have diverged and no longer change."""
        settings, eps = self.settings, self.settings.adam_eps
        varying = members.varying
        actor_lr = varying.get("actor_lr", settings.actor_lr)
        head_lr = varying["actor_lr"] * self.head_scale if "actor_lr" in varying else self.head_lr
        critic_lr = varying.get("critic_lr", settings.critic_lr)
        trunk, head, gradient = actor.trunk, actor.head, critic.gradient
        # Summed over a trunk's heads without a matrix product, whose rounding depends on the number of replicas.
        of_heads = (squared_norm(head)[..., None] * self.head_trunk).sum(1)
        actor_norm, critic_norm = (squared_norm(trunk) + of_heads).sqrt(), squared_norm(gradient).sqrt()  # [R, trunks]
        statistics = StepStatistics(
            actor.policy, actor.entropy, critic.value, actor.ratio, actor.clipped, actor_norm, critic_norm
        )
        columns, took = summary(statistics, members), members.rows.any(1)
        self.running.logical_and_(columns.isfinite().all(1) | ~took)
        rows = members.rows & self.running[:, None]
        if variant.learn != "critic":
            factor = clip_factor(actor_norm, settings.gradient_clip)
            head_factor = (factor[:, None] * self.head_trunk).sum(-1)
            head_rows = members.head_rows & self.running[:, None]
            adam_(self.parameters.trunk, trunk * factor[..., None], self.moments.trunk, actor_lr, eps, rows)
            adam_(self.parameters.head, head * head_factor[..., None], self.moments.head, head_lr, eps, head_rows)
        if variant.learn != "actor":
            gradient = gradient * clip_factor(critic_norm, settings.gradient_clip)[..., None]
            adam_(self.parameters.critic, gradient, self.moments.critic, critic_lr, eps, rows)
        parts = torch.stack((took & (variant.learn != "critic"), took & (variant.learn != "actor")), 1)
        self.totals.add_(torch.where(took[:, None], torch.cat((columns, parts.float()), 1), 0.0))
        return statistics

    def owners(self, members: TurnAgents, variant: StepVariant) -> Owners:
        """Parameter rows of the turn's agents; None where nothing needs to be gathered (see `StepVariant.in_order`)."""
        return Owners(
            None if variant.in_order and self._identity_trunk else members.trunk,
            None if variant.in_order and self._identity_head else members.head,
        )


def take_step(
    stepper: Any,
    turn: TurnData,
    variant: StepVariant,
    rows: Tensor,
    both: Callable[..., Any] = lambda first, second: (first(), second()),
) -> StepStatistics:
    """One gradient step on the samples at `rows` [R, K, units, L], computed in slices to save memory.

    stepper: a `Stepper`, or an object with other forms of its methods. both: returns the results of two functions that
    do not depend on each other.
    """
    weights = stepper.loss_weights(turn, variant, rows)
    given = (stepper, turn, variant, weights, rows)
    actor, critic = both(partial(actor_sums, *given), partial(critic_sums, *given))
    statistics: StepStatistics = stepper.apply(actor, critic, turn.members, variant)
    return statistics


def actor_sums(stepper: Any, turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor) -> ActorSums:
    """The actors' gradients and the parts of their loss, over all slices of a minibatch."""
    parts: list[ActorSums] = [stepper.actor_gradients(turn, variant, weights, x) for x in _slices(stepper, rows)]
    return _added(parts)


def critic_sums(stepper: Any, turn: TurnData, variant: StepVariant, weights: LossWeights, rows: Tensor) -> CriticSums:
    """Likewise of the critics."""
    parts: list[CriticSums] = [stepper.critic_gradients(turn, variant, weights, x) for x in _slices(stepper, rows)]
    return _added(parts)


def _slices(stepper: Any, rows: Tensor) -> tuple[Tensor, ...]:
    units = stepper.slice_units(rows)
    return rows.split(units, 2) if units < rows.shape[2] else (rows,)


def _gradients(loss: Tensor, named: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """With respect to the named parameters, joined afterwards: with respect to the flat buffers, autograd would add a
    buffer of zeros for each of their views. Zeros where nothing learns."""
    if not loss.requires_grad:
        return tuple(torch.zeros_like(x) for x in named.values())
    return torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)


def _added(parts: list[Sums]) -> Sums:
    """The sums over a minibatch from those over its slices."""
    first, *more = parts
    return type(first)(*(torch.stack(x).sum(0) for x in zip(*parts, strict=True))) if more else first


def summary(statistics: StepStatistics, members: TurnAgents) -> Tensor:
    """The statistics of each replica, [R, 7]: means over owners that learn or, for ratios, over agents that learn."""
    owners = (members.trunk_members.sum(1) > 0).sum(1).clamp(min=1)  # [R]
    agents = members.learns.sum(1).clamp(min=1)
    per_agent = ("ratio", "clipped")
    return torch.stack(
        [
            (x * members.learns).sum(1) / agents if name in per_agent else x.sum(1) / owners
            for name, x in statistics._asdict().items()
        ],
        1,
    )


def turn_agents(
    sharing: Sharing,
    used: Tensor | None,
    agents: Tensor,
    learners: Tensor | None,
    go: Tensor | None,
    clip_range: Tensor,
    others: Tensor | None,
) -> TurnAgents:
    """Agents [R, K] with their parameter rows. used [A, d]: action dimensions that exist; the others as in `Turn`."""
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
    return TurnAgents(
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


def _inputs(turn: TurnData, rows: Tensor) -> dict[str, Tensor]:
    """`Turn.inputs` of the samples at `rows`: [R, 1, 1, 1] stay, [R, T, N, A] → [R, K, units, L]."""
    whole = turn.rollout.log_prob.shape
    return {name: pick(x[..., None], rows)[..., 0] if x.shape == whole else x for name, x in turn.inputs.items()}


def _factor(variant: StepVariant, log_ratio: Tensor, weight: Tensor, others: Tensor | None) -> Tensor:
    """The factor on the advantage."""
    if others is None or variant.clip == "joint":
        return weight
    weight = product_of(log_ratio.detach(), others)
    return weight if variant.clip_others is None else clip(weight, variant.clip_others)


def _surrogate(
    variant: StepVariant, log_ratio: Tensor, weight: Tensor, advantage: Tensor, others: Tensor | None, epsilon: Tensor
) -> Tensor:
    if others is not None and variant.clip == "joint":
        assert variant.clip_others is not None
        return coppo_joint(log_ratio, others, advantage, epsilon, variant.clip_others)
    objective = clipped if variant.clip == "own" else clipped_product
    return objective(log_ratio.exp(), weight, advantage, epsilon)
