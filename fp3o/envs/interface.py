"""The interface between simulators and the learner: a batch of N environments (slots) that advance together, on arrays.

Axes, always in this order: N slot, A agent, then features. Agents with shorter observations or fewer actions are padded
with zeros; `available` (categorical) or `ActionSpec.used` (Gaussian) tells what exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Seeds: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True)
class ActionSpec:
    """The kind and size of one agent's action; the same for all agents, as shorter ones are padded."""

    kind: Literal["gaussian", "categorical"]
    sizes: tuple[int, ...]
    """Gaussian: one entry, the number of dimensions. Categorical: choices per sub-action (several = multi-discrete)."""
    used: tuple[int, ...] | None = None
    """Gaussian only: each agent's own number of dimensions, the rest being padding; None: all agents use all."""
    choices: tuple[tuple[int, ...], ...] | None = None
    """Categorical only: each agent's own number of choices per sub-action; None: all agents have all."""

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
    """Type of each agent (stalker 0, zealot 1 …), for sharing by type."""
    agent_id: bool = False
    """Whether the engine appends the one-hot agent number to observations."""
    standardised: bool = False
    """Whether the engine standardises each observation, the agent number included, by its own mean and deviation."""
    observation_shape: tuple[int, ...] = ()
    """Of images, or tables of entities, that observations begin with, flattened; (): they are rows of numbers."""
    state_shape: tuple[int, ...] = ()
    """Likewise of states."""
    exact_resume: bool = True
    """False where the simulator cannot save its state (worker processes, the real StarCraft II)."""
    metrics: tuple[str, ...] = ()
    """Names of the numbers in every `Episode.metrics`; columns of evaluations.csv after those of all runs."""


class Snapshot(NamedTuple):
    """What agents and critics see. The next step may overwrite the arrays: copy what is needed longer."""

    observation: Floats  # [N, A, O]
    state: Floats  # [N, A, S] critic input, one per agent
    alive: Bools  # [N, A] whether the agent still takes part
    available: Bools | None  # [N, A, D] legal choices, D = ActionSpec.parameters; None for Gaussian actions


class Episode(NamedTuple):
    """An episode that has just ended."""

    slot: int
    total_return: float
    """Sum over time of the team reward (what agents are trained on)."""
    return_per_agent: float
    """total_return divided by the number of agents where the team reward is their sum (MPE); else equal to it."""
    length: int
    """In steps."""
    won: bool | None
    """None where episodes are neither won nor lost."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """The environment's own numbers by name; NaN where the episode did not report one."""


class Transition(NamedTuple):
    """The result of one step.

    An episode ends with the step at which its slot's `terminated` or `truncated` is true. With auto_reset the slot has
    already started the next episode; without, it is frozen from the next step on.
    """

    snapshot: Snapshot
    """After auto-reset: what the agents act on next."""
    reward: Doubles  # [N, A]
    terminated: Bools
    """[N] The episode ended with this step, by the rules of the task."""
    truncated: Bools
    """[N] The episode was cut off at this step: by the time limit, or because the simulator lost it. A lost episode is
    not reported, and the slot starts another one, also without auto_reset."""
    final: Snapshot | None
    """Before auto-reset; valid for slots whose episode ended with this step, None if there are none."""
    episodes: list[Episode]
    """Episodes that ended with this step, by slot."""


class BatchEnv(Protocol):
    """Everything the learner asks of a simulator; engines subclass it.

    N independent environments. On one machine, equal slot seeds and actions give equal bits, whatever N and threads.

    With auto_reset off, a slot whose episode has ended is frozen: it is not simulated, its snapshot stays, its reward
    is 0, `terminated` and `truncated` are false, and it reports no episode.
    """

    spec: EnvSpec
    slots: int

    # Optional parts, with their defaults:
    own_threads: bool = False
    """Whether a step runs on threads of its own, so that an evaluation at the same time costs training little."""
    has_kernels: bool = False
    """Whether it has numba kernels in its folder, which can be compiled ahead (fp3o/envs/native/ahead.py)."""

    @property
    def restarts(self) -> int:
        """How often a simulator died and was started again; run.json mentions it."""
        return 0

    @property
    def lost_episodes(self) -> Mapping[str, int]:
        """Episodes lost to failures of the environment so far, by their cause in words."""
        return {}

    def bind_output_buffers(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write what agents see into these arrays, by the names of a `Snapshot`, from now on: saves the caller a copy.

        Others may only read them. An engine that ignores this returns arrays of its own, and the caller copies them.
        """
        return

    def close(self) -> None:
        """End processes and free what the simulator holds, if anything."""
        return

    def reset(self, seeds: Seeds) -> Snapshot:
        """Start a new episode in every slot. All randomness of slot i, of later episodes too, comes from seeds[i]."""

    def step(self, actions: NDArray[Any]) -> Transition:
        """Advance by one step. actions: float [N, A, dims] (Gaussian) or int [N, A, sub-actions] (categorical)."""

    def snapshot(self) -> Snapshot:
        """What the agents see now, as returned by the last reset, step or load_state_dict."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything needed to continue bit for bit on the same kind of processor."""

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from what `state_dict` returned."""

    def identity(self) -> dict[str, Any]:
        """Engine, revision, versions, sizes, options: `environment` of run.json."""


def slot_seeds(seed: int, stream: str, slots: int, iteration: int = 0) -> Seeds:
    """An independent 64-bit seed for each slot; depends on the arguments (but not on `slots`) and the slot's index.

    stream: the purpose, such as "training" or "evaluation".
    """
    key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    children = np.random.SeedSequence([seed, key, iteration]).spawn(slots)
    return np.array([c.generate_state(1, np.uint64)[0] for c in children], dtype=np.uint64)


def episode_generator(slot_seed: int, episode: int) -> np.random.Generator:
    """The random generator of one episode of one slot; counter-based, so that only the episode number is saved."""
    return np.random.Generator(np.random.Philox(_Key(slot_seed, episode)))  # type: ignore[arg-type]


class _Key(np.random.bit_generator.ISeedSequence):
    """A key for Philox. Given as its `key`, NumPy would draw a seed from the operating system beside it: 14 µs."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return np.array(self._numbers, dtype)
