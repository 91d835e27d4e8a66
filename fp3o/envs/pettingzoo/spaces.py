"""Conversion between a ParallelEnv's spaces and padded arrays. Runs in the worker, beside the environment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fp3o.errors import UserError


class Unfit(UserError):
    """The environment cannot be used; the message says why."""


@dataclass(frozen=True)
class Description:
    """Agents and sizes of an environment, as plain data that is sent to the engine as JSON."""

    agents: tuple[str, ...]
    observations: tuple[int, ...]
    """Length of each agent's observation, flattened, without padding and agent number."""
    kind: Literal["gaussian", "categorical"]
    choices: tuple[tuple[int, ...], ...]
    """Of each agent: the number of dimensions (Gaussian, one entry), or the number of choices of each sub-action."""
    types: tuple[int, ...]
    state: int
    """Size of the environment's own state(); 0: it has none, and critics see all agents' observations."""
    shape: tuple[int, ...] = ()
    """Of observations that are images or tables, the same for all agents; (): they are not."""
    own_state_shape: tuple[int, ...] = ()
    """Likewise of state()."""

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Description:
        """From `asdict` of one that was sent as JSON, which has lists in place of tuples."""
        return Description(**{name: _tuples(value) for name, value in plain.items()})

    @property
    def sizes(self) -> tuple[int, ...]:
        """For each sub-action, the largest number of choices (or dimensions) of any agent."""
        parts = max(len(c) for c in self.choices)
        return tuple(max(c[part] if part < len(c) else 1 for c in self.choices) for part in range(parts))

    @property
    def joint(self) -> int:
        """Size of the critic's input, without agent number."""
        return self.state or sum(self.observations)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Of the critic's input; without state() it is one image per agent."""
        if self.state:
            return self.own_state_shape
        return (len(self.agents), *self.shape) if self.shape else ()


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def describe(env: Any, state: bool = True) -> Description:
    """The description of a newly built environment, which is reset once to see whether it has a state().

    state: whether to look; without it the environment is not touched.
    """
    agents = tuple(getattr(env, "possible_agents", None) or ())
    if not agents:
        raise Unfit("it has no `possible_agents`: the list of all agents' names, known before the first reset")
    kinds, choices = zip(*(_actions(agent, env.action_space(agent)) for agent in agents), strict=True)
    if len(set(kinds)) > 1:
        raise Unfit("some agents have Box actions and others discrete ones; all agents must have the same kind")
    observations = tuple(_observed(agent, env.observation_space(agent)) for agent in agents)
    own_state = _state(env) if state else None
    return Description(
        agents=agents,
        observations=observations,
        kind=kinds[0],
        choices=choices,
        types=_types(agents, observations, choices),
        state=0 if own_state is None else own_state.size,
        shape=_shape([split_mask(env.observation_space(agent))[0] for agent in agents]),
        own_state_shape=() if own_state is None or own_state.ndim < 2 else own_state.shape,
    )


def split_mask(space: Any) -> tuple[Any, bool]:
    """The observation's own space, and whether it came with an action mask.

    PettingZoo environments tell legal choices by a space {observation, action_mask}.
    """
    if isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", "action_mask"}:
        return space.spaces["observation"], True
    return space, False


def _observed(agent: str, space: Any) -> int:
    bare, _ = split_mask(space)
    try:
        size = spaces.flatdim(bare)
    except (NotImplementedError, ValueError) as error:
        raise Unfit(f"{agent}'s observation space {bare} has no fixed size") from error
    if not size:
        raise Unfit(f"{agent}'s observation space {bare} is empty")
    return int(size)


def _actions(agent: str, space: Any) -> tuple[Literal["gaussian", "categorical"], tuple[int, ...]]:
    """The kind of an agent's actions, and its entry of `Description.choices`."""
    if isinstance(space, spaces.Box):
        if not np.issubdtype(space.dtype, np.floating):
            raise Unfit(f"{agent}'s action space {space} holds whole numbers; use Discrete or MultiDiscrete")
        return "gaussian", (int(np.prod(space.shape)),)
    if isinstance(space, spaces.Discrete):
        return "categorical", (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        if space.nvec.ndim != 1:
            raise Unfit(f"{agent}'s action space {space} is a table; a MultiDiscrete must be one row")
        return "categorical", tuple(int(n) for n in space.nvec)
    raise Unfit(f"{agent}'s action space {space} is none of Box, Discrete, MultiDiscrete")


def type_name(agent: object) -> str:
    """`scout` of `scout_0`."""
    return re.sub(r"[_\- ]?\d+$", "", str(agent))


def _types(
    agents: tuple[str, ...], observations: tuple[int, ...], choices: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """Type of each agent: of one type are agents whose names differ only by a number and whose sizes are equal."""
    kinds = [(type_name(agent), seen, able) for agent, seen, able in zip(agents, observations, choices, strict=True)]
    order = list(dict.fromkeys(kinds))
    return tuple(order.index(kind) for kind in kinds)


def _shape(seen: Sequence[Any]) -> tuple[int, ...]:
    """The shape of observations, where they are boxes of one shape with two axes or more."""
    shapes = {space.shape if isinstance(space, spaces.Box) else () for space in seen}
    shape = shapes.pop()
    return shape if not shapes and len(shape) > 1 else ()


def _state(env: Any) -> NDArray[np.float32] | None:
    env.reset(seed=0)
    try:
        return np.asarray(env.state(), dtype=np.float32)
    except Exception:  # PettingZoo's default raises NotImplementedError, others AttributeError, TypeError …
        return None


def checked_numbers(numbers: Any, size: int, what: str, promise: str) -> NDArray[np.float32]:
    """A flat vector, checked to have this length (a shorter one would leave old numbers in the array) and be finite."""
    flat: NDArray[np.float32] = np.asarray(numbers, dtype=np.float32).reshape(-1)
    if flat.size != size:
        raise Unfit(f"{what} has {flat.size} numbers, {promise} {size}")
    if not np.isfinite(flat).all():
        raise Unfit(f"{what} contains NaN or infinity")
    return flat


def check_rewards(rewards: dict[str, Any], agents: Sequence[str]) -> None:
    """Unfit unless rewards are finite numbers for agents that exist."""
    strangers = [str(agent) for agent in rewards if agent not in agents]
    if strangers:
        raise Unfit(f"rewards name agents that are not in possible_agents: {', '.join(strangers)}")
    for agent, reward in rewards.items():
        if not np.isfinite(float(reward)):
            raise Unfit(f"{agent}'s reward is NaN or infinite")


class Translator:
    """Flattens one environment's observations, and converts rows of numbers into its actions."""

    def __init__(self, env: Any, description: Description) -> None:
        self._spaces = [split_mask(env.observation_space(agent)) for agent in description.agents]
        self._actions = [env.action_space(agent) for agent in description.agents]
        self._agents, self._sizes = description.agents, description.observations
        self._kind = description.kind
        self._bounds = [_finite_bounds(space) for space in self._actions]
        sizes = description.sizes
        self._starts = [sum(sizes[:part]) for part in range(len(sizes))]
        # Which choices exist, all sub-actions concatenated; an agent that lacks a sub-action has choice 0 of it.
        self._existing = np.zeros((len(description.agents), sum(sizes)), dtype=np.bool_)
        self.only_first = np.zeros(sum(sizes), dtype=np.bool_)
        for part, start in enumerate(self._starts):
            self.only_first[start] = True
            for agent, choices in enumerate(description.choices):
                self._existing[agent, start : start + (choices[part] if part < len(choices) else 1)] = True

    def observation(self, agent: int, seen: Any) -> NDArray[np.float32]:
        """The flat vector, checked for length and finiteness; discrete parts are one-hot."""
        space, masked = self._spaces[agent]
        flat = spaces.flatten(space, seen["observation"] if masked else seen)
        return checked_numbers(flat, self._sizes[agent], f"{self._agents[agent]}'s observation", "its space says")

    def legal(self, agent: int, seen: Any, info: Any) -> NDArray[np.bool_]:
        """Choices that exist and are allowed by `action_mask`, in the observation or in the info."""
        told = None
        if self._spaces[agent][1]:
            told = seen["action_mask"]
        elif isinstance(info, dict):
            told = info.get("action_mask")
        legal: NDArray[np.bool_] = self._existing[agent].copy()
        if told is None or self._kind == "gaussian":
            return legal
        # MultiDiscrete masks come as one array per sub-action.
        for start, part in zip(self._starts, told if isinstance(told, tuple) else (told,), strict=False):
            mask = np.asarray(part).reshape(-1).astype(np.bool_)
            if mask.any():
                legal[start : start + len(mask)] &= mask
        return legal

    def action(self, agent: int, row: NDArray[Any]) -> Any:
        """The action in the form that the environment's step() takes."""
        space = self._actions[agent]
        if self._kind == "gaussian":
            size = int(np.prod(space.shape))
            numbers = row[:size].reshape(space.shape)
            bounds = self._bounds[agent]
            if bounds is not None:
                # −1 … 1 is mapped to the bounds of the box; actions outside are clipped.
                low, high = bounds
                numbers = low + (np.clip(numbers, -1.0, 1.0) + 1.0) * 0.5 * (high - low)
            return numbers.astype(space.dtype)
        if isinstance(space, spaces.Discrete):
            return int(row[0]) + int(space.start)
        return (row[: len(space.nvec)] + space.start).astype(space.dtype)


def _finite_bounds(space: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    if not isinstance(space, spaces.Box) or not space.is_bounded():
        return None
    return space.low.astype(np.float64), space.high.astype(np.float64)
