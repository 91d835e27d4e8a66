"""Made-up rollouts: random observations, actions drawn from a learner's own policy, random rewards and deaths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fp3o.algorithms.turns import Rollout, Turn
from fp3o.envs.protocol import ActionSpec, EnvSpec
from fp3o.networks.sharing import sharing
from fp3o.settings import Settings
from fp3o.training.step import Compiler, Kind, Parameters
from fp3o.training.update import Learner, initialise, networks

GAUSSIAN = ActionSpec("gaussian", (2,))
CATEGORICAL = ActionSpec("categorical", (5,))
MULTI_DISCRETE = ActionSpec("categorical", (3, 4))
ACTIONS = {"gaussian": GAUSSIAN, "categorical": CATEGORICAL, "multi-discrete": MULTI_DISCRETE}

# Small and quick, with steps large enough that a mistake shows.
SETTINGS = Settings(
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
    compiler: Compiler = lambda function: function,
) -> Learner:
    spec = make_spec() if spec is None else spec
    owners = sharing(kind_of_sharing, spec.agent_types)
    actor, critic = networks(spec, owners, algorithm, settings)
    return Learner(spec, owners, algorithm, settings, initialise(actor, critic, seeds), compiler=compiler)


def make_rollout(
    learner: Learner,
    seeds: Sequence[int] = (0,),
    iteration: int = 0,
    deaths: bool = False,
    starts_episodes: bool = True,
) -> Rollout:
    """What a seed contributes depends on the seed, the iteration and its own replica's parameters alone."""
    parts = [_of_one(learner, seed, iteration, deaths, starts_episodes) for seed in seeds]
    rollout = Rollout(*(None if x[0] is None else torch.stack(x) for x in zip(*parts, strict=True)))
    return _played(learner, rollout)


def stack(rollouts: Sequence[Rollout]) -> Rollout:
    """Rollouts of single replicas as one of many."""
    return Rollout(*(None if x[0] is None else torch.cat(x) for x in zip(*rollouts, strict=True)))


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
    size = learner.critic.state_size
    width = settings.hidden_size
    hidden = 0.5 * normal(2, *lead, width) if settings.recurrent else None
    if hidden is not None and starts_episodes:
        hidden[:, 0] = 0
    return Rollout(
        observation=normal(*lead, spec.observation_size),
        state=normal(*lead, size),
        action=actions,
        log_prob=torch.zeros(lead),
        available=available,
        hidden_actor=None if hidden is None else hidden[0],
        hidden_critic=None if hidden is None else hidden[1],
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
    """With the log-probabilities and distributions of the learner's policy as it stands; Gaussian actions around it."""
    everyone = learner.crew(Turn(1))
    owners = learner.stepper.owners(everyone, Kind("own", None, "actor", True))
    parameters = learner.stepper.parameters

    def by_agent(x: Tensor) -> Tensor:  # [R, T, N, A, …] → [R, A, T·N, 1, …]
        return x.movedim(3, 1).flatten(2, 3)[:, :, :, None]

    agents, (times, slots) = learner.spec.agents, rollout.log_prob.shape[1:3]

    def by_time(x: Tensor) -> Tensor:
        return x[:, :, :, 0].unflatten(2, (times, slots)).movedim(1, 3).contiguous()

    hidden = None if rollout.hidden_actor is None else by_agent(rollout.hidden_actor)[:, :, :, 0]
    distribution, _ = learner.actor.distribution(
        parameters.trunk,
        parameters.head,
        owners,
        by_agent(rollout.observation),
        None if rollout.available is None else by_agent(rollout.available),
        hidden,
        by_agent(rollout.keep[..., None].expand(-1, -1, -1, agents)),
    )
    action = by_agent(rollout.action)
    if distribution.std is not None:
        action = distribution.location + distribution.std * action
    log_prob = learner.actor.log_prob(distribution, action, everyone.used)
    return rollout._replace(action=by_time(action), log_prob=by_time(log_prob), location=by_time(distribution.location))
