"""Made-up rollouts: random observations, actions drawn from a learner's own policy, random rewards and deaths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.algorithms.sequential import A2poSettings, HappoSettings
from fp3o.algorithms.simultaneous import CoppoSettings
from fp3o.algorithms.turns import Rollout, Turn
from fp3o.config.settings import Settings, with_own
from fp3o.envs.interface import ActionSpec, EnvSpec
from fp3o.learner.state import Parameters
from fp3o.learner.step import Stepper, Steps, StepVariant
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing

GAUSSIAN = ActionSpec("gaussian", (2,))
CATEGORICAL = ActionSpec("categorical", (5,))
MULTI_DISCRETE = ActionSpec("categorical", (3, 4))
ACTIONS = {"gaussian": GAUSSIAN, "categorical": CATEGORICAL, "multi-discrete": MULTI_DISCRETE}

# Small and quick, with steps large enough that a mistake shows.
SETTINGS = with_own(Settings, Fp3oSettings, CoppoSettings, HappoSettings, A2poSettings)(
    rollout_length=12,
    rollout_threads=2,
    epochs=2,
    epochs_dependent=2,
    minibatches=2,
    actor_lr=3e-3,
    critic_lr=3e-3,
    entropy_coef=0.01,
    hidden_size=8,
    chunk_length=4,
)


def make_spec(agents: int = 3, action: ActionSpec = GAUSSIAN, observation: int = 5, state: int = 6) -> EnvSpec:
    return EnvSpec(agents, observation, state, action, 25, tuple(i % 2 for i in range(agents)))


def make_learner(
    algorithm: str,
    kind_of_sharing: str = "full",
    settings: Settings = SETTINGS,
    seeds: Sequence[int] = (0,),
    spec: EnvSpec | None = None,
    wrap: Callable[[Stepper], Steps] = lambda stepper: stepper,
) -> Learner:
    spec = make_spec() if spec is None else spec
    owners = sharing(kind_of_sharing, spec.agent_types)
    return Learner.fresh(spec, owners, algorithm, settings, seeds, wrap=wrap)


def make_rollout(
    learner: Learner,
    seeds: Sequence[int] = (0,),
    iteration: int = 0,
    deaths: bool = False,
    starts_episodes: bool = True,
) -> Rollout:
    """What a seed contributes depends on the seed, the iteration and its own replica's parameters alone."""
    parts = [_of_one(learner, seed, iteration, deaths, starts_episodes) for seed in seeds]
    rollout = Rollout._make(None if x[0] is None else torch.stack(x) for x in zip(*parts, strict=True))
    return _played(learner, rollout)


def stack(rollouts: Sequence[Rollout]) -> Rollout:
    """Rollouts of single replicas as one of many."""
    return Rollout._make(None if x[0] is None else torch.cat(x) for x in zip(*rollouts, strict=True))


def stack_parameters(learners: Sequence[Learner]) -> Parameters:
    return Parameters(*(torch.cat(x).detach() for x in zip(*(a.stepper.parameters for a in learners), strict=True)))


def with_settings(settings: Settings = SETTINGS, **changes: object) -> Settings:
    return replace(settings, **changes)  # type: ignore[arg-type]


def _of_one(learner: Learner, seed: int, iteration: int, deaths: bool, starts_episodes: bool) -> Rollout:
    spec, settings = learner.spec, learner.settings
    source = np.random.default_rng([seed, iteration])
    times, slots, agents, action = settings.rollout_length, settings.rollout_threads, spec.agents, spec.action
    lead = (times, slots, agents)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(source.standard_normal(shape, dtype=np.float32))

    ends = source.random((times, slots)) < 0.15
    keep = np.ones((times, slots), dtype=np.float32)
    keep[1:][ends[:-1]] = 0
    if starts_episodes:
        keep[0] = 0
    alive = np.ones(lead, dtype=np.float32)
    if deaths:
        alive[source.random(lead) < 0.2] = 0
    available, actions = None, normal(*lead, action.width)
    if action.kind == "categorical":
        legal = source.random((*lead, action.parameters)) < 0.7
        first = np.cumsum([0, *action.sizes[:-1]])
        legal[..., first] = True  # every sub-action keeps a choice
        available = torch.from_numpy(legal)
        drawn = [
            np.where(source.random(lead) < 0.5, 0, np.argmax(part * source.random(part.shape), -1))
            for part in np.split(legal, first[1:], axis=-1)
        ]
        actions = torch.from_numpy(np.stack(drawn, -1).astype(np.float32))
    size = learner.critic.trunk.inputs
    hidden = [
        0.5 * normal(*lead, trunk.memory) for trunk in (learner.actor.trunk, learner.critic.trunk) if trunk.memory
    ]
    for state in hidden if starts_episodes else ():
        state[0] = 0
    return Rollout(
        observation=normal(*lead, spec.observation_size),
        state=normal(*lead, size),
        action=actions,
        log_prob=torch.zeros(lead),
        available=available,
        hidden_actor=hidden[0] if hidden else None,
        hidden_critic=hidden[1] if hidden else None,
        location=torch.zeros(*lead, action.parameters),
        reward=(normal(times, slots, 1) + 0.3 * normal(*lead)),
        alive=torch.from_numpy(alive),
        keep=torch.from_numpy(keep),
        continues=torch.from_numpy(1 - ends.astype(np.float32)),
        value=0.5 * normal(*lead),
        next_value=0.5 * normal(slots, agents),
    )


@torch.no_grad()
def _played(learner: Learner, rollout: Rollout) -> Rollout:
    """With log-probabilities, distributions and hidden states of the learner's policy as it stands, step by step."""
    everyone = learner.members(Turn(1))
    owners = learner.stepper.owners(everyone, StepVariant("own", None, "actor", True))
    trunks, heads, _ = learner.stepper.parameters
    layers = learner.actor.layers(learner.actor.rows(trunks, heads, owners))
    hidden = None if rollout.hidden_actor is None else rollout.hidden_actor[:, 0].transpose(1, 2)
    played = []
    for time in range(rollout.log_prob.shape[1]):

        def now(x: Tensor, time: int = time) -> Tensor:  # [R, T, N, A, …] → [R, A, N, 1, …]
            return x[:, time].transpose(1, 2)[:, :, :, None]

        before = hidden
        keep = now(rollout.keep[..., None].expand_as(rollout.log_prob))
        available = None if rollout.available is None else now(rollout.available)
        distribution, hidden = learner.actor.distribution(layers, now(rollout.observation), available, hidden, keep)
        action = now(rollout.action)
        if distribution.std is not None:
            action = distribution.location + distribution.std * action
        log_prob = learner.actor.log_prob(distribution, action, everyone.used)
        row = {"action": action, "log_prob": log_prob, "location": distribution.location}
        if before is not None:
            row["hidden_actor"] = before[:, :, :, None]
        played.append({name: x[:, :, :, 0].transpose(1, 2) for name, x in row.items()})
    return rollout._replace(**{name: torch.stack([row[name] for row in played], 1) for name in played[0]})
