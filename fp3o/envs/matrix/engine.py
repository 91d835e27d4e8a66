"""Tiny cooperative games for tests and the tutorial: learned in seconds, with a best return that is known exactly.

A discrete game is a graph: for each joint choice at a node, a payoff and the next node.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fp3o.config.options import MatrixOptions
from fp3o.envs.array_engine import ArrayEngine, Outcome
from fp3o.envs.checks import checked_choices, checked_reals
from fp3o.envs.interface import ActionSpec, BatchEnv, Bools, Doubles, EnvSpec, Snapshot
from fp3o.errors import UserError, unknown

END = -1


@dataclass(frozen=True)
class Node:
    """One situation of a game: what agents see, what they may do, and the result of each joint choice."""

    payoff: NDArray[np.float64]
    """[choices of agent 0, …, choices of the last agent]: the team reward."""
    follows: NDArray[np.int64]
    """The same shape: the next node, or END."""
    sees: tuple[tuple[float, ...], ...] | None = None
    """Features of each agent; None: a one-hot of the node, for all agents."""
    legal: tuple[tuple[int, ...], ...] | None = None
    """Legal choices of each agent; None: all."""
    alive: tuple[bool, ...] | None = None
    """Which agents take part; None: all."""


@dataclass(frozen=True)
class Game:
    """A discrete game. An agent observes its features and its one-hot agent number."""

    choices: tuple[int, ...]
    """Number of choices of each agent."""
    nodes: tuple[Node, ...]
    starts: tuple[int, ...] = (0,)
    """Nodes at which episodes start, drawn uniformly."""
    limit: int = 2
    """Steps after which an episode is truncated."""


@dataclass(frozen=True)
class TargetGame:
    """A game of one step with Gaussian actions; reward: −(sum of all action dimensions − observed target)²."""

    dimensions: tuple[int, ...]
    """Action dimensions of each agent; shorter ones are padded."""


def _table(rows: ArrayLike, follows: ArrayLike = END, **more: Any) -> Node:
    payoff = np.asarray(rows, dtype=np.float64)
    return Node(payoff, np.broadcast_to(np.asarray(follows, dtype=np.int64), payoff.shape), **more)


def _agreement(agents: int, choices: int) -> NDArray[np.float64]:
    """1 if all choose 0, 0.4 if all make the same other choice, else 0.2: gradients at uniform play lead to 1."""
    payoff = np.full((choices,) * agents, 0.2)
    for choice in range(choices):
        payoff[(choice,) * agents] = 0.4
    payoff[(0,) * agents] = 1.0
    return payoff


def _single() -> Game:
    """One agent, three contexts in turn, two steps: the right choice equals the context."""
    nodes = tuple(
        _table(np.eye(3)[context], following)
        for context, following in ((0, 3), (1, 4), (2, 5), (1, END), (2, END), (0, END))
    )
    return Game((3,), nodes, starts=(0, 1, 2))


def _coordination(agents: int) -> Game:
    return Game((3,) * agents, (_table(_agreement(agents, 3)),), limit=1)


def _climbing() -> Game:
    """Claus & Boutilier's climbing game divided by 10: mis-coordination is punished, so learners settle for less."""
    return Game((3, 3), (_table([[1.1, -3.0, 0.0], [-3.0, 0.7, 0.6], [0.0, 0.0, 0.5]]),), limit=1)


def _two_step(agents: int) -> Game:
    """Agent 0's first choice decides the second matrix: a flat 0.4, or one worth 1 when everybody chooses 1."""
    first = np.ones((2,) * agents, dtype=np.int64)
    first[1] = 2
    share = np.sum(np.indices((2,) * agents), axis=0) / agents  # part of the agents that choose 1
    nodes = (
        _table(np.zeros((2,) * agents), first),
        _table(np.full((2,) * agents, 0.4)),
        _table(share),
    )
    return Game((2,) * agents, nodes)


def _masked() -> Game:
    """Both agents earn k when they agree on choice k of 0…3, but one of the four (seen by both) is forbidden."""
    payoff = np.diag([0.25, 0.5, 0.75, 1.0])
    nodes = tuple(_table(payoff, legal=(tuple(c for c in range(4) if c != forbidden),) * 2) for forbidden in range(4))
    return Game((4, 4), nodes, starts=(0, 1, 2, 3), limit=1)


def _uneven() -> Game:
    """Agent 0 sees one of three contexts and has to name it; agent 1 sees a constant and should choose 1 of 0, 1."""
    nodes = []
    for context in range(3):
        payoff = np.zeros((3, 2))
        payoff[context] += 0.4
        payoff[:, 1] += 0.4
        payoff[context, 1] = 1.0
        sees = (tuple(np.eye(3)[context].tolist()), (1.0,))
        nodes.append(_table(payoff, sees=sees))
    return Game((3, 2), tuple(nodes), starts=(0, 1, 2), limit=1)


def _leaving() -> Game:
    """Agent 1 leaves after the first step (only its choice 0 stays legal); agent 0 goes on alone."""
    together = _table(_agreement(2, 3), follows=1)
    alone = _table([[0] * 3, [0] * 3, [1] * 3], legal=((0, 1, 2), (0,)), alive=(True, False))
    return Game((3, 3), (together, alone))


def _endless() -> Game:
    """The coordination game again and again until the time limit of 4 cuts it: truncation, never termination."""
    return Game((3, 3), (_table(_agreement(2, 3), follows=0),), limit=4)


GAMES: dict[str, Game | TargetGame] = {
    "single": _single(),
    "coordination": _coordination(2),
    "coordination-3": _coordination(3),
    "climbing": _climbing(),
    "two-step": _two_step(2),
    "two-step-3": _two_step(3),
    "masked": _masked(),
    "uneven": _uneven(),
    "leaving": _leaving(),
    "endless": _endless(),
    "continuous": TargetGame((1, 1)),
    "continuous-uneven": TargetGame((1, 2)),
}


def _legal(game: Game, node: Node, agent: int) -> tuple[int, ...]:
    return tuple(range(game.choices[agent])) if node.legal is None else node.legal[agent]


def best_return(task: str) -> float:
    """The highest expected return of any joint policy, by exhaustive search."""
    game = _game(task)
    if isinstance(game, TargetGame):
        return 0.0

    @cache
    def value(number: int, steps_left: int) -> float:
        if number == END or not steps_left:
            return 0.0
        node = game.nodes[number]
        joint = itertools.product(*(_legal(game, node, agent) for agent in range(len(game.choices))))
        return max(float(node.payoff[c]) + value(int(node.follows[c]), steps_left - 1) for c in joint)

    return float(np.mean([value(start, game.limit) for start in game.starts]))


def _game(task: str) -> Game | TargetGame:
    if task not in GAMES:
        raise unknown("task", task, GAMES, "matrix")
    return GAMES[task]


class MatrixGames(ArrayEngine):
    """N copies of a discrete game; a step is a look-up in its tables."""

    domain = "matrix"

    def __init__(self, task: str, game: Game, slots: int, auto_reset: bool, options: MatrixOptions) -> None:
        agents, nodes, widest = len(game.choices), len(game.nodes), max(game.choices)
        features = [
            [np.eye(nodes)[number]] * agents if node.sees is None else [np.array(f) for f in node.sees]
            for number, node in enumerate(game.nodes)
        ]
        longest = max(len(f) for row in features for f in row)
        self._seen = np.zeros((nodes, agents, longest + agents), dtype=np.float32)  # [nodes, A, O]
        self._legal = np.zeros((nodes, agents, widest), dtype=np.bool_)  # [nodes, A, D]
        self._alive = np.ones((nodes, agents), dtype=np.bool_)  # [nodes, A]
        for number, node in enumerate(game.nodes):
            for agent in range(agents):
                self._seen[number, agent, : len(features[number][agent])] = features[number][agent]
                self._legal[number, agent, list(_legal(game, node, agent))] = True
            if node.alive is not None:
                self._alive[number] = node.alive
        self._seen[:, :, longest:] = np.eye(agents)
        # The critic sees the node itself, the same for every agent.
        self._state = np.repeat(np.eye(nodes, dtype=np.float32)[:, None], agents, axis=1)
        self._payoff = np.stack([node.payoff.reshape(-1) for node in game.nodes])  # [nodes, joint choices]
        self._follows = np.stack([node.follows.reshape(-1) for node in game.nodes])
        self._game = game
        self._choices = np.tile(np.array(game.choices, dtype=np.int64)[:, None], (slots, 1, 1))
        spec = EnvSpec(
            agents=agents,
            observation_size=longest + agents,
            state_size=nodes,
            action=ActionSpec("categorical", (widest,), choices=tuple((c,) for c in game.choices)),
            episode_limit=game.limit,
            agent_types=tuple(sorted(set(game.choices)).index(c) for c in game.choices),
            agent_id=True,
        )
        super().__init__(task, spec, slots, auto_reset, options)
        self._node = np.zeros(slots, dtype=np.int64)

    def _begin(self, rows: NDArray[np.int64]) -> None:
        starts = np.array(self._game.starts)
        if len(starts) == 1:
            self._node[rows] = starts[0]
        else:
            self._node[rows] = starts[(self._uniforms(rows, 1)[0] * len(starts)).astype(np.int64)]

    def _advance(self, actions: NDArray[np.int64], running: Bools) -> Outcome:
        chosen = checked_choices(actions, self._choices)[:, :, 0]
        legal = np.take_along_axis(self._legal[self._node], chosen[:, :, None], axis=2)[:, :, 0]
        if not legal[running].all():
            slot, agent = (int(i) for i in np.argwhere(~legal & running[:, None])[0])
            allowed = np.flatnonzero(self._legal[self._node[slot], agent]).tolist()
            raise UserError(
                f"action {int(chosen[slot, agent])} of agent {agent} in environment {slot} is not legal now; "
                f"allowed: {', '.join(map(str, allowed))}"
            )
        joint = np.ravel_multi_index(tuple(chosen.T), self._game.choices)
        payoff = self._payoff[self._node, joint]
        following = self._follows[self._node, joint]
        terminated = following == END
        truncated = ~terminated & (self._lengths + 1 >= self._game.limit)
        # After the last node there is no next one: agents keep seeing it.
        self._node = np.where(terminated | ~running, self._node, following)
        reward = np.repeat(payoff[:, None], self.spec.agents, axis=1)
        return Outcome(reward, payoff, terminated, truncated)

    def _look(self) -> Snapshot:
        node = self._node
        return Snapshot(self._seen[node], self._state[node], self._alive[node], self._legal[node])

    def _arrays(self) -> dict[str, NDArray[np.int64]]:
        return {"node": self._node}


class TargetGames(ArrayEngine):
    """N copies of a Gaussian game."""

    domain = "matrix"

    def __init__(self, task: str, game: TargetGame, slots: int, auto_reset: bool, options: MatrixOptions) -> None:
        agents, widest = len(game.dimensions), max(game.dimensions)
        used = None if min(game.dimensions) == widest else game.dimensions
        spec = EnvSpec(
            agents=agents,
            observation_size=1 + agents,
            state_size=1,
            action=ActionSpec("gaussian", (widest,), used),
            episode_limit=1,
            agent_types=tuple(sorted(set(game.dimensions)).index(d) for d in game.dimensions),
            agent_id=True,
        )
        super().__init__(task, spec, slots, auto_reset, options)
        self._real = np.arange(widest) < np.array(game.dimensions)[:, None]  # [A, dims] not padding
        self._target = np.zeros(slots)

    def _begin(self, rows: NDArray[np.int64]) -> None:
        self._target[rows] = 2.0 * self._uniforms(rows, 1)[0] - 1.0

    def _advance(self, actions: Doubles, running: Bools) -> Outcome:
        given = checked_reals(actions, self.spec.agents, self.spec.action.sizes[0], self.slots)
        miss = np.where(self._real, given.astype(np.float64), 0.0).sum(axis=(1, 2)) - self._target
        payoff = -(miss**2)
        reward = np.repeat(payoff[:, None], self.spec.agents, axis=1)
        return Outcome(reward, payoff, np.ones(self.slots, dtype=np.bool_), np.zeros(self.slots, dtype=np.bool_))

    def _look(self) -> Snapshot:
        agents = self.spec.agents
        seen = np.empty((self.slots, agents, 1 + agents), dtype=np.float32)
        seen[:, :, 0] = self._target[:, None]
        seen[:, :, 1:] = np.eye(agents)
        return Snapshot(seen, seen[:, :, :1].copy(), np.ones((self.slots, agents), dtype=np.bool_), None)

    def _arrays(self) -> dict[str, Doubles]:
        return {"target": self._target}


def make(task: str, slots: int, *, auto_reset: bool, threads: int, options: MatrixOptions) -> BatchEnv:
    """N copies of a game; `threads` is ignored, as a step is a handful of look-ups."""
    game = _game(task)
    if isinstance(game, TargetGame):
        return TargetGames(task, game, slots, auto_reset, options)
    return MatrixGames(task, game, slots, auto_reset, options)
