"""The standard network as a plain torch.nn.Module for one agent: for export, and to hold `StandardTrunk` to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from fp3o.networks.trunk import StandardTrunk


class StandardModule(nn.Module):
    """Parameters have the names of `StandardTrunk.shapes`; matrices are [out, in], as torch has them."""

    def __init__(self, trunk: StandardTrunk) -> None:
        super().__init__()
        self.memory = trunk.memory
        self.activation = torch.relu if trunk.activation == "relu" else torch.tanh
        self.names = [f"fc{number + 1}" for number in range(trunk.hidden_layers)]
        self.feature_norm = nn.LayerNorm(trunk.inputs)
        for number, name in enumerate(self.names):
            self.add_module(name, nn.Linear(trunk.width if number else trunk.inputs, trunk.width))
            self.add_module(f"{name}_norm", nn.LayerNorm(trunk.width))
        if trunk.memory:
            self.gru, self.gru_norm = nn.GRUCell(trunk.width, trunk.width), nn.LayerNorm(trunk.width)

    def forward(
        self, observation: Tensor, available: Tensor | None = None, memory: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        x: Tensor = self.feature_norm(observation)
        for name in self.names:
            x = self.get_submodule(f"{name}_norm")(self.activation(self.get_submodule(name)(x)))
        if not self.memory:
            return x
        state = self.gru(x, memory)
        return self.gru_norm(state), state
