"""The fast learner does what the plain one does: same start, same rollouts, same minibatches, same parameters after.

Two iterations in float64, so that Adam's moments and the value normaliser count too. Distances are relative to how far
the parameters moved. Measured: 4e-14 at most over all cases; 3e-3 at least where a hyper-parameter is a little off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import pytest
import torch
from synthetic import ACTIONS, SETTINGS, make_learner, make_rollout, make_spec, with_settings
from torch import Tensor, nn

from fp3o.algorithms import turns
from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.config.settings import Settings, own
from fp3o.config.sharings import SHARINGS
from fp3o.learner.randomness import Draws
from fp3o.learner.state import Parameters
from fp3o.learner.update import Learner
from fp3o.networks.stacked import ParameterLayout
from fp3o.reference.common import Actor, CategoricalHead, Critic, GaussianHead, Hyperparameters, Rollout, trunk
from fp3o.reference.fp3o import FP3O
from fp3o.reference.happo import HAPPO
from fp3o.reference.mappo import MAPPO
from fp3o.reference.ppo import PPO

pytestmark = pytest.mark.usefixtures("learner_in_double")

TOLERANCE = 1e-9
HEADS = {"gaussian": GaussianHead, "categorical": CategoricalHead}
# Steps so large and bounds so tight that every clip is in force.
SMALL = with_settings(SETTINGS, actor_lr=1e-2, critic_lr=1e-2, gradient_clip=0.3, huber_delta=0.5, entropy_coef=0.02)
SEEDS = (0, 1)

Plain = PPO | MAPPO | HAPPO | FP3O


def hyperparameters(settings: Settings) -> Hyperparameters:
    return Hyperparameters(**{f.name: getattr(settings, f.name) for f in fields(Hyperparameters)})


class Twin:
    """Plain networks that start where one replica of a learner stands, one object per row of its buffers."""

    def __init__(self, learner: Learner, replica: int) -> None:
        spec, sharing, hidden = learner.spec, learner.sharing, learner.settings.hidden_size
        head = HEADS[spec.action.kind]
        self.trunks: list[nn.Module] = [trunk(spec.observation_size, hidden) for _ in range(sharing.trunks)]
        self.heads: list[nn.Module] = [head(hidden, spec.action.parameters) for _ in range(sharing.heads)]
        own_critics = [Critic(spec.state_size, hidden) for _ in range(sharing.trunks)]
        self.parts: tuple[list[nn.Module], ...] = (self.trunks, self.heads, [*own_critics])
        self.layouts = learner.actor.trunk_layout, learner.actor.head_layout, learner.critic.layout
        for modules, layout, rows in zip(self.parts, self.layouts, learner.stepper.parameters, strict=True):
            for module, row in zip(modules, rows[replica], strict=True):
                tie(module, layout, row)
        own_actors = [Actor(self.trunks[t], h) for t, h in zip(sharing.trunk_of_head, self.heads, strict=True)]
        self.actors = [own_actors[h] for h in sharing.head]
        self.critics = [own_critics[t] for t in sharing.trunk]

    def flat(self) -> Parameters:
        """As rows of a learner's buffers."""
        return Parameters(*(torch.stack([row(module) for module in modules]) for modules in self.parts))


def weights(module: nn.Module) -> list[nn.Parameter]:
    """In the order of the learner's buffers: ψ, a head's own parameter, after those of its layer."""
    return [w for _, w in sorted(module.named_parameters(), key=lambda named: named[0] == "psi")]


@torch.no_grad()
def tie(module: nn.Module, layout: ParameterLayout, row: Tensor) -> None:
    for weight, view in zip(weights(module), layout.views(row).values(), strict=True):
        weight.copy_(view.T if view.dim() == 2 else view)


def row(module: nn.Module) -> Tensor:
    return torch.cat([(w.T if w.dim() == 2 else w).detach().flatten() for w in weights(module)])


def lived_through(rollout: turns.Rollout, replica: int, agent: int) -> Rollout:
    """One agent's part of a replica's rollout."""

    def own(x: Tensor) -> Tensor:  # [R, T, N, A, …]
        return x[replica, :, :, agent]

    return Rollout(
        observation=own(rollout.observation),
        available=None if rollout.available is None else own(rollout.available),
        action=own(rollout.action) if rollout.available is None else own(rollout.action)[..., 0],
        log_prob=own(rollout.log_prob),
        alive=own(rollout.alive),
        reward=own(rollout.reward),
        continues=rollout.continues[replica],
        state=own(rollout.state),
        value=own(rollout.value),
        next_value=rollout.next_value[replica, :, agent],
    )


def orders(learner: Learner, seed: int, iteration: int, sequential: bool = False) -> Callable[[int], Tensor]:
    """The learner's permutations, one per agent and epoch; it counts samples environment by environment.

    sequential: one agent per turn, instead of two turns of all.
    """
    s, draws = learner.settings, Draws((seed,), iteration)
    times, slots, agents = s.rollout_length, s.rollout_threads, learner.spec.agents
    lengths, count = (
        ((s.epochs,) * agents, 1) if sequential else ((s.epochs, own(s, Fp3oSettings).epochs_dependent), agents)
    )

    def every() -> Iterator[Tensor]:
        for turn, epochs in enumerate(lengths):
            for epoch in range(epochs):
                yield from draws.permutations(turn, epoch, count, times * slots)[0]

    source = every()

    def permutation(count: int) -> Tensor:
        order = next(source)
        assert len(order) == count
        return order % times * slots + order // times

    return permutation


def ppo(twin: Twin, p: Hyperparameters) -> PPO:
    (actor,), (critic,) = twin.actors, twin.critics
    return PPO(actor, critic, p)


def mappo(twin: Twin, p: Hyperparameters) -> MAPPO:
    return MAPPO(twin.actors, twin.critics, p)


def happo(twin: Twin, p: Hyperparameters) -> HAPPO:
    return HAPPO(twin.actors, twin.critics, p)


def fp3o(twin: Twin, p: Hyperparameters) -> FP3O:
    return FP3O(twin.actors, twin.critics, p)


def run(
    learner: Learner, build: Callable[[Twin, Hyperparameters], Plain], iterations: int = 2, **changes: float
) -> tuple[float, list[bool]]:
    """Some iterations of both, replica by replica: their largest relative distance, and where the gate was open."""
    settings = replace(hyperparameters(learner.settings), **changes)  # type: ignore[arg-type]
    seeds = SEEDS[: learner.replicas]
    twins = [Twin(learner, replica) for replica in range(learner.replicas)]
    plain = [build(twin, settings) for twin in twins]
    starts = [twin.flat() for twin in twins]
    gates: list[bool] = []
    for iteration in range(iterations):
        rollout = make_rollout(learner, seeds, iteration, deaths=True)
        # Agents of every other replica want opposite things: improving alone makes the joint worse.
        rollout.reward[1::2, ..., 1::2] *= -1
        records = learner.update(rollout, Draws(seeds, iteration))
        for replica, (seed, algorithm) in enumerate(zip(seeds, plain, strict=True)):
            parts = [lived_through(rollout, replica, agent) for agent in range(learner.spec.agents)]
            permutation = orders(learner, seed, iteration, isinstance(algorithm, HAPPO))
            if isinstance(algorithm, PPO):
                algorithm.update(parts[0], permutation)
            elif isinstance(algorithm, HAPPO):
                algorithm.update(
                    parts, Draws((seed,), iteration).uniform(learner.spec.agents)[0].argsort(), permutation
                )
            else:
                go = algorithm.update(parts, permutation)
                if go is not None:
                    gates.append(go)
        if "go" in records and not changes:
            assert gates[-len(seeds) :] == (records["go"] > 0).tolist()
    distances = []
    for replica, (twin, start) in enumerate(zip(twins, starts, strict=True)):
        for ours, theirs, before in zip(learner.stepper.parameters, twin.flat(), start, strict=True):
            assert ours.dtype == theirs.dtype == torch.float64
            assert (theirs - before).abs().max() > 0.01
            distances.append(((ours[replica] - theirs).abs().max() / (theirs - before).abs().max()).item())
    return max(distances), gates


def small(
    algorithm: str, sharing: str, action: str, agents: int = 3, seeds: int = 2, settings: Settings = SMALL
) -> Learner:
    return make_learner(algorithm, sharing, settings, SEEDS[:seeds], make_spec(agents, ACTIONS[action]))


HAPPO_SETTINGS = with_settings(SMALL, head_lr_scale="one", agent_order="random", happo_before="turn")


@pytest.mark.parametrize("action", HEADS)
def test_ppo(action: str) -> None:
    assert run(small("mappo", "none", action, agents=1), ppo)[0] < TOLERANCE


@pytest.mark.parametrize("action", HEADS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_mappo(sharing: str, action: str) -> None:
    assert run(small("mappo", sharing, action), mappo)[0] < TOLERANCE


@pytest.mark.parametrize("action", HEADS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_fp3o(sharing: str, action: str) -> None:
    distance, gates = run(small("fp3o", sharing, action), fp3o)
    assert distance < TOLERANCE
    assert {*gates} == {True, False}, "the made-up data should have the gate open and shut"


@pytest.mark.parametrize("action", HEADS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_happo(sharing: str, action: str) -> None:
    assert run(small("happo", sharing, action, settings=HAPPO_SETTINGS), happo)[0] < TOLERANCE


class Forgetful(HAPPO):
    """Turns that ignore what the agents before have changed."""

    def _turn(self, i, samples, factor, permutation) -> None:  # type: ignore[no-untyped-def]
        super()._turn(i, samples, torch.ones_like(factor), permutation)


def test_a_missing_factor_is_noticed() -> None:
    learner = small("happo", "full", "gaussian", seeds=1, settings=HAPPO_SETTINGS)
    distance, _ = run(learner, lambda twin, p: Forgetful(twin.actors, twin.critics, p), iterations=1)
    assert distance > 1000 * TOLERANCE


def test_fp3o_of_two_agents() -> None:
    """Nobody is left besides i and j."""
    assert run(small("fp3o", "partial", "categorical", agents=2), fp3o)[0] < TOLERANCE


CHANGES = {
    "epochs": 1,
    "epochs_dependent": 1,
    "minibatches": 3,
    "clip": 0.21,
    "gamma": 0.98,
    "gae_lambda": 0.94,
    "actor_lr": 1.01e-2,
    "critic_lr": 1.01e-2,
    "adam_eps": 1.1e-5,
    "entropy_coef": 0.021,
    "gradient_clip": 0.31,
    "huber_delta": 0.51,
}


@pytest.mark.parametrize("name", [f.name for f in fields(Hyperparameters)])
def test_another_hyperparameter_is_noticed(name: str) -> None:
    learner = small("fp3o", "partial", "gaussian", seeds=1)
    distance, gates = run(learner, fp3o, iterations=1, **{name: CHANGES[name]})
    assert gates == [True]
    assert distance > 1000 * TOLERANCE


class Unweighted(FP3O):
    """A dependent step that forgets the others' ratios."""

    def _solve(self, samples, frozen, epochs, permutation) -> None:  # type: ignore[no-untyped-def]
        super()._solve(samples, torch.ones_like(frozen), epochs, permutation)


def test_a_missing_weight_is_noticed() -> None:
    learner = small("fp3o", "none", "gaussian", seeds=1)
    distance, gates = run(learner, lambda twin, p: Unweighted(twin.actors, twin.critics, p), iterations=1)
    assert gates == [True]
    assert distance > 1000 * TOLERANCE


@pytest.mark.parametrize("action", HEADS)
def test_networks_start_alike(action: str) -> None:
    """Orthogonal weights with the same gains, the same constants elsewhere."""
    learner = small("mappo", "none", action)
    fresh = trunk(5, 8), HEADS[action](8, learner.spec.action.parameters), Critic(6, 8)
    layouts = learner.actor.trunk_layout, learner.actor.head_layout, learner.critic.layout
    for module, layout, rows in zip(fresh, layouts, learner.stepper.parameters, strict=True):
        for weight, view in zip(weights(module), layout.views(rows[0, 0]).values(), strict=True):
            ours, theirs = (torch.linalg.svdvals(x) if x.dim() == 2 else x for x in (view, weight))
            torch.testing.assert_close(ours, theirs)
