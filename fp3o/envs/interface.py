"""The one protocol between simulators and the learner: a batch of N environments stepped on arrays.

Axes, always in this order: N environment slot, A agent, then features. Agents with shorter observations or fewer
actions are zero-padded; `available` (categorical) or `ActionSpec.used` (Gaussian) masks what does not exist.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Seeds: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True)
class ActionSpec:
    """What one agent's action looks like; the same for all agents after padding."""

    kind: Literal["gaussian", "categorical"]
    sizes: tuple[int, ...]
    """Gaussian: one entry, the number of dimensions. Categorical: choices per sub-action (several = multi-discrete)."""
    used: tuple[int, ...] | None = None
    """Gaussian only: true number of dimensions per agent, where agents differ (the rest is padding)."""

    @property
    def parameters(self) -> int:
        """Width of the network's head: dimensions, or logits of all sub-actions side by side."""
        return sum(self.sizes)

    @property
    def width(self) -> int:
        """Numbers per agent in an action array: dimensions, or one index per sub-action."""
        return self.sizes[0] if self.kind == "gaussian" else len(self.sizes)


@dataclass(frozen=True)
class EnvSpec:
    """Everything the learner needs to know before the first step."""

    agents: int
    observation_size: int
    state_size: int
    action: ActionSpec
    episode_limit: int
    agent_types: tuple[int, ...]
    """Kind of each agent (stalker 0, zealot 1 …): what sharing by type follows."""
    has_wins: bool = False
    """Whether an episode is won or lost (SMAC); otherwise its return is the score."""
    exact_resume: bool = True
    """False where the simulator cannot save its state (worker processes, the real StarCraft II)."""


class Snapshot(NamedTuple):
    """What agents and critics see. Arrays may be reused by the next step: copy what must last."""

    observation: Floats  # [N, A, O]
    state: Floats  # [N, A, S] critic input, one per agent
    alive: Bools  # [N, A]
    available: Bools | None  # [N, A, D] legal choices, D = ActionSpec.parameters; None for Gaussian actions


class Episode(NamedTuple):
    """Statistics of an episode that has just ended."""

    slot: int
    total_return: float
    """Sum over time of the team reward (what agents are trained on)."""
    return_per_agent: float
    """The same averaged over agents where the team reward is a sum over agents (MPE); equal to it elsewhere."""
    length: int
    won: bool | None


class Transition(NamedTuple):
    """The result of one step. A slot that ended has been reset already (unless auto_reset is off)."""

    snapshot: Snapshot  # after auto-reset
    reward: Doubles  # [N, A]
    terminated: Bools  # [N]
    truncated: Bools  # [N] time limit, or lost by the simulator: then no episode, and begun anew in any case
    final: Snapshot | None  # before auto-reset; rows of ended slots are valid, None if no slot ended
    episodes: list[Episode]


class BatchEnv(Protocol):
    """N independent environments. On one machine: same slot seed, same actions → same bits, whatever N and threads.

    With auto_reset off, slots that have ended freeze: they are not simulated, earn nothing and report no episode.
    """

    spec: EnvSpec
    slots: int

    def reset(self, seeds: Seeds) -> Snapshot:
        """Start every slot afresh. All later randomness of slot i, later episodes included, comes from seeds[i]."""

    def step(self, actions: NDArray[Any]) -> Transition:
        """Advance by one step. actions: float [N, A, dims] (Gaussian) or int [N, A, sub-actions] (categorical)."""

    def snapshot(self) -> Snapshot:
        """What the agents see now, as returned by the last reset, step or load_state_dict."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything needed to continue bit for bit on the same kind of processor."""

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None: ...

    def identity(self) -> dict[str, Any]:
        """Engine, revision, versions, sizes, options: goes into every result."""

    def close(self) -> None: ...


def slot_seeds(seed: int, stream: str, slots: int, iteration: int = 0) -> Seeds:
    """One independent 64-bit seed per slot; depends on nothing but its arguments and the slot's index."""
    key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    children = np.random.SeedSequence([seed, key, iteration]).spawn(slots)
    return np.array([c.generate_state(1, np.uint64)[0] for c in children], dtype=np.uint64)


def episode_generator(slot_seed: int, episode: int) -> np.random.Generator:
    """The generator of one episode of one slot: counter-based, so only the episode number needs saving."""
    return np.random.Generator(np.random.Philox(key=np.array([slot_seed, episode], dtype=np.uint64)))
