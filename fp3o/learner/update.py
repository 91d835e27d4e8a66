"""The update of one iteration: advantages, then the algorithm's turns, each with some epochs of minibatch steps.

The same code for every algorithm, every kind of sharing and any number of seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from fp3o.algorithms import ALGORITHMS, turns_of
from fp3o.algorithms.advantage import gae, standardise
from fp3o.algorithms.own_loss import plain_function
from fp3o.algorithms.turns import Context, Rollout, Turn
from fp3o.config.settings import Settings, at, schedules_of
from fp3o.envs.interface import EnvSpec
from fp3o.learner.own_state import OwnState, initial_state
from fp3o.learner.randomness import Draws, generator
from fp3o.learner.samples import agent_rows, pack, pick, pick_available, pick_first, unit_rows
from fp3o.learner.state import Parameters, clone, overwrite
from fp3o.learner.step import Stepper, Steps, StepStatistics, StepVariant, TurnAgents, TurnData, turn_agents
from fp3o.networks.actor import Actor, Distribution
from fp3o.networks.critic import Critic
from fp3o.networks.module_trunk import Inputs, make_trunk
from fp3o.networks.sharing import Sharing

# Rows per agent in forward passes without gradient. A constant, so that results do not depend on a machine's memory.
EVALUATION_ROWS = 4000


def networks(spec: EnvSpec, sharing: Sharing, algorithm: str, settings: Settings) -> tuple[Actor, Critic]:
    """Shapes and functions of a cell's actors and critics."""
    choices = spec.action.parameters if spec.action.kind == "categorical" else 0
    observation = Inputs(spec.observation_size, spec.observation_shape, choices)
    sees_state = ALGORITHMS[algorithm].critic_input == "state"
    state = Inputs(spec.state_size, spec.state_shape) if sees_state else replace(observation, choices=0)
    actor = Actor(make_trunk(observation, settings, "actor"), spec.action, settings.gaussian_std, sharing)
    return actor, Critic(make_trunk(state, settings, "critic"), sharing)


def initialise(actor: Actor, critic: Critic, seeds: Sequence[int]) -> Parameters:
    """Initial parameters, drawn for each replica with a random generator of its own."""
    stacks: list[tuple[Tensor, Tensor, Tensor]] = []
    for seed in seeds:
        source = torch.Generator().manual_seed(int(generator(seed, "initialisation").integers(2**62)))
        stacks.append((*actor.initialise(source), critic.initialise(source)))
    return Parameters(*(torch.stack(x) for x in zip(*stacks, strict=True)))


class Learner:
    """R replicas of one cell: their networks, optimisers and the update."""

    def __init__(
        self,
        spec: EnvSpec,
        sharing: Sharing,
        algorithm: str,
        settings: Settings,
        initial: Parameters,
        device: torch.device | str = "cpu",
        wrap: Callable[[Stepper], Steps] = lambda stepper: stepper,
    ) -> None:
        """wrap: gives a faster form of the same steps. All else is done a few times per iteration."""
        self.spec, self.sharing = spec, sharing
        self.schedules = schedules_of(settings)
        self.settings = settings = at(settings, self.schedules, 0.0)
        """As of the current iteration."""
        self.turns, self.critic_input = turns_of(algorithm), ALGORITHMS[algorithm].critic_input
        self.device = torch.device(device)
        actor, critic = networks(spec, sharing, algorithm, settings)
        self.actor, self.critic = actor, critic
        self.replicas = initial.trunk.shape[0]
        own = initial_state(ALGORITHMS[algorithm].state, spec.agents, self.replicas)
        self.stepper = Stepper(actor, critic, settings, initial, self.device, own)
        self.steps = wrap(self.stepper)
        self._gae = self.steps.repeated(partial(gae, gamma=settings.gamma, gae_lambda=settings.gae_lambda))
        self.on_step: Callable[[Turn, StepStatistics], None] | None = None
        self._log_ratio: Tensor | None = None

    @classmethod
    def fresh(
        cls, spec: EnvSpec, sharing: Sharing, algorithm: str, settings: Settings, seeds: Sequence[int], **options: Any
    ) -> Learner:
        """A learner before training, each replica initialised from its seed; options: of the constructor."""
        initial = initialise(*networks(spec, sharing, algorithm, settings), seeds)
        return cls(spec, sharing, algorithm, settings, initial, **options)

    def update(self, rollout: Rollout, draws: Draws) -> dict[str, Tensor]:
        """Take all turns of one iteration; returns named numbers [R] for iterations.csv."""
        context = self.context(rollout, draws)
        units = unit_rows(rollout, self.settings)
        self._log_ratio = torch.zeros_like(rollout.log_prob)
        self._old_std = self.std()
        records: dict[str, Tensor] = {}
        self.stepper.totals.zero_()
        previous: Turn | None = None
        for number, turn in enumerate(self.turns(context)):
            if previous is not None and turn.ordinal != previous.ordinal:
                records |= self._divergence(rollout, previous)
            previous = turn
            records |= turn.records
            if turn.go is not None:
                records["go"] = turn.go.float()
            if turn.go is None or bool(turn.go.any()):
                self._take(context, turn, number, units, draws)
        if previous is not None:
            records |= self._divergence(rollout, previous)
        *sums, actor, critic = self.stepper.totals.unbind(1)
        for name, total in zip(STATISTICS, sums, strict=True):
            records[name] = total / (critic if name in CRITIC_STATISTICS else actor).clamp(min=1)
        records["explained_variance"] = explained_variance(context)
        return records

    def rehearse(self, rollout: Rollout, draws: Draws) -> None:
        """Update with any numbers, so that programs are compiled and graphs captured, and take back what it changed."""
        before = clone(self.stepper.state)
        self.update(rollout, draws)
        overwrite(self.stepper.state, before)

    def context(self, rollout: Rollout, draws: Draws) -> Context:
        """What the algorithm can use: values in reward units, critic targets, advantages …"""
        per_iteration = self.settings.rollout_length * self.settings.rollout_threads
        iterations = max(1, self.settings.total_steps // per_iteration)
        fraction = min(1.0, draws.iteration / iterations)
        self.settings = settings = at(self.settings, self.schedules, fraction)
        value, next_value = self.denormalise(rollout.value), self.denormalise(rollout.next_value)
        raw = self._gae(rollout.reward, value, next_value, rollout.continues)
        return Context(
            settings=settings,
            rollout=rollout,
            value=value,
            next_value=next_value,
            returns=raw + value,
            raw_advantage=raw,
            advantage=standardise(raw, rollout.alive, settings.advantage_standardisation),
            log_ratio=lambda: self.log_ratio(rollout),
            uniform=draws.uniform,
            snapshot=self.snapshot,
            iteration=draws.iteration,
            env_steps=draws.iteration * per_iteration,
            fraction=fraction,
            state=OwnState(self.stepper.state.own),
        )

    def denormalise(self, value: Tensor) -> Tensor:
        """Critic outputs [R, …, A] in reward units."""
        if not self.settings.value_normalisation:
            return value
        owner = list(self.sharing.trunk)
        shape = (value.shape[0], *(1,) * (value.dim() - 2), value.shape[-1])
        mean, std = (x[:, owner].view(shape) for x in self.stepper.normaliser.statistics())
        return value * std + mean

    def snapshot(self) -> Callable[[Tensor], None]:
        """Copy the learner's state; the returned function sets the given replicas, [R] bool, back to that copy."""
        state = self.stepper.state
        before = clone(state)

        def restore(replicas: Tensor) -> None:
            # A replica that has diverged meanwhile stays marked so.
            overwrite(state, before | {"running": state.running.clone()}, replicas)
            self._log_ratio = None

        return restore

    def log_ratio(self, rollout: Rollout) -> Tensor:
        """log π/π_k of every action in the rollout, [R, T, N, A]; GRUs start from stored states, as in training."""
        if self._log_ratio is None:
            self._evaluate(rollout)
        assert self._log_ratio is not None
        return self._log_ratio

    def _take(self, context: Context, turn: Turn, number: int, units: Tensor, draws: Draws) -> None:
        """Take all minibatch steps of a turn; number: of the turn within the iteration."""
        members = self.members(turn)
        losses = plain_function(turn.loss, "loss"), plain_function(turn.critic_loss, "critic_loss")
        variant = StepVariant(turn.clip, turn.clip_others, turn.learn, turn.agents is None, *losses)
        old_std = None
        if turn.loss is not None and self._old_std is not None:
            old_std = torch.take_along_dim(self._old_std, members.agents[:, None, None, :, None], 3).movedim(3, 1)
        data = TurnData(context.rollout, pack(context, turn), members, self._inputs(turn), old_std)
        step = self.steps.begin(data, variant)
        count, batches = members.agents.shape[1], self.settings.minibatches
        shared = turn.others is not None  # products of current ratios need the same samples of all agents
        for epoch in range(turn.epochs):
            order = draws.permutations(number, epoch, 1 if shared else count, len(units))
            rows = agent_rows(context.rollout, members.agents, units, order.to(self.device).expand(-1, count, -1))
            for part in rows.split(len(units) // batches, 2)[:batches]:
                statistics = step(part)
                if self.on_step is not None:
                    self.on_step(turn, statistics)
        self._log_ratio = None

    def members(self, turn: Turn) -> TurnAgents:
        """The agents that take part in a turn, with defaults filled in."""
        agents = turn.agents
        if agents is None:
            agents = torch.arange(self.spec.agents, device=self.device).expand(self.replicas, -1)
        clip_range = turn.clip_range
        if clip_range is None:
            clip_range = torch.full(agents.shape, self.settings.clip, device=self.device)
        members = turn_agents(self.sharing, self.used(), agents, turn.learners, turn.go, clip_range, turn.others)
        now = {name: torch.tensor(getattr(self.settings, name), device=self.device) for name in self.schedules}
        return members._replace(varying=now)

    def _inputs(self, turn: Turn) -> dict[str, Tensor]:
        """`Turn.inputs` as tensors that broadcast to a minibatch."""
        given = {name: torch.as_tensor(x, dtype=torch.float32, device=self.device) for name, x in turn.inputs.items()}
        whole = {name: x if x.dim() == 4 else x.expand(self.replicas)[:, None, None, None] for name, x in given.items()}
        return {name: x.clone() for name, x in whole.items()}  # inputs of a compiled step share no memory

    @cached_property
    def _everyone(self) -> TurnAgents:
        """All agents. Cached: making it copies to the device, for which the CPU would wait."""
        return self.members(Turn(1))

    def std(self) -> Tensor | None:
        """Current σ of every agent, [R, 1, 1, A, d]; None for categorical actions."""
        if self.spec.action.kind != "gaussian":
            return None
        psi = self.actor.head_layout.views(self.stepper.parameters.head.detach())["head.log_std"]
        return self.actor.std(psi[:, list(self.sharing.head)]).movedim(1, 3)

    def used(self) -> Tensor | None:
        """1 for action dimensions of an agent that exist, 0 for padding, [A, d]; None where all exist."""
        action = self.spec.action
        if action.used is None:
            return None
        return (torch.arange(action.width) < torch.tensor(action.used)[:, None]).float().to(self.device)

    @torch.no_grad()
    def _evaluate(self, rollout: Rollout) -> Tensor:
        """Compute and keep the log ratios of the whole rollout; returns the exact KL(π ‖ π_k), mean over samples [R,
        A]."""
        everyone = self._everyone
        variant = StepVariant("own", None, "actor", True)
        units = unit_rows(rollout, self.settings)
        trunks, heads, _ = self.stepper.parameters
        layers = self.actor.layers(self.actor.rows(trunks, heads, self.stepper.owners(everyone, variant)))
        ratios, divergences = [], []
        every = agent_rows(rollout, everyone.agents, units, None)
        for rows in every.split(min(max(1, EVALUATION_ROWS // units.shape[1]), self.stepper.slice_units(every)), 2):
            log_ratio, divergence = self.compare(layers, rollout, everyone, self._old_std, rows)
            ratios.append(log_ratio)
            divergences.append(divergence)
        replicas, times, slots, agents = rollout.log_prob.shape
        log_ratio = torch.cat(ratios, 2).view(replicas, agents, slots, times)
        self._log_ratio = log_ratio.permute(0, 3, 2, 1).contiguous()
        return torch.cat(divergences, 2).flatten(2).mean(-1)

    @torch.no_grad()
    def compare(
        self, layers: dict[str, Tensor], rollout: Rollout, members: TurnAgents, old_std: Tensor | None, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log π/π_k of the actions at `rows`, and KL(π ‖ π_k), [R, K, units, L] each; old_std: σ of π_k."""
        keep = pick(rollout.keep[..., None, None].expand(*rollout.log_prob.shape, 1), rows)[..., 0]
        new, _ = self.actor.distribution(
            layers,
            pick(rollout.observation, rows),
            pick_available(rollout.available, rows),
            pick_first(rollout.hidden_actor, rows),
            keep,
        )
        log_prob = self.actor.log_prob(new, pick(rollout.action, rows), members.used)
        location = pick(rollout.location, rows)
        before = Distribution(location, None if old_std is None else old_std.movedim(3, 1).expand_as(location))
        return log_prob - pick(rollout.log_prob[..., None], rows)[..., 0], self.actor.kl(new, before, members.used)

    def _divergence(self, rollout: Rollout, turn: Turn) -> dict[str, Tensor]:
        """KL(π ‖ π_k) after a turn, for the agents that learned in it; named numbers [R] for iterations.csv."""
        divergence = self._evaluate(rollout)
        if turn.agents is None and turn.learners is None:
            return {f"kl_turn{turn.ordinal}_agent{a}": divergence[:, a] for a in range(self.spec.agents)}
        agents = turn.agents
        if agents is None or turn.learners is not None:
            assert turn.learners is not None
            mean = (divergence * turn.learners).sum(1) / turn.learners.sum(1)
            return {
                f"kl_turn{turn.ordinal}": mean,
                f"agent_turn{turn.ordinal}": turn.learners.float().argmax(1).float(),
            }
        return {
            f"kl_turn{turn.ordinal}": divergence.gather(1, agents).mean(1),
            f"agent_turn{turn.ordinal}": agents[:, 0].float(),
        }


STATISTICS = (
    "policy_loss",
    "entropy",
    "value_loss",
    "ratio",
    "clip_fraction",
    "actor_gradient_norm",
    "critic_gradient_norm",
)
CRITIC_STATISTICS = ("value_loss", "critic_gradient_norm")


def explained_variance(context: Context) -> Tensor:
    """1 − Var(G − V)/Var(G) over all samples of a replica."""
    returns, error = context.returns.flatten(1), (context.returns - context.value).flatten(1)
    return 1 - error.var(1, correction=0) / returns.var(1, correction=0).clamp(min=1e-12)
