"""Trunks: what a network computes before its last linear layer, for all seeds and owners at once.

Actors and critics are a trunk and a head. `StandardTrunk` is the release's, written out; a network of a plug-in is a
`ModuleTrunk` (fp3o/networks/module_trunk.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fp3o.networks.products import linear
from fp3o.networks.recurrent import gru
from fp3o.networks.stacked import Shapes, constant, dense_shapes, norm_shapes, orthogonal, padded, standardised
from fp3o.networks.standard_module import StandardModule

# Gain of the orthogonal initialisation, as in on-policy (torch.nn.init.calculate_gain).
GAINS = {"relu": 2**0.5, "tanh": 5 / 3}


class Trunk(Protocol):
    """Shapes and functions; parameters are passed in by name, [R, P, *shape] each."""

    @property
    def inputs(self) -> int:
        """Numbers of an input."""

    @property
    def width(self) -> int:
        """Number of features."""

    @property
    def memory(self) -> int:
        """Numbers carried from step to step; 0: none."""

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may compute features at the same time."""

    def shapes(self) -> Shapes:
        """The parameters of one network."""

    def layers(self, p: dict[str, Tensor], head: str) -> dict[str, Tensor]:
        """Weights derived from the parameters of trunk and head, computed once per change of them. head: its name."""

    def buffers(self, device: torch.device) -> dict[str, Tensor]:
        """Constants of a module, the same for every network, that `layers` adds where they are not given."""

    def features(
        self,
        layers: dict[str, Tensor],
        x: Tensor,
        hidden: Tensor | None,
        keep: Tensor | None,
        available: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Features [R, K, C, L, width] of inputs [R, K, C, L, in], C chunks of L steps, and the memory after each step.

        hidden [R, K, C, memory]: before the first step. keep [R, K, C, L]: 0 where a step starts an episode and the
        memory is reset. available [R, K, C, L, D]: legal choices, of actors.
        """

    def module(self, p: dict[str, Tensor]) -> nn.Module:
        """One network with these parameters, *shape each, as a plain module; called as those of plug-ins are."""


@dataclass(frozen=True)
class StandardTrunk:
    """The release's: LayerNorm of the input, linear layers each followed by an activation and LayerNorm, and with
    `recurrent` a GRU followed by LayerNorm."""

    inputs: int
    width: int
    recurrent: bool
    hidden_layers: int = 2
    activation: Literal["relu", "tanh"] = "relu"
    thread_safe = True

    @property
    def memory(self) -> int:
        return self.width if self.recurrent else 0

    def shapes(self) -> Shapes:
        shapes = norm_shapes("feature_norm", self.inputs)
        for number in range(self.hidden_layers):
            name, size = f"fc{number + 1}", self.width if number else self.inputs
            shapes |= dense_shapes(name, size, self.width, GAINS[self.activation])
            shapes |= norm_shapes(f"{name}_norm", self.width)
        if self.recurrent:
            # Gates in the order reset, update, new; orthogonal over the stacked [3H, H] matrix with gain 1.
            for name in ("ih", "hh"):
                shapes[f"gru.weight_{name}"] = ((self.width, 3 * self.width), orthogonal(1.0))
                shapes[f"gru.bias_{name}"] = ((3 * self.width,), constant(0.0))
            shapes |= norm_shapes("gru_norm", self.width)
        return shapes

    def layers(self, p: dict[str, Tensor], head: str) -> dict[str, Tensor]:
        """Each LayerNorm's scale and shift are multiplied into the linear layer after it: the network computes the same
        function, but scaling costs work per weight instead of per sample."""
        layers = {name: x for name, x in p.items() if "norm" not in name}
        norms = ["feature_norm", *(f"fc{number + 1}_norm" for number in range(self.hidden_layers))]
        after = [f"fc{number + 1}.{{}}" for number in range(self.hidden_layers)]
        if self.recurrent:
            norms, after = [*norms, "gru_norm"], [*after, "gru.{}_ih"]
        for norm, layer in zip(norms, [*after, f"{head}.{{}}"], strict=True):
            weight, bias = p[layer.format("weight")], p[layer.format("bias")]
            bias = bias + (p[f"{norm}.bias"][..., None] * weight).sum(-2)
            weight = p[f"{norm}.weight"][..., None] * weight
            weight, bias = padded(weight, bias)
            layers |= {layer.format("weight"): weight, layer.format("bias"): bias}
        return layers

    def features(
        self,
        layers: dict[str, Tensor],
        x: Tensor,
        hidden: Tensor | None,
        keep: Tensor | None,
        available: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        replicas, agents, chunks, length, _ = x.shape
        owners = layers["fc1.bias"].shape[1]  # 1 where all agents use one network: their samples form one batch
        x = x.reshape(replicas, owners, -1, x.shape[-1])
        states = None
        if self.recurrent:
            assert hidden is not None
            assert keep is not None
            inputs = self.gate_inputs(layers, x).unflatten(2, (-1, length))
            state = hidden.reshape(replicas, owners, -1, hidden.shape[-1])
            mask = keep.reshape(replicas, owners, -1, length)
            outputs = gru(inputs, state, mask, layers["gru.weight_hh"], layers["gru.bias_hh"])
            states = outputs.reshape(replicas, agents, chunks, length, -1)
            x = standardised(outputs.flatten(2, 3))
        else:
            x = self._dense_layers(layers, x)
        return x.reshape(replicas, agents, chunks, length, -1), states

    def buffers(self, device: torch.device) -> dict[str, Tensor]:
        return {}

    def module(self, p: dict[str, Tensor]) -> nn.Module:
        module = StandardModule(self)
        module.load_state_dict({name: p[name].T if p[name].dim() == 2 else p[name] for name in self.shapes()})
        return module

    def _dense_layers(self, layers: dict[str, Tensor], x: Tensor) -> Tensor:
        activation = F.relu if self.activation == "relu" else torch.tanh
        x = standardised(x)
        for number in range(self.hidden_layers):
            x = linear(x, layers[f"fc{number + 1}.weight"], layers[f"fc{number + 1}.bias"])
            x = standardised(activation(x))
        return x

    def gate_inputs(self, layers: dict[str, Tensor], x: Tensor) -> Tensor:
        """The GRU's gates' contributions from the input: [R, P, rows, in] → [R, P, rows, 3H]."""
        return linear(self._dense_layers(layers, x), layers["gru.weight_ih"], layers["gru.bias_ih"])
