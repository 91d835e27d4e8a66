"""ParallelEnvs with every oddity the adapter must bear: built by workers from `strange_environments:name`."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Uneven(ParallelEnv):
    """A scout (Discrete) and two guards (MultiDiscrete); guard_1 leaves after 3 steps, the rest are cut after 6."""

    metadata = {"name": "uneven"}
    possible_agents = ["scout_0", "guard_0", "guard_1"]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3) if agent == "scout_0" else spaces.Box(-9.0, 9.0, (2, 2), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(4, start=1) if agent == "scout_0" else spaces.MultiDiscrete([2, 5])

    def _see(self) -> dict[str, Any]:
        seen: dict[str, Any] = {a: np.full((2, 2), self.noise, np.float32) for a in self.agents if a != "scout_0"}
        seen["scout_0"] = self.steps % 3
        return seen

    def _infos(self) -> dict[str, Any]:
        # The scout may not choose its last action in even steps.
        mask = np.array([1, 1, 1, self.steps % 2], dtype=np.int8)
        return {a: {"action_mask": mask} if a == "scout_0" else {} for a in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.steps = 0
        self.noise = np.random.default_rng(seed).uniform(-1, 1)
        return self._see(), self._infos()

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        assert all(self.action_space(a).contains(action) for a, action in actions.items())
        self.steps += 1
        acted = self.agents
        rewards = {a: float(a == "scout_0") + 2.0 * (a == "guard_1") for a in acted}
        seen, infos = self._see(), self._infos()
        terminations = {a: a == "guard_1" and self.steps == 3 for a in acted}
        truncations = dict.fromkeys(acted, self.steps == 6)
        self.agents = [a for a in acted if not (terminations[a] or truncations[a])]
        return seen, rewards, terminations, truncations, infos


class Walkers(ParallelEnv):
    """Continuous, 2 and 3 dimensions with bounds 0…10 and ±1; each agent sees its own last action; 4 steps."""

    metadata = {"name": "walkers"}
    possible_agents = ["a", "b"]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-10.0, 10.0, (2 if agent == "a" else 3,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(0.0, 10.0, (2,), np.float32) if agent == "a" else spaces.Box(-1.0, 1.0, (3,), np.float32)

    def state(self) -> np.ndarray:
        return np.array([self.steps, self.start], dtype=np.float64)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.steps = list(self.possible_agents), 0
        self.start = np.random.default_rng(seed).normal()
        return {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)}, {"a": {}, "b": {}}

    def step(self, actions: dict[str, Any]) -> Any:
        self.steps += 1
        end = dict.fromkeys(self.agents, self.steps == 4)
        acted = self.agents
        self.agents = [] if self.steps == 4 else acted
        rewards = {"a": 1.0, "b": 3.0}
        return dict(actions), rewards, end, dict.fromkeys(acted, False), {a: {} for a in acted}


class Faulty(Walkers):
    """Does something bad at the second step of some episodes: those whose start is below `below`."""

    def __init__(self, fault: str, below: float) -> None:
        self.fault, self.below = fault, below

    def step(self, actions: dict[str, Any]) -> Any:
        if self.steps == 1 and self.start < self.below:
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "hang":
                time.sleep(3600.0)
            raise RuntimeError("a wheel\ncame off")
        return super().step(actions)


class Endless(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        self.steps = 1
        return super().step(actions)


class Mixed(Walkers):
    def action_space(self, agent: str) -> spaces.Space[Any]:
        return super().action_space(agent) if agent == "a" else spaces.Discrete(2)


class Written(Walkers):
    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Text(5)


class Nameless(Walkers):
    possible_agents = []


class Broken(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        seen, *rest = super().step(actions)
        return {a: np.full_like(o, np.nan) for a, o in seen.items()}, *rest


class Ghost(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        seen, rewards, *rest = super().step(actions)
        return seen, {**rewards, "ghost": 1.0}, *rest


class Hidden(Walkers):
    """One agent is not shown what it sees, although it still takes part."""

    def step(self, actions: dict[str, Any]) -> Any:
        observations, *rest = super().step(actions)
        del observations["b"]
        return observations, *rest


class Unpaid(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        seen, rewards, *rest = super().step(actions)
        return seen, {**rewards, "b": np.nan}, *rest


class Shrinking(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        seen, *rest = super().step(actions)
        return {**seen, "b": seen["b"][:2]}, *rest


class Forgetful(Walkers):
    """Its state, two numbers at first, becomes one."""

    def state(self) -> np.ndarray:
        return super().state()[: 1 if self.steps else 2]


class Rivals(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        seen, _, *rest = super().step(actions)
        return seen, {"a": 1.0, "b": -1.0}, *rest


class Painters(Walkers):
    """They see pictures: 164,520 numbers each."""

    sight = spaces.Box(0, 255, (457, 120, 3), np.uint8)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.sight

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        _, infos = super().reset(seed)
        return dict.fromkeys(self.agents, np.zeros(self.sight.shape, np.uint8)), infos

    def step(self, actions: dict[str, Any]) -> Any:
        seen, *rest = super().step(actions)
        return dict.fromkeys(seen, np.zeros(self.sight.shape, np.uint8)), *rest


class Leaver(Walkers):
    """Ends the process without a complaint at its third step."""

    def step(self, actions: dict[str, Any]) -> Any:
        if self.steps == 2:
            sys.exit(0)
        return super().step(actions)


class Chatty(Walkers):
    def step(self, actions: dict[str, Any]) -> Any:
        for _ in range(1000):
            sys.stderr.write(("y" * 999) + "\n")
        sys.stderr.write("the last line\n")
        if self.steps == 2:
            os._exit(3)
        return super().step(actions)


class Forking(Walkers):
    """Starts a process of its own, whose number is its state, with every stream open."""

    def __init__(self) -> None:
        self.child = os.fork()
        if not self.child:
            time.sleep(3600.0)
            os._exit(0)

    def state(self) -> np.ndarray:
        return np.array([self.child], dtype=np.float64)


class Unseeded(Walkers):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        seen, infos = super().reset()
        return {a: o + np.float32(self.start) for a, o in seen.items()}, infos


class Turns(AECEnv):
    possible_agents = ["a"]

    def step(self, action: Any) -> None: ...

    def reset(self, seed: int | None = None, options: Any = None) -> None: ...


class Sized(Walkers):
    """As many numbers to see as it is told."""

    def __init__(self, size: int, name: str = "", steps: list[int] | None = None) -> None:
        if not isinstance(size, int):
            raise TypeError(f"size is {size!r}")
        self.size, self.name = size, name

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-10.0, 10.0, (self.size,), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        _, infos = super().reset(seed)
        return dict.fromkeys(self.agents, np.zeros(self.size, np.float32)), infos

    def step(self, actions: dict[str, Any]) -> Any:
        seen, *rest = super().step(actions)
        return dict.fromkeys(seen, np.zeros(self.size, np.float32)), *rest


def uneven() -> Uneven:
    return Uneven()


def walkers() -> Walkers:
    return Walkers()


def sometimes_dies() -> Faulty:
    return Faulty("die", -0.5)


def always_dies() -> Faulty:
    return Faulty("die", np.inf)


def sometimes_raises() -> Faulty:
    return Faulty("raise", -0.5)


def always_raises() -> Faulty:
    return Faulty("raise", np.inf)


def hangs() -> Faulty:
    return Faulty("hang", np.inf)


def hangs_at_birth() -> Walkers:
    time.sleep(3600.0)
    return Walkers()


def dies_at_birth() -> Walkers:
    os._exit(7)


def fails_at_birth() -> Walkers:
    raise FileNotFoundError("no map\nhere")


def number() -> int:
    return 3
