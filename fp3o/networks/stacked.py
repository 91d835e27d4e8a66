"""Layers of many networks at once: parameters are [R, P, …] (R replicas, P owners), data [R, P, rows, features].

All parameters of a network are one row of a flat buffer [R, P, size], and named tensors are views of it. So Adam,
gradient norms, masks and checkpoints are a few operations whatever the number of seeds and owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fp3o.networks.products import linear

Initialiser = Callable[[Tensor, torch.Generator], None]
Shapes = dict[str, tuple[tuple[int, ...], Initialiser]]


class ParameterLayout:
    """Names, shapes and places of the parameters in one row of a flat buffer, and how each is initialised."""

    def __init__(self, shapes: Mapping[str, tuple[tuple[int, ...], Initialiser]]) -> None:
        self.entries: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._initialisers = {name: initialiser for name, (_, initialiser) in shapes.items()}
        self.size = 0
        for name, (shape, _) in shapes.items():
            self.entries[name] = (self.size, shape)
            self.size += torch.Size(shape).numel()

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """[…, size] → {name: […, *shape]}, views of the same memory."""
        return {
            name: flat[..., start : start + torch.Size(shape).numel()].unflatten(-1, shape)
            for name, (start, shape) in self.entries.items()
        }

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `views`: one tensor [R, P, *shape] per name, in their order → [R, P, size]."""
        return torch.cat([part.flatten(2) for part in parts], -1)

    def initialise(self, rows: int, generator: torch.Generator) -> Tensor:
        """Initial parameters [rows, size]; the rows are drawn one after the other."""
        flat = torch.zeros(rows, self.size)
        for row in flat:
            for name, view in self.views(row).items():
                self._initialisers[name](view, generator)
        return flat


def orthogonal(gain: float) -> Initialiser:
    """Orthogonal weights, drawn as an [out, in] matrix as in the release and stored transposed, [in, out]."""

    def fill(weight: Tensor, generator: torch.Generator) -> None:
        matrix = torch.empty(weight.shape[::-1])
        torch.nn.init.orthogonal_(matrix, gain, generator=generator)
        weight.copy_(matrix.T)

    return fill


def constant(value: float) -> Initialiser:
    def fill(view: Tensor, generator: torch.Generator) -> None:
        view.fill_(value)

    return fill


def select(flat: Tensor, owners: Tensor | None) -> Tensor:
    """Parameters [R, K, size] of K agents; [R, 1, size] where all agents use one row: trunks then treat the samples
    of all agents as one batch."""
    replicas, rows, size = flat.shape
    if rows == 1 or owners is None:
        return flat
    return flat.flatten(0, 1).index_select(0, _flat_rows(owners, rows)).view(replicas, -1, size)


def collect(selected: Tensor, owners: Tensor | None, rows: int) -> Tensor:
    """The transpose of `select`: gradients of agents that share a row are summed, [R, K, size] → [R, rows, size]."""
    if rows == 1 or owners is None:
        return selected
    replicas, _, size = selected.shape
    sums = selected.new_zeros(replicas * rows, size)
    return sums.index_add(0, _flat_rows(owners, rows), selected.flatten(0, 1)).view(replicas, rows, size)


def _flat_rows(owners: Tensor, rows: int) -> Tensor:
    """Owners [R, K], numbers in 0 … rows − 1 → row numbers [R·K] into a buffer [R·rows, size]."""
    return (owners + rows * torch.arange(len(owners), device=owners.device)[:, None]).flatten()


def standardised(x: Tensor) -> Tensor:
    """Layer normalisation over features (ε = 1e-5) without its scale and shift: `StandardTrunk.layers` puts those
    into the next linear layer."""
    return F.layer_norm(x, x.shape[-1:])


def norm_shapes(name: str, size: int) -> Shapes:
    """Scale and shift of a LayerNorm."""
    return {f"{name}.weight": ((size,), constant(1.0)), f"{name}.bias": ((size,), constant(0.0))}


def dense_shapes(name: str, inputs: int, outputs: int, gain: float) -> Shapes:
    """Parameters of a linear layer."""
    return {
        f"{name}.weight": ((inputs, outputs), orthogonal(gain)),
        f"{name}.bias": ((outputs,), constant(0.0)),
    }


def padded(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """For matrices with one column torch calls another BLAS routine for one network than for several. Padded to two
    columns, a seed alone and the same seed in a stack agree bit for bit."""
    return (weight, bias) if weight.shape[-1] > 1 else (F.pad(weight, (0, 1)), F.pad(bias, (0, 1)))


def head(p: dict[str, Tensor], name: str, features: Tensor, outputs: int) -> Tensor:
    """The last linear layer: [R, K, C, L, H] → [R, K, C, L, outputs]."""
    bias = p[f"{name}.bias"]
    rows = features.reshape(features.shape[0], bias.shape[1], -1, features.shape[-1])
    return linear(rows, p[f"{name}.weight"], bias).reshape(*features.shape[:-1], -1)[..., :outputs]
