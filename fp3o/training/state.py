"""Everything that learning changes, as one value; saving, restoring, remembering and capturing walk over it.

A part that is added to `LearnerState` is thereby saved, resumed, snapshotted and kept from a graph's warm-up: no other
place lists the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fp3o.networks.critic import Normaliser
from fp3o.training.optimiser import Moments


class Parameters(NamedTuple):
    """Parameters of actor and critic, as flat buffers [R, owners, size]."""

    trunk: Tensor
    head: Tensor
    critic: Tensor


class Optimiser(NamedTuple):
    """Adam's state of each buffer."""

    trunk: Moments
    head: Moments
    critic: Moments


class LearnerState(NamedTuple):
    """The state of R replicas. Steps change its tensors in place; their addresses never change."""

    parameters: Parameters
    moments: Optimiser
    normaliser: Normaliser
    running: Tensor
    """[R] bool: replicas whose numbers are still finite."""

    @classmethod
    def fresh(cls, initial: Parameters, trunks: int, device: torch.device) -> LearnerState:
        """Untrained: the given parameters, empty moments and an empty normaliser."""
        replicas = initial.trunk.shape[0]
        parameters = Parameters(*(p.to(device).clone().requires_grad_() for p in initial))
        return cls(
            parameters,
            Optimiser(*(Moments.fresh(p) for p in parameters)),
            Normaliser(*(x.to(device) for x in Normaliser.fresh(replicas, trunks))),
            torch.ones(replicas, dtype=torch.bool, device=device),
        )


def named(tree: Any, name: str = "") -> dict[str, Tensor]:
    """The tensors of nested named tuples by dotted name, such as `moments.trunk.first`."""
    if isinstance(tree, Tensor):
        return {name: tree}
    found: dict[str, Tensor] = {}
    for field, part in tree._asdict().items():
        found |= named(part, f"{name}.{field}" if name else field)
    return found


def clone(tree: Any) -> dict[str, Tensor]:
    """Copies of all tensors, by name."""
    return {name: x.detach().clone() for name, x in named(tree).items()}


@torch.no_grad()
def overwrite(tree: Any, values: Mapping[str, Tensor], replicas: Tensor | None = None) -> None:
    """Set every tensor to the value of its name, in place; with `replicas` [R] bool only those replicas."""
    for name, x in named(tree).items():
        new = values[name]
        x.copy_(new if replicas is None else torch.where(replicas.view(-1, *(1,) * (x.dim() - 1)), new, x))
