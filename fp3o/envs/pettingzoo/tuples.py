"""Gymnasium environments whose actions, observations and rewards are tuples with an entry per agent, as level-based
foraging and the multi-robot warehouse are, seen as a ParallelEnv."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Env, spaces

from fp3o.envs.pettingzoo.spaces import Unfit


def has_tuples(env: Any) -> bool:
    """Whether it is a Gymnasium environment with a tuple of actions."""
    return isinstance(env, Env) and isinstance(env.action_space, spaces.Tuple)


def as_parallel(env: Any) -> Any:
    """The environment as a ParallelEnv of agents called agent_0, agent_1 …"""
    from pettingzoo import ParallelEnv

    agents = [f"agent_{k}" for k in range(len(env.action_space.spaces))]
    if not isinstance(env.observation_space, spaces.Tuple) or len(env.observation_space.spaces) != len(agents):
        raise Unfit(f"its action space is a tuple of {len(agents)}, its observation space {env.observation_space} not")

    class TupleAgents(ParallelEnv):  # type: ignore[misc, type-arg, unused-ignore]
        metadata = {**env.metadata, "name": type(env.unwrapped).__name__}  # noqa: RUF012 (an API's)
        possible_agents = agents

        def observation_space(self, agent: str) -> Any:
            return env.observation_space.spaces[agents.index(agent)]

        def action_space(self, agent: str) -> Any:
            return env.action_space.spaces[agents.index(agent)]

        def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
            observations, info = env.reset(seed=seed, options=options)
            self.agents = list(agents)
            return by_agent(agents, observations, "observations"), _infos(agents, info)

        def step(self, actions: dict[str, Any]) -> Any:
            observations, rewards, terminated, truncated, info = env.step(tuple(actions[agent] for agent in agents))
            ends = [dict(zip(agents, _each(told, len(agents)), strict=True)) for told in (terminated, truncated)]
            # All agents leave together: the actions are a tuple of all of them to the end.
            over = [all(told.values()) for told in ends]
            if any(over):
                self.agents = []
            return (
                by_agent(agents, observations, "observations"),
                by_agent(agents, rewards, "rewards"),
                *(dict.fromkeys(agents, told) for told in over),
                _infos(agents, info),
            )

        def render(self) -> Any:
            return env.render()

        def close(self) -> None:
            env.close()

    found = TupleAgents()
    found.render_mode = env.render_mode
    return found


def by_agent(agents: list[str], values: Any, what: str) -> dict[str, Any]:
    """An entry per agent; Unfit if there are more or fewer."""
    if np.isscalar(values) or len(values) != len(agents):
        found = "one number" if np.isscalar(values) else f"{len(values)} entries"
        raise Unfit(f"{what} have {found} for {len(agents)} agents")
    return dict(zip(agents, values, strict=True))


def _each(told: Any, count: int) -> list[bool]:
    """Whether each agent's episode is over: told of all in one word, or by agent."""
    return [bool(told)] * count if np.isscalar(told) or np.ndim(told) == 0 else [bool(one) for one in told]


def _infos(agents: list[str], info: dict[str, Any]) -> dict[str, Any]:
    """One info for all: entries with a value per agent are handed out, others go to everyone."""
    return {
        agent: {
            name: value[place] if isinstance(value, (tuple, list, np.ndarray)) and len(value) == len(agents) else value
            for name, value in info.items()
        }
        for place, agent in enumerate(agents)
    }
