"""An algorithm is a generator of turns. A turn says which agents learn, on which weighted advantage, in which replicas.

π_k is the policy that collected the rollout, r(π^i) = π^i / π^i_k the ratio of agent i. Axes: R replica (seed), T time,
N environment, A agent (K: the agents of a turn), O observation, S critic input, D distribution parameters, H GRU state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from fp3o.config.settings import Settings, own
from fp3o.fields import Bounds, Follows, explained

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class ClipOthers:
    """A setting of algorithms that clip the factor of `Turn.others`."""

    clip_others: Annotated[float, Bounds(1e-06, 1), Follows("clip", 0.5)] = 0.1
    """Clip of the product of the other agents' ratios: CoPPO's and double clip's ε₂, A2PO's ε_o (both repos: ε/2)."""


@explained
class Rollout(NamedTuple):
    """The data of one iteration. `…` stands for R, T, N; float32 where nothing else is said."""

    observation: Tensor
    """[…, A, O]"""
    state: Tensor
    """[…, A, S] critic input"""
    action: Tensor
    """[…, A, W] W real numbers (Gaussian), or the indices of W choices (categorical)"""
    log_prob: Tensor
    """[…, A] log π_k of the action"""
    available: Tensor | None
    """[…, A, D] bool: legal choices; None for Gaussian actions"""
    hidden_actor: Tensor | None
    """[…, A, H] GRU state before step t; None without GRU"""
    hidden_critic: Tensor | None
    """[…, A, H] likewise"""
    location: Tensor
    """[…, A, D] means, or log-probabilities of all choices, under π_k: for the exact KL"""
    reward: Tensor
    """[…, A]"""
    alive: Tensor
    """[…, A] 1, or 0 where the agent was dead"""
    keep: Tensor
    """[R, T, N] 0 where step t is the first of an episode (the GRU state is reset), else 1"""
    continues: Tensor
    """[R, T, N] 0 where the episode ended at step t, else 1"""
    value: Tensor
    """[…, A] critic output, in units of the value normaliser"""
    next_value: Tensor
    """[R, N, A] likewise, of the state after the last step"""


@explained
class ActorBatch(NamedTuple):
    """What a turn's `loss` is a function of: a minibatch with the policy that is being trained.

    `…` stands for R, K, C, L: replica, agents of the turn, and C chunks of L consecutive steps (L = 1 without GRU).
    Gradients flow through the first seven fields.
    """

    log_prob: Tensor
    """[…] log π of the action."""
    ratio: Tensor
    """[…] r = π / π_k."""
    location: Tensor
    """[…, D] means (Gaussian), or log-probabilities of all choices (categorical)."""
    std: Tensor | None
    """[…, D] standard deviations; None for categorical actions."""
    entropy: Tensor
    """[…] of π; the bonus `entropy_coef` · entropy is added to every loss."""
    kl: Tensor
    """[…] exact KL(π ‖ π_k)."""
    surrogate: Tensor
    """[…] the clipped objective of the turn, which is to be maximised: without `loss`, the loss is its negative."""
    old_log_prob: Tensor
    """[…] log π_k of the action."""
    old_location: Tensor
    """[…, D] of π_k."""
    old_std: Tensor | None
    """[…, D] of π_k."""
    advantage: Tensor
    """[…] of the turn."""
    weight: Tensor
    """[…] factor on the advantage: `Turn.weight`, or the product of the current ratios of `Turn.others`."""
    clip_range: Tensor
    """[R, K, 1, 1] ε of each agent."""
    old_value: Tensor
    """[…] critic output during the rollout, in units of the value normaliser."""
    returns: Tensor
    """[…] critic targets, in reward units."""
    alive: Tensor
    """[…] 1, or 0 where the agent was dead; the mean over samples leaves those out."""
    observation: Tensor
    """[…, O]"""
    action: Tensor
    """[…, W] as in `Rollout`."""
    available: Tensor | None
    """[…, D] bool: legal choices; None for Gaussian actions."""
    inputs: Mapping[str, Tensor]
    """`Turn.inputs` by name: [R, 1, 1, 1] for a number per replica, […] for one per sample."""


@explained
class CriticBatch(NamedTuple):
    """What a turn's `critic_loss` is a function of; axes as in `ActorBatch`. Gradients flow through the first two."""

    value: Tensor
    """[…] critic output, in units of the value normaliser."""
    loss: Tensor
    """[…] PPO's clipped value loss, which is minimised without `critic_loss`."""
    old_value: Tensor
    """[…] critic output during the rollout."""
    target: Tensor
    """[…] critic targets, in units of the value normaliser."""
    returns: Tensor
    """[…] critic targets, in reward units."""
    alive: Tensor
    """[…] 1, or 0 where the agent was dead; critics learn from those samples, too."""
    state: Tensor
    """[…, S] critic input."""
    inputs: Mapping[str, Tensor]
    """`Turn.inputs`, as in `ActorBatch`."""


@explained
class Turn(NamedTuple):
    """Some epochs of minibatch steps with one objective. Agents are tensors: their order differs between replicas."""

    epochs: int
    """Passes over the rollout."""
    ordinal: int = 1
    """Number of the turn in iterations.csv (`kl_turn1` …); a turn that is yielded epoch by epoch keeps its number."""
    agents: Tensor | None = None
    """[R, K] agents whose samples are used; None: all A."""
    learners: Tensor | None = None
    """[R, K] bool: which of them learn; the others take part for their current ratios only. None: all learn."""
    weight: Tensor | None = None
    """[R, T, N, A] factor on the advantage, fixed during the turn; None: 1, or `others`."""
    others: Tensor | None = None
    """[R, K, K] bool: the factor on agent k's advantage is the product of these agents' current ratios instead,
    computed anew in every minibatch (which then holds the same steps of all K agents)."""
    clip_others: float | None = None
    """That product is clipped to 1 ± this; None: not clipped."""
    advantage: Tensor | None = None
    """[R, T, N, A]; None: `Context.advantage`."""
    returns: Tensor | None = None
    """[R, T, N, A] critic targets; None: `Context.returns`."""
    clip: Literal["own", "product", "joint"] = "own"
    """What PPO's clip acts on: the agent's own ratio, its product with the factor, or CoPPO's joint surrogate."""
    clip_range: Tensor | None = None
    """[R, K] ε of each agent; None: `settings.clip`."""
    learn: Literal["both", "actor", "critic"] = "both"
    """Which networks take gradient steps."""
    loss: Callable[[ActorBatch], Tensor] | None = None
    """The loss of every sample, [R, K, C, L], in place of −`ActorBatch.surrogate`; None: that. A plain function: what
    it needs beyond the minibatch comes by `inputs`."""
    critic_loss: Callable[[CriticBatch], Tensor] | None = None
    """Likewise of the critic, in place of `CriticBatch.loss`."""
    inputs: Mapping[str, Tensor | float] = MappingProxyType({})
    """What the losses read besides: numbers, [R] one per replica, or [R, T, N, A] one per sample."""
    go: Tensor | None = None
    """[R] bool: replicas that take this turn; None: all."""
    records: Mapping[str, Tensor] = MappingProxyType({})
    """Named numbers [R] that go into iterations.csv."""


@explained
class Context(NamedTuple):
    """What an algorithm can use in one iteration."""

    settings: Settings
    """Of the cell, with the algorithm's own; those with a schedule as of this iteration."""
    rollout: Rollout
    """What the policies π_k did."""
    value: Tensor
    """[R, T, N, A] in reward units"""
    next_value: Tensor
    """[R, N, A] in reward units, of the state after the last step"""
    returns: Tensor
    """[R, T, N, A] critic targets, in reward units"""
    raw_advantage: Tensor
    """[R, T, N, A] in reward units"""
    advantage: Tensor
    """[R, T, N, A] the same, standardised as the settings say"""
    log_ratio: Callable[[], Tensor]
    """log π/π_k of every stored action under the current policy, [R, T, N, A]."""
    uniform: Callable[..., Tensor]
    """uniform(*shape) → [R, *shape], each replica from its own generator."""
    snapshot: Callable[[], Callable[[Tensor], None]]
    """Copy the learner's state; the returned function sets the given replicas, [R] bool, back to that copy."""
    iteration: int
    """Number of the iteration, from 0."""
    env_steps: int
    """Environment steps of each seed before this iteration."""
    fraction: float
    """Share of the budget spent before this iteration: 0 in the first, below 1 in the last."""
    state: MutableMapping[str, Tensor]
    """Named tensors [R, …] that the algorithm keeps from one iteration to the next, as `@fp3o.algorithm(state={…})`
    declares them; saved, resumed and set back by `snapshot` like the networks."""

    def own(self, kind: type[T]) -> T:
        """The algorithm's own settings, as the dataclass that declares them: type checkers then know their names."""
        return own(self.settings, kind)

    def setting(self, name: str) -> Any:
        """A setting of a plug-in's own by its name; `context.settings.<name>` is the same to Python, but not to type
        checkers."""
        return getattr(self.settings, name)
