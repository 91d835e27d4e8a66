"""An algorithm is a generator of turns: who learns, with which weight, on which advantage, whether to go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from torch import Tensor

from fp3o.config.settings import Settings


class Rollout(NamedTuple):
    """One iteration's data; every tensor starts [R, T, N, …]."""

    observation: Tensor  # […, A, O]
    state: Tensor  # […, A, S] critic input
    action: Tensor  # […, A, W] float; indices for categorical actions
    log_prob: Tensor  # […, A]
    available: Tensor | None  # […, A, D] bool
    hidden_actor: Tensor | None  # […, A, H] before step t
    hidden_critic: Tensor | None
    location: Tensor  # […, A, D] of the rollout policy's distribution, for exact KL
    reward: Tensor  # […, A]
    alive: Tensor  # […, A] float
    keep: Tensor  # [R, T, N] 0 where step t is the first of an episode
    continues: Tensor  # [R, T, N] 0 where the episode ended at step t
    value: Tensor  # […, A] as the critic put it out: in normalised units
    next_value: Tensor  # [R, N, A] likewise, after the last step


class Turn(NamedTuple):
    """Some epochs of minibatch steps with one objective. Agent indices are tensors: orders differ between replicas."""

    epochs: int
    ordinal: int = 1
    """Number of the turn in the records; turns that continue one another (epochs apart) share it."""
    agents: Tensor | None = None
    """[R, K] whose samples are used; None: all A."""
    learners: Tensor | None = None
    """[R, K] bool: which of them learn; the others are there for their live ratios. None: all."""
    weight: Tensor | None = None
    """[R, T, N, A] frozen weight on the advantage; None: 1."""
    others: Tensor | None = None
    """[R, K, K] bool: live product of these agents' current ratios as the weight (aligned samples)."""
    clip_others: float | None = None
    """Clip of that product at 1 ± this; None: not clipped."""
    advantage: Tensor | None = None
    """[R, T, N, A]; None: the iteration's."""
    returns: Tensor | None = None
    """[R, T, N, A] critic targets; None: the iteration's."""
    clip: Literal["own", "product", "joint"] = "own"
    """Clip the agent's own ratio, or its product with the weight, or CoPPO's joint surrogate."""
    clip_range: Tensor | None = None
    """[R, K]; None: the setting's."""
    learn: Literal["both", "actor", "critic"] = "both"
    go: Tensor | None = None
    """[R] bool: replicas that take this turn; None: all."""
    records: Mapping[str, Tensor] = MappingProxyType({})
    """Named numbers [R] for the iteration's row."""


class Context(NamedTuple):
    """What an algorithm may look at in one iteration."""

    settings: Settings
    rollout: Rollout
    value: Tensor  # [R, T, N, A] in reward units
    next_value: Tensor  # [R, N, A]
    returns: Tensor  # [R, T, N, A] critic targets
    raw_advantage: Tensor  # [R, T, N, A]
    advantage: Tensor  # [R, T, N, A] standardised
    log_ratio: Callable[[], Tensor]
    """log π/π_k of every stored action under the current policy, [R, T, N, A]."""
    uniform: Callable[..., Tensor]
    """uniform(*shape) → [R, *shape], each replica from its own generator."""
    snapshot: Callable[[], Callable[[Tensor], None]]
    """Remember the learner's state; the function returned takes replicas [R] bool back to it."""


class Algorithm(NamedTuple):
    """One entry of the registry."""

    turns: Callable[[Context], Iterator[Turn]]
    critic_input: Literal["state", "observation"] = "state"
