"""Everything that learning changes, as one value.

A part that is added to `LearnerState` is thereby saved, resumed, copied by snapshots and restored after the warm-up of
a CUDA graph: no other place lists the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fp3o.learner.optimiser import Moments
from fp3o.networks.critic import Normaliser


class Parameters(NamedTuple):
    """Parameters of actor and critic, as flat buffers [R, owners, size]."""

    trunk: Tensor
    head: Tensor
    critic: Tensor


class Optimiser(NamedTuple):
    """Adam's state for each of the parameters."""

    trunk: Moments
    head: Moments
    critic: Moments


class LearnerState(NamedTuple):
    """The state of R replicas. Steps change the tensors in place, so that their addresses stay the same."""

    parameters: Parameters
    moments: Optimiser
    normaliser: Normaliser
    running: Tensor
    """[R] bool: replicas that have not diverged, that is, whose numbers are all finite."""
    own: dict[str, Tensor]
    """What the algorithm keeps from one iteration to the next (`Context.state`), [R, …] each."""

    @classmethod
    def fresh(cls, initial: Parameters, trunks: int, device: torch.device, own: Mapping[str, Tensor]) -> LearnerState:
        """The state before training: the given parameters and own state, moments and normaliser zero."""
        replicas = initial.trunk.shape[0]
        parameters = Parameters(*(p.to(device).clone().requires_grad_() for p in initial))
        return cls(
            parameters,
            Optimiser(*(Moments.fresh(p) for p in parameters)),
            Normaliser(*(x.to(device) for x in Normaliser.fresh(replicas, trunks))),
            torch.ones(replicas, dtype=torch.bool, device=device),
            {name: x.to(device).clone() for name, x in own.items()},
        )

    def policy(self, place: int) -> dict[str, Tensor]:
        """The tensors of checkpoint.safetensors, copied: actor, critic and value normaliser of one replica."""
        trunk, head, critic = (p[place].detach().cpu().clone() for p in self.parameters)
        tensors = {"actor.trunk": trunk, "actor.head": head, "critic": critic}
        return tensors | {f"normaliser.{k}": v[place].cpu().clone() for k, v in self.normaliser._asdict().items()}


def named(tree: Any, name: str = "") -> dict[str, Tensor]:
    """The tensors of nested named tuples and dictionaries by dotted name, such as `moments.trunk.first`: also their
    names on disk."""
    if isinstance(tree, Tensor):
        return {name: tree}
    tensors: dict[str, Tensor] = {}
    for field, part in (tree if isinstance(tree, dict) else tree._asdict()).items():
        tensors |= named(part, f"{name}.{field}" if name else field)
    return tensors


def clone(tree: Any) -> dict[str, Tensor]:
    """Copies of all tensors, by name."""
    return {name: x.detach().clone() for name, x in named(tree).items()}


@torch.no_grad()
def overwrite(tree: Any, values: Mapping[str, Tensor], replicas: Tensor | None = None) -> None:
    """Set every tensor to the value of its name, in place; with `replicas` [R] bool only those replicas."""
    for name, x in named(tree).items():
        new = values[name]
        x.copy_(new if replicas is None else torch.where(replicas.view(-1, *(1,) * (x.dim() - 1)), new, x))
