"""The cooperative multi-agent particle tasks (MPE) as a NumPy batch, in two flavours that have the same task names.

`mappo`: as in on-policy (MAPPO's code), the paper's environment. `mpe2`: as in the maintained package of that name.
They differ in integrator, order of moves, reward, start of the landmarks and in how the 25 steps end. Positions and
velocities are float64 and operations have the originals' order, so results are equal to the originals' bit for bit.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MpeOptions
from fp3o.envs.array_engine import ArrayEngine, Outcome
from fp3o.envs.checks import checked_choices
from fp3o.envs.interface import ActionSpec, BatchEnv, Bools, Doubles, EnvSpec, Snapshot
from fp3o.errors import unknown

HORIZON = 25
TIME_STEP = 0.1
KEPT_VELOCITY = 0.75  # damping 0.25
PUSH = 5.0  # force of a move; mass 1
LANDMARKS = 3
# Contact of agents, simple-spread only: penetration k·log(1 + exp(−(distance − 2·radius)/k)).
RADIUS = 0.15
CONTACT_FORCE = 1e2
CONTACT_MARGIN = 1e-3


@dataclass(frozen=True)
class Flavour:
    """What differs between the two flavours, for all tasks."""

    velocity_first: bool
    """True: positions move with the new velocity (on-policy). False: with that of the previous step (mpe2)."""
    moves: tuple[tuple[int, int], ...]
    """Direction of the moves 0 … 4."""
    team_reward: bool
    """True: every agent gets the sum of all agents' rewards. False: its own."""
    horizon_terminates: bool
    """True: the 25th step terminates the episode. False: it truncates it."""
    landmark_scale: dict[str, float]
    """By task: landmarks start uniformly in ± this."""


FLAVOURS: dict[Literal["mappo", "mpe2"], Flavour] = {
    "mappo": Flavour(
        velocity_first=True,
        moves=((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)),
        team_reward=True,
        horizon_terminates=True,
        landmark_scale={"simple-reference": 0.8, "simple-speaker-listener": 1.0, "simple-spread": 0.8},
    ),
    "mpe2": Flavour(
        velocity_first=False,
        moves=((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)),
        team_reward=False,
        horizon_terminates=False,
        landmark_scale={"simple-reference": 1.0, "simple-speaker-listener": 1.0, "simple-spread": 1.0},
    ),
}


@dataclass(frozen=True)
class Shapes:
    """Sizes of a task's observations and actions."""

    observation: tuple[int, ...]
    """Features of each agent, without padding and agent number."""
    sizes: tuple[int, ...]
    """Choices per sub-action, padded."""
    choices: tuple[tuple[int, ...], ...]
    """Choices per sub-action of each agent, without padding."""
    agent_types: tuple[int, ...]


class Particles(ArrayEngine):
    """N worlds (slots) that advance together; all episodes have 25 steps.

    Internal arrays have the worlds as last axis, so that NumPy's inner loops run over N instead of over x and y.
    """

    domain = "mpe"
    shapes: Shapes

    def __init__(self, task: str, slots: int, auto_reset: bool, options: MpeOptions) -> None:
        shapes, agents = self.shapes, len(self.shapes.observation)
        self._flavour = FLAVOURS[options.flavour]
        self._landmark_scale = self._flavour.landmark_scale[task]
        width, joint = max(shapes.observation), sum(shapes.observation)
        spec = EnvSpec(
            agents=agents,
            observation_size=width + agents * options.agent_id,
            state_size=joint + agents * options.critic_agent_id,
            action=ActionSpec("categorical", shapes.sizes, choices=shapes.choices),
            episode_limit=HORIZON,
            agent_types=shapes.agent_types,
            agent_id=options.agent_id,
        )
        super().__init__(task, spec, slots, auto_reset, options)
        self.share_of_agent = 1.0 / agents
        choices = np.array(shapes.choices, dtype=np.int64)
        self._choices = np.tile(choices, (slots, 1, 1))
        self._push_x, self._push_y = PUSH * np.array(self._flavour.moves, dtype=np.float64).T.copy()
        self._position = np.zeros((agents, 2, slots))
        self._velocity = np.zeros((agents, 2, slots))
        self._landmark = np.zeros((LANDMARKS, 2, slots))
        self._never = np.zeros(slots, dtype=np.bool_)
        identities = np.eye(agents, dtype=np.float32)
        self._observation = np.zeros((slots, agents, spec.observation_size), dtype=np.float32)
        self._state = np.zeros((slots, agents, spec.state_size), dtype=np.float32)
        if options.agent_id:
            self._observation[:, :, width:] = identities
        if options.critic_agent_id:
            self._state[:, :, joint:] = identities
        # The features of all agents concatenated, and where each agent's go in the snapshot.
        self._features = np.zeros((joint, slots), dtype=np.float32)
        ends = np.cumsum(shapes.observation)
        self._own = [self._features[end - size : end] for size, end in zip(shapes.observation, ends, strict=True)]
        self._shown = [self._observation[:, agent, :size].T for agent, size in enumerate(shapes.observation)]
        self._joint = [self._state[:, agent, :joint].T for agent in range(agents)]
        legal = [np.arange(size) < choices[:, part, None] for part, size in enumerate(shapes.sizes)]
        available = np.tile(np.concatenate(legal, axis=1), (slots, 1, 1))
        self._view = Snapshot(self._observation, self._state, np.ones((slots, agents), dtype=np.bool_), available)

    @abstractmethod
    def _read(self, actions: NDArray[np.int64]) -> Doubles:
        """Store the words of these actions and return the forces on agents, [A, 2, N]."""

    @abstractmethod
    def _reward_of_agents(self) -> Doubles:
        """Each agent's own reward in the current state, [A, N]."""

    @abstractmethod
    def _observe(self) -> None:
        """Write the features of all agents for the current state."""

    def _pushes(self, moves: NDArray[np.int64]) -> Doubles:
        """Forces […, 2, N] of moves [N, …]."""
        moves = moves.T
        force = np.empty((*moves.shape[:-1], 2, self.slots))
        force[..., 0, :] = self._push_x.take(moves)
        force[..., 1, :] = self._push_y.take(moves)
        return force

    def _scatter(self, rows: NDArray[np.int64], goals: int) -> Doubles:
        """Place agents and landmarks of these worlds at random; returns random numbers [goals, rows], for goals."""
        agents = self.spec.agents
        drawn = self._uniforms(rows, goals + 2 * (agents + LANDMARKS))
        place = 2.0 * drawn[goals:].reshape(agents + LANDMARKS, 2, len(rows)) - 1.0
        self._position[..., rows] = place[:agents]
        self._landmark[..., rows] = self._landmark_scale * place[agents:]
        self._velocity[..., rows] = 0.0
        return drawn[:goals]

    def _advance(self, actions: NDArray[Any], running: Bools) -> Outcome:
        chosen = checked_choices(actions, self._choices)
        frozen = () if running.all() else tuple((a, a[~running]) for a in self._arrays().values())
        force = self._read(chosen)
        if self._flavour.velocity_first:
            self._accelerate(force)
            self._position += self._velocity * TIME_STEP
        else:
            self._position += self._velocity * TIME_STEP
            self._accelerate(force)
        for array, kept in frozen:
            array[~running] = kept
        own = self._reward_of_agents()
        score = own.sum(axis=0)
        reward = np.empty((self.slots, self.spec.agents))
        reward.T[:] = score if self._flavour.team_reward else own
        self._show()
        over = self._lengths + 1 >= HORIZON
        if self._flavour.horizon_terminates:
            return Outcome(reward, score, over, self._never)
        return Outcome(reward, score, self._never, over)

    def _accelerate(self, force: Doubles) -> None:
        self._velocity *= KEPT_VELOCITY
        force *= TIME_STEP
        self._velocity += force

    def _show(self) -> None:
        self._observe()
        for shown, own in zip(self._shown, self._own, strict=True):
            shown[:] = own
        for joint in self._joint:
            joint[:] = self._features

    def _look(self) -> Snapshot:
        return self._view

    def _restored(self) -> None:
        self._show()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Views with the slots as first axis: [N, A, 2] and [N, landmarks, 2]."""
        inner = {"position": self._position, "velocity": self._velocity, "landmark": self._landmark}
        return {name: np.moveaxis(array, -1, 0) for name, array in inner.items()}

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "engine": f"particles-{self.options.flavour}"}


class _Guides(Particles):
    """Tasks in which an agent knows the landmark that another one has to reach, and can say a word to it."""

    words: int
    """Number of words in the vocabulary."""
    goals: int
    """Number of agents that have a goal."""
    colour: tuple[float, float]
    """Of a landmark: brightness of its own colour channel and of the other two."""
    hue_at: int
    """Index of the goal's colour in the features of the agent that knows the goal."""

    def __init__(self, task: str, slots: int, auto_reset: bool, options: MpeOptions) -> None:
        super().__init__(task, slots, auto_reset, options)
        # Before the first word is said: silence, encoded as one more word.
        self._word = np.full((self.goals, slots), self.words, dtype=np.int8)
        self._vocabulary = np.arange(self.words, dtype=np.int8)[:, None]
        self._goal = np.zeros((self.goals, slots), dtype=np.int64)
        self._target = np.zeros((self.goals, 2, slots))  # where the goal landmarks lie

    def _begin(self, rows: NDArray[np.int64]) -> None:
        drawn = self._scatter(rows, self.goals)
        self._goal[:, rows] = (drawn * LANDMARKS).astype(np.int64)
        self._word[:, rows] = self.words
        self._restored()

    def _restored(self) -> None:
        own, other = self.colour
        wanted = self._goal[:, None] == np.arange(LANDMARKS)[:, None]  # [goals, landmarks, N]
        for agent, hue in enumerate(np.where(wanted, own, other)):
            self._own[agent][self.hue_at : self.hue_at + 3] = hue  # stays until the next episode
        self._target[:] = np.take_along_axis(self._landmark[None], self._goal[:, None, None], axis=1)[:, 0]
        self._show()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), "word": self._word.T, "goal": self._goal.T}


class Reference(_Guides):
    """simple-reference: two agents; each knows the other's goal, and says one of ten words while it moves."""

    shapes = Shapes(observation=(21, 21), sizes=(5, 10), choices=((5, 10), (5, 10)), agent_types=(0, 0))
    words, goals, colour, hue_at = 10, 2, (0.75, 0.25), 8

    def _read(self, actions: NDArray[np.int64]) -> Doubles:
        self._word[:] = actions[:, :, 1].T
        return self._pushes(actions[:, :, 0])

    def _reward_of_agents(self) -> Doubles:
        distance = _squares(self._position[::-1] - self._target)
        if self._flavour.team_reward:
            return -distance
        own = -np.sqrt(distance)
        # Half the mean of both agents' rewards, half the agent's own (local_ratio = 0.5 in mpe2).
        mean: Doubles = (own[0] + own[1]) / 2
        return mean * 0.5 + own * 0.5

    def _observe(self) -> None:
        features = self._features.reshape(2, 21, self.slots)
        features[:, 0:2] = self._velocity
        features[:, 2:8] = (self._landmark - self._position[:, None]).reshape(2, 6, self.slots)
        features[:, 11:21] = self._word[::-1, None] == self._vocabulary


class SpeakerListener(_Guides):
    """simple-speaker-listener: agent 0 knows the goal and says one of three words; agent 1 hears it and moves."""

    shapes = Shapes(observation=(3, 11), sizes=(5,), choices=((3,), (5,)), agent_types=(0, 1))
    words, goals, colour, hue_at = 3, 1, (0.65, 0.15), 0

    def _read(self, actions: NDArray[np.int64]) -> Doubles:
        self._word[0] = actions[:, 0, 0]
        force = np.zeros((2, 2, self.slots))
        force[1] = self._pushes(actions[:, 1, 0])
        return force

    def _reward_of_agents(self) -> Doubles:
        distance = _squares(self._position[1:] - self._target)
        return np.repeat(-distance, 2, axis=0)

    def _observe(self) -> None:
        listener = self._own[1]
        listener[0:2] = self._velocity[1]
        listener[2:8] = (self._landmark - self._position[1]).reshape(6, self.slots)
        listener[8:11] = self._word == self._vocabulary


class Spread(Particles):
    """simple-spread: three agents should cover three landmarks without colliding."""

    shapes = Shapes(observation=(18,) * 3, sizes=(5,), choices=((5,),) * 3, agent_types=(0, 0, 0))
    _one_pair, _other_pair = np.array([0, 0, 1]), np.array([1, 2, 2])  # the two pairs of each agent

    def __init__(self, task: str, slots: int, auto_reset: bool, options: MpeOptions) -> None:
        super().__init__(task, slots, auto_reset, options)
        # For the pairs of agents (0, 1), (0, 2), (1, 2): vector from the second to the first, and its length.
        self._apart = np.zeros((3, 2, slots))
        self._distance = np.zeros((3, slots))

    def _begin(self, rows: NDArray[np.int64]) -> None:
        self._scatter(rows, 0)
        self._restored()

    def _restored(self) -> None:
        self._measure()
        self._show()

    def _measure(self) -> None:
        place, apart = self._position, self._apart
        np.subtract(place[0], place[1:], out=apart[:2])
        np.subtract(place[1], place[2], out=apart[2])
        self._distance = _lengths(apart)

    def _read(self, actions: NDArray[np.int64]) -> Doubles:
        force = self._pushes(actions[:, :, 0])
        depth = np.logaddexp(0.0, -(self._distance - 2 * RADIUS) / CONTACT_MARGIN) * CONTACT_MARGIN
        contact = CONTACT_FORCE * self._apart / self._distance[:, None] * depth[:, None]
        force[0] += contact[0]
        force[0] += contact[1]
        force[1] -= contact[0]
        force[1] += contact[2]
        force[2] -= contact[1]
        force[2] -= contact[2]
        return force

    def _reward_of_agents(self) -> Doubles:
        self._measure()
        nearest = _lengths(self._position[:, None] - self._landmark).min(axis=0)  # [landmarks, N]
        cover = -nearest[0] - nearest[1] - nearest[2]
        touching = (self._distance < 2 * RADIUS).astype(np.float64)
        one, other = touching[self._one_pair], touching[self._other_pair]  # [A, N]
        # on-policy lets each agent collide with itself as well: a constant −1.
        summed: Doubles = cover - 1.0 - one - other
        mixed: Doubles = cover * 0.5 - (one + other) * 0.5
        return summed if self._flavour.team_reward else mixed

    def _observe(self) -> None:
        features = self._features.reshape(3, 18, self.slots)
        place = self._position
        features[:, 0:2] = self._velocity
        features[:, 2:4] = place
        features[:, 4:10] = (self._landmark - place[:, None]).reshape(3, 6, self.slots)
        # The other two agents, in order. The last four features, their words, stay zero: they cannot speak.
        for agent, (one, two) in enumerate(((1, 2), (0, 2), (0, 1))):
            features[agent, 10:12] = place[one] - place[agent]
            features[agent, 12:14] = place[two] - place[agent]


def _squares(vectors: Doubles) -> Doubles:
    """Squared norm of […, 2, N], in the originals' order of operations."""
    square = np.square(vectors)
    total: Doubles = square[..., 0, :] + square[..., 1, :]
    return total


def _lengths(vectors: Doubles) -> Doubles:
    """Euclidean norm of […, 2, N]."""
    length: Doubles = np.sqrt(_squares(vectors))
    return length


TASKS: dict[str, type[Particles]] = {
    "simple-reference": Reference,
    "simple-speaker-listener": SpeakerListener,
    "simple-spread": Spread,
}


def make(task: str, slots: int, *, auto_reset: bool, threads: int, options: MpeOptions) -> BatchEnv:
    """N environments; `threads` is ignored, as a step of 128 worlds takes some 50 µs."""
    if task not in TASKS:
        raise unknown("task", task, TASKS, "mpe")
    if options.flavour not in FLAVOURS:
        raise unknown("flavour", options.flavour, FLAVOURS, f"mpe/{task}")
    return TASKS[task](task, slots, auto_reset, options)
