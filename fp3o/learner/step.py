"""One gradient step of all replicas on a minibatch, in functions of tensors: `count`, then `actor_gradients` and
`critic_gradients`, then `apply`.

They run eagerly, compiled, or captured in a CUDA graph. Turns differ in data only, except for what `Kind` lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from fp3o.algorithms.objective import clip, clipped, clipped_product, coppo_joint, product_of, value_loss
from fp3o.algorithms.turns import Rollout
from fp3o.config.settings import Settings
from fp3o.learner.optimiser import adam_, clip_factor, squared_norm
from fp3o.learner.samples import pick, pick_available, pick_first, unpack, unpack_targets
from fp3o.learner.state import LearnerState, Parameters
from fp3o.networks.actor import Actor, Owners
from fp3o.networks.critic import Critic
from fp3o.networks.sharing import Sharing
from fp3o.networks.stacked import collect

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]
First = TypeVar("First")
Second = TypeVar("Second")


class Crew(NamedTuple):
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


class TurnData(NamedTuple):
    """The inputs that all steps of a turn have in common."""

    rollout: Rollout
    samples: Tensor  # [R·T·N·A, fields] packed `Samples`
    crew: Crew


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


class Kind(NamedTuple):
    """Compilation key: turns with equal `Kind` share one compiled step."""

    clip: Literal["own", "product", "joint"]
    clip_others: float | None
    learn: Literal["both", "actor", "critic"]
    in_order: bool
    """Whether the turn's agents are 0 … A − 1; if each has a row of its own, no parameters need to be gathered."""


Step = Callable[[Tensor], StepStatistics]


class Stepper:
    """Takes gradient steps, which change its `LearnerState` in place."""

    traits = ("actor", "critic", "settings", "head_lr", "_identity_trunk", "_identity_head")
    """Attributes beside tensors that compiled methods use; they do not see others."""
    one_program = True
    """Whether a step without slices is compiled as one program: calling four takes longer."""

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
        # Sums over the steps of a replica: the statistics, then the number of steps of its actor and of its critic.
        self.totals = torch.zeros(replicas, len(StepStatistics._fields) + 2, device=device)
        self._whole: Callable[..., StepStatistics] = compiler(self.whole)
        self._count = compiler(self.count)
        self._actor_gradients, self._critic_gradients = compiler(self.actor_gradients), compiler(self.critic_gradients)
        self._apply: Callable[..., StepStatistics] = compiler(self.apply)

    def begin(self, turn: TurnData, kind: Kind) -> Step:
        """The step function of a turn; its argument is the rows of a minibatch."""

        def step(rows: Tensor) -> StepStatistics:
            return self.step(turn, kind, rows)

        return step

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The same function of tensors whose shapes never change; its result may be overwritten by the next call."""
        return function

    def step(self, turn: TurnData, kind: Kind, rows: Tensor) -> StepStatistics:
        """One gradient step on the samples at `rows` [R, K, units, L], computed in slices to save memory."""
        units = self.slice_units(rows)
        if self.one_program and units >= rows.shape[2]:
            return self._whole(turn, kind, rows)
        weights = self._count(turn, kind, rows)
        parts = rows.split(units, 2)
        actor, critic = self.beside(
            lambda: _added([self._actor_gradients(turn, kind, weights, part) for part in parts]),
            lambda: _added([self._critic_gradients(turn, kind, weights, part) for part in parts]),
        )
        return self._apply(actor, critic, turn.crew, kind)

    def beside(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """The results of two functions that do not depend on each other."""
        return first(), second()

    def whole(self, turn: TurnData, kind: Kind, rows: Tensor) -> StepStatistics:
        """A step without slices."""
        weights = self.count(turn, kind, rows)
        actor = self.actor_gradients(turn, kind, weights, rows)
        return self.apply(actor, self.critic_gradients(turn, kind, weights, rows), turn.crew, kind)

    def slice_units(self, rows: Tensor) -> int:
        """Units per slice. From the setting `slice_rows` alone, so that results do not depend on the machine."""
        _, agents, units, length = rows.shape
        limit = self.settings.slice_rows
        return units if limit == 0 else max(1, min(units, limit // (agents * length)))

    @torch.no_grad()
    def count(self, turn: TurnData, kind: Kind, rows: Tensor) -> LossWeights:
        """Update the value normaliser with this minibatch's targets; returns the loss weights."""
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
        # The policy loss is a mean over the alive samples of a head, averaged over a trunk's heads, summed over trunks.
        per_head = torch.bmm(alive.sum(-1)[:, None], crew.head_members)[:, 0].clamp(min=1)  # [R, heads]
        heads = (crew.head_members.sum(1) > 0).float() @ self.head_trunk  # [R, trunks] heads that learn
        policy = crew.learns / (per_head.gather(1, crew.head) * heads.gather(1, crew.trunk).clamp(min=1))
        sample = torch.full_like(policy, 1 / returns.shape[2])
        return LossWeights(policy, crew.learns / owned.gather(1, crew.trunk), sample, mean, std)

    def actor_gradients(self, turn: TurnData, kind: Kind, weights: LossWeights, rows: Tensor) -> ActorSums:
        """Gradients of the actors' parameters and the parts of their loss, for the samples of one slice."""
        owners, sharing = self.owners(turn.crew, kind), self.actor.sharing
        named = self.actor.rows(self.parameters.trunk, self.parameters.head, owners)
        loss, *pieces = self.actor_loss(named, turn, kind, weights, rows)
        gradients, trunks = _gradients(loss, named), len(self.actor.trunk_layout.entries)
        trunk = self.actor.trunk_layout.joined(gradients[:trunks])
        head = self.actor.head_layout.joined(gradients[trunks:])
        return ActorSums(
            collect(trunk, owners.trunk, sharing.trunks), collect(head, owners.head, sharing.heads), *pieces
        )

    def critic_gradients(self, turn: TurnData, kind: Kind, weights: LossWeights, rows: Tensor) -> CriticSums:
        """Likewise of the critics'."""
        owners = self.owners(turn.crew, kind).trunk
        named = self.critic.rows(self.parameters.critic, owners)
        loss, value = self.critic_loss(named, turn, kind, weights, rows)
        joined = self.critic.layout.joined(_gradients(loss, named))
        return CriticSums(collect(joined, owners, self.actor.sharing.trunks), value)

    def actor_loss(
        self, actor: dict[str, Tensor], turn: TurnData, kind: Kind, weights: LossWeights, rows: Tensor
    ) -> tuple[Tensor, ...]:
        """The sum of all replicas' losses (no parameter occurs in two of them), then the fields of `ActorSums` from
        `policy` on."""
        rollout, crew = turn.rollout, turn.crew
        if kind.learn == "critic":
            none, *pieces = (torch.zeros_like(weights.policy) for _ in range(5))
            return none.sum(), *pieces
        sample, epsilon = unpack(turn.samples, rows), crew.clip_range[:, :, None, None]
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
        loss = (policy - self.settings.entropy_coef * entropy).sum()
        return loss, policy.detach(), entropy.detach(), mean_ratio, outside

    def critic_loss(
        self, critic: dict[str, Tensor], turn: TurnData, kind: Kind, weights: LossWeights, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sum of all replicas' losses, then the loss of each agent."""
        if kind.learn == "actor":
            zeros = torch.zeros_like(weights.value)
            return zeros.sum(), zeros
        rollout, sample = turn.rollout, unpack(turn.samples, rows)
        hidden = pick_first(rollout.hidden_critic, rows)
        predicted, _ = self.critic.value(self.critic.layers(critic), pick(rollout.state, rows), hidden, sample.keep)
        target = (sample.returns - weights.mean[:, :, None, None]) / weights.std[:, :, None, None]
        error = value_loss(predicted, sample.value, target, self.settings.clip, self.settings.huber_delta)
        value = weights.value * error.flatten(2).sum(-1)
        return value.sum(), value.detach()

    @torch.no_grad()
    def apply(self, actor: ActorSums, critic: CriticSums, crew: Crew, kind: Kind) -> StepStatistics:
        """Clip gradient norms per trunk owner and take an Adam step, except in replicas with numbers that are not
        finite: they have diverged and no longer change."""
        settings, eps = self.settings, self.settings.adam_eps
        trunk, head, gradient = actor.trunk, actor.head, critic.gradient
        # Summed over a trunk's heads without a matrix product, whose rounding depends on the number of replicas.
        of_heads = (squared_norm(head)[..., None] * self.head_trunk).sum(1)
        actor_norm, critic_norm = (squared_norm(trunk) + of_heads).sqrt(), squared_norm(gradient).sqrt()  # [R, trunks]
        statistics = StepStatistics(
            actor.policy, actor.entropy, critic.value, actor.ratio, actor.clipped, actor_norm, critic_norm
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
            gradient = gradient * clip_factor(critic_norm, settings.gradient_clip)[..., None]
            adam_(self.parameters.critic, gradient, self.moments.critic, settings.critic_lr, eps, rows)
        parts = torch.stack((took & (kind.learn != "critic"), took & (kind.learn != "actor")), 1)
        self.totals.add_(torch.where(took[:, None], torch.cat((columns, parts.float()), 1), 0.0))
        return statistics

    def owners(self, crew: Crew, kind: Kind) -> Owners:
        """Parameter rows of the turn's agents; None where nothing needs to be gathered (see `Kind.in_order`)."""
        return Owners(
            None if kind.in_order and self._identity_trunk else crew.trunk,
            None if kind.in_order and self._identity_head else crew.head,
        )


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


def summary(statistics: StepStatistics, crew: Crew) -> Tensor:
    """The statistics of each replica, [R, 7]: means over owners that learn or, for ratios, over agents that learn."""
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
    """The crew of agents [R, K]; used [A, d]: action dimensions that exist; the other arguments as in `Turn`."""
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
