"""What the pure NumPy engines have in common: seeds, returns, auto-reset, freezing."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.checks import checked_seeds
from fp3o.envs.draws import uniform_draws
from fp3o.envs.engine import Engine
from fp3o.envs.interface import Bools, Doubles, EnvSpec, Episode, Snapshot, Transition

# Values of `_ending`: how a slot's episode ended. With auto-reset every slot is always running.
RUNNING, TERMINATED, TRUNCATED = 0, 1, 2


class Outcome(NamedTuple):
    """The result of one step of the game; rows of frozen slots are ignored."""

    reward: Doubles  # [N, A] what agents are trained on
    score: Doubles  # [N] summed over steps it is the episode's return
    terminated: Bools  # [N]
    truncated: Bools  # [N]


class ArrayEngine(Engine):
    """An engine whose game is given by `_begin`, `_advance`, `_look` and `_arrays` of a subclass."""

    share_of_agent = 1.0
    """return_per_agent / total_return: 1/A where the score is a sum over agents (MPE), else 1."""

    def __init__(self, task: str, spec: EnvSpec, slots: int, auto_reset: bool, options: Any) -> None:
        super().__init__(task, slots, auto_reset, options)
        self.spec = spec
        self._seeds = np.zeros(slots, dtype=np.uint64)
        self._episodes = np.zeros(slots, dtype=np.int64)  # number of each slot's current episode
        self._lengths = np.zeros(slots, dtype=np.int64)
        self._returns = np.zeros(slots)
        self._ending = np.full(slots, RUNNING, dtype=np.int64)

    @abstractmethod
    def _begin(self, rows: NDArray[np.int64]) -> None:
        """Draw the start states of these slots."""

    @abstractmethod
    def _advance(self, actions: NDArray[Any], running: Bools) -> Outcome:
        """Check the actions, then advance every running slot by one step."""

    @abstractmethod
    def _look(self) -> Snapshot:
        """What the agents see now."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The game's own mutable arrays, by name."""

    def _restored(self) -> None:
        """Nothing else is to be computed."""

    def _uniforms(self, rows: NDArray[np.int64], count: int) -> Doubles:
        """Random numbers in [0, 1) for the current episodes of these slots, [count, rows]."""
        return uniform_draws(self._seeds[rows], self._episodes[rows], count)

    def reset(self, seeds: NDArray[np.uint64]) -> Snapshot:
        self._seeds[:] = checked_seeds(seeds, self.slots)
        self._episodes[:] = 0
        self._lengths[:] = 0
        self._returns[:] = 0.0
        self._ending[:] = RUNNING
        self._started = True
        self._begin(np.arange(self.slots))
        return self._look()

    def step(self, actions: NDArray[Any]) -> Transition:
        self._require_reset()
        running = self._ending == RUNNING
        frozen = not (self.auto_reset or running.all())
        reward, score, terminated, truncated = self._advance(actions, running)
        if frozen:
            reward = np.where(running[:, None], reward, 0.0)
            score = np.where(running, score, 0.0)
            terminated, truncated = terminated & running, truncated & running
        self._returns += score
        self._lengths += running
        ended = np.flatnonzero(terminated | truncated)
        if not len(ended):
            return Transition(self._look(), reward, terminated, truncated, None, [])
        final = _copied(self._look())
        episodes = [
            Episode(slot, total, total * self.share_of_agent, length, won=None)
            for slot, total, length in zip(
                ended.tolist(), self._returns[ended].tolist(), self._lengths[ended].tolist(), strict=True
            )
        ]
        if not self.auto_reset:
            self._ending[ended] = np.where(terminated[ended], TERMINATED, TRUNCATED)
        else:
            self._episodes[ended] += 1
            self._lengths[ended] = 0
            self._returns[ended] = 0.0
            self._begin(ended)
        return Transition(self._look(), reward, terminated, truncated, final, episodes)

    def snapshot(self) -> Snapshot:
        return self._look()

    def _saved(self) -> dict[str, NDArray[Any]]:
        return {
            "seeds": self._seeds,
            "episodes": self._episodes,
            "lengths": self._lengths,
            "returns": self._returns,
            "ending": self._ending,
            **self._arrays(),
        }

    def identity(self) -> dict[str, Any]:
        return super().identity() | {
            "domain": self.domain,
            "engine": "numpy",
            "versions": {"numpy": np.__version__},
            "agents": self.spec.agents,
            "action_sizes": list(self.spec.action.sizes),
        }


def _copied(snapshot: Snapshot) -> Snapshot:
    return Snapshot._make(None if array is None else array.copy() for array in snapshot)
