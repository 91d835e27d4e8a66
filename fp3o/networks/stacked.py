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
from fp3o.networks.recurrent import gru

Initialiser = Callable[[Tensor, torch.Generator], None]


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
    """Parameters [R, K, size] of K agents; [R, 1, size] where all agents use one row: `trunk` then treats the samples
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
    """Layer normalisation over features (ε = 1e-5) without its scale and shift: `folded` puts those into the next
    linear layer."""
    return F.layer_norm(x, x.shape[-1:])


def folded(p: dict[str, Tensor], head: str) -> dict[str, Tensor]:
    """Parameters by name with each LayerNorm's scale and shift multiplied into the linear layer after it.

    The network computes the same function, but scaling costs work per weight instead of per sample. `head`: name of the
    output layer's parameters, with {} for weight or bias.
    """
    layers = {name: x for name, x in p.items() if "norm" not in name}
    pairs = [("feature_norm", "fc1.{}"), ("fc1_norm", "fc2.{}")]
    pairs += [("fc2_norm", "gru.{}_ih"), ("gru_norm", head)] if "gru_norm.weight" in p else [("fc2_norm", head)]
    for norm, layer in pairs:
        weight, bias = p[layer.format("weight")], p[layer.format("bias")]
        bias = bias + (p[f"{norm}.bias"][..., None] * weight).sum(-2)
        weight = p[f"{norm}.weight"][..., None] * weight
        if weight.shape[-1] == 1:
            # For matrices with one column torch calls another BLAS routine for one network than for several. Padded to
            # two columns, a seed alone and the same seed in a stack agree bit for bit.
            weight, bias = F.pad(weight, (0, 1)), F.pad(bias, (0, 1))
        layers |= {layer.format("weight"): weight, layer.format("bias"): bias}
    return layers


def _norm(name: str, size: int) -> dict[str, tuple[tuple[int, ...], Initialiser]]:
    return {f"{name}.weight": ((size,), constant(1.0)), f"{name}.bias": ((size,), constant(0.0))}


def _dense(name: str, inputs: int, outputs: int, gain: float) -> dict[str, tuple[tuple[int, ...], Initialiser]]:
    return {
        f"{name}.weight": ((inputs, outputs), orthogonal(gain)),
        f"{name}.bias": ((outputs,), constant(0.0)),
    }


def trunk_shapes(inputs: int, hidden: int, recurrent: bool) -> dict[str, tuple[tuple[int, ...], Initialiser]]:
    """Parameters of the release's trunk: LayerNorm of the input, two linear layers each followed by ReLU and LayerNorm,
    and with `recurrent` a GRU followed by LayerNorm."""
    shapes = _norm("feature_norm", inputs)
    for name, size in (("fc1", inputs), ("fc2", hidden)):
        shapes |= _dense(name, size, hidden, 2**0.5) | _norm(f"{name}_norm", hidden)
    if recurrent:
        # Gates in the order reset, update, new; orthogonal over the stacked [3H, H] matrix with gain 1.
        for name in ("ih", "hh"):
            shapes[f"gru.weight_{name}"] = ((hidden, 3 * hidden), orthogonal(1.0))
            shapes[f"gru.bias_{name}"] = ((3 * hidden,), constant(0.0))
        shapes |= _norm("gru_norm", hidden)
    return shapes


def head_shapes(name: str, hidden: int, outputs: int, gain: float) -> dict[str, tuple[tuple[int, ...], Initialiser]]:
    """Parameters of the last linear layer."""
    return _dense(name, hidden, outputs, gain)


def trunk(p: dict[str, Tensor], x: Tensor, hidden: Tensor | None, keep: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Features [R, K, C, L, H] of inputs [R, K, C, L, in], C chunks of L steps, and the GRU state after the last step.

    p: parameters from `folded`. hidden [R, K, C, H]: GRU state before the first step. keep [R, K, C, L]: 0 where a step
    starts an episode and the state is reset.
    """
    replicas, agents, chunks, length, _ = x.shape
    owners = p["fc1.bias"].shape[1]  # 1 where all agents use one network: their samples form one batch
    x = x.reshape(replicas, owners, -1, x.shape[-1])
    if "gru.weight_ih" in p:
        assert hidden is not None
        assert keep is not None
        inputs = gate_inputs(p, x).unflatten(2, (-1, length))
        state = hidden.reshape(replicas, owners, -1, hidden.shape[-1])
        mask = keep.reshape(replicas, owners, -1, length)
        outputs = gru(inputs, state, mask, p["gru.weight_hh"], p["gru.bias_hh"])
        hidden = outputs[:, :, :, -1].reshape(replicas, agents, chunks, -1)
        x = standardised(outputs.flatten(2, 3))
    else:
        x = _dense_layers(p, x)
    return x.reshape(replicas, agents, chunks, length, -1), hidden


def _dense_layers(p: dict[str, Tensor], x: Tensor) -> Tensor:
    x = standardised(x)
    x = standardised(F.relu(linear(x, p["fc1.weight"], p["fc1.bias"])))
    return standardised(F.relu(linear(x, p["fc2.weight"], p["fc2.bias"])))


def gate_inputs(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """The GRU's gates' contributions from the input: [R, P, rows, in] → [R, P, rows, 3H]."""
    return linear(_dense_layers(p, x), p["gru.weight_ih"], p["gru.bias_ih"])


def head(p: dict[str, Tensor], name: str, features: Tensor, outputs: int) -> Tensor:
    """The last linear layer: [R, K, C, L, H] → [R, K, C, L, outputs]."""
    bias = p[f"{name}.bias"]
    rows = features.reshape(features.shape[0], bias.shape[1], -1, features.shape[-1])
    return linear(rows, p[f"{name}.weight"], bias).reshape(*features.shape[:-1], -1)[..., :outputs]
