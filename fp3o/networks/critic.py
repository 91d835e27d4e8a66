"""The critic, owned as the trunk is, and the running standardisation of its targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fp3o.networks.sharing import Sharing
from fp3o.networks.stacked import ParameterLayout, dense_shapes, head, select, standardised
from fp3o.networks.trunk import Trunk


@dataclass(frozen=True)
class Critic:
    """Shapes and functions of the critics; parameters are passed in, as one flat buffer [R, trunk owners, size]."""

    trunk: Trunk
    sharing: Sharing

    layout: ParameterLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        layout = ParameterLayout(self.trunk.shapes() | dense_shapes("v_out", self.trunk.width, 1, 1.0))
        object.__setattr__(self, "layout", layout)

    def initialise(self, generator: torch.Generator) -> Tensor:
        """Initial parameters of one replica, [trunk owners, size]."""
        return self.layout.initialise(self.sharing.trunks, generator)

    def rows(self, flat: Tensor, owners: Tensor | None) -> dict[str, Tensor]:
        """Named parameters of K agents with these owners [R, K], [R, K or 1, *shape] each (see `select`)."""
        return self.layout.views(select(flat, owners))

    def layers(self, p: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights derived from the parameters (`Trunk.layers`), computed once per change of them."""
        return self.trunk.layers(p, "v_out")

    def value(
        self, layers: dict[str, Tensor], state: Tensor, hidden: Tensor | None, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """V in units of the normaliser, [R, K, C, L], of states [R, K, C, L, S]; and the memory after each step.

        Arguments as for `Trunk.features`.
        """
        features, states = self.trunk.features(layers, state, hidden, keep)
        return head(layers, "v_out", features, 1).squeeze(-1), states

    def value_of_state(self, layers: dict[str, Tensor], hidden: Tensor) -> Tensor:
        """Of a `StandardTrunk`: normalised values [R, K, C, L] from GRU states [R, K, C, L, H] after the steps."""
        return head(layers, "v_out", standardised(hidden), 1).squeeze(-1)


# Of the value normaliser, as in on-policy (MAPPO's code).
DECAY = 0.99999
VARIANCE_FLOOR = 1e-2
SMALLEST_WEIGHT = 1e-5  # avoids 0/0: before the first update the std is √VARIANCE_FLOOR = 0.1


class Normaliser(NamedTuple):
    """Running mean and mean square of critic targets, [R, trunk owners] each, debiased as Adam's moments are.

    The release calls it PopArt, but never rescales the output layer, which is what PopArt adds.
    """

    mean_sum: Tensor
    square_sum: Tensor
    weight: Tensor

    @classmethod
    def fresh(cls, replicas: int, owners: int) -> Normaliser:
        return cls(*(torch.zeros(replicas, owners) for _ in range(3)))

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and std [R, owners]."""
        weight = self.weight.clamp(min=SMALLEST_WEIGHT)
        mean = self.mean_sum / weight
        return mean, (self.square_sum / weight - mean**2).clamp(min=VARIANCE_FLOOR).sqrt()

    def update_(self, mean: Tensor, square: Tensor, rows: Tensor) -> None:
        """One step in place towards a batch's mean and mean square, for the rows [R, owners] that learn."""
        for running, batch in zip(self, (mean, square, torch.ones_like(mean)), strict=True):
            running.copy_(torch.where(rows, running * DECAY + batch * (1 - DECAY), running))
