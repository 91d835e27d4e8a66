"""The actor: a trunk per trunk owner, a head per head owner, and the distribution over actions they compute.

Axes: R replica, K agents at hand, C chunks of L steps, then features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fp3o.envs.interface import ActionSpec
from fp3o.networks.products import sigmoid
from fp3o.networks.sharing import Sharing
from fp3o.networks.stacked import ParameterLayout, constant, dense_shapes, head, select
from fp3o.networks.trunk import Trunk

HEAD_GAIN = 0.01  # of the orthogonal initialisation of heads (paper: gain)
STD_SCALE = 0.5  # the release's setting `std_y_coef`; its `std_x_coef` is 1
UNAVAILABLE = -1e10  # logit of an illegal choice, as in the release


class Owners(NamedTuple):
    """Parameter rows of the K agents at hand, [R, K] each; None where agent a uses row a (nothing to gather)."""

    trunk: Tensor | None
    head: Tensor | None


class Distribution(NamedTuple):
    """Distributions over actions. Gaussian: d independent dimensions. Categorical: one choice per sub-action."""

    location: Tensor
    """Gaussian: mean [R, K, C, L, d]. Categorical: log-probabilities of all sub-actions' choices, concatenated."""
    std: Tensor | None
    """Gaussian: [R, K, C, L, d]. Categorical: None."""


@dataclass(frozen=True)
class Actor:
    """Shapes and functions of the actors; parameters are passed in, as two flat buffers [R, owners, size]."""

    trunk: Trunk
    action: ActionSpec
    gaussian_std: Literal["sigmoid", "exp"]
    sharing: Sharing

    trunk_layout: ParameterLayout = field(init=False, repr=False, compare=False)
    head_layout: ParameterLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shapes = dense_shapes("head", self.trunk.width, self.action.parameters, HEAD_GAIN)
        if self.action.kind == "gaussian":
            # Initial ψ: 1 in the release (σ₀ = 0.5·sigmoid(1) = 0.366), 0 in on-policy (σ₀ = 1).
            start = {"sigmoid": 1.0, "exp": 0.0}[self.gaussian_std]
            shapes["head.log_std"] = ((self.action.width,), constant(start))
        object.__setattr__(self, "head_layout", ParameterLayout(shapes))
        object.__setattr__(self, "trunk_layout", ParameterLayout(self.trunk.shapes()))

    def initialise(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Initial parameters of one replica: trunks [owners, size], then heads [owners, size]."""
        trunks = self.trunk_layout.initialise(self.sharing.trunks, generator)
        return trunks, self.head_layout.initialise(self.sharing.heads, generator)

    def rows(self, trunks: Tensor, heads: Tensor, owners: Owners) -> dict[str, Tensor]:
        """Named parameters of the K agents at hand, trunk first, [R, K or 1, *shape] each (see `select`)."""
        trunk, head = select(trunks, owners.trunk), select(heads, owners.head)
        return self.trunk_layout.views(trunk) | self.head_layout.views(head)

    def layers(self, p: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights derived from the parameters (`Trunk.layers`) and σ, computed once per change of them."""
        sigma = {"std": self.std(p["head.log_std"])} if self.action.kind == "gaussian" else {}
        return self.trunk.layers(p, "head") | sigma

    def distribution(
        self,
        layers: dict[str, Tensor],
        observation: Tensor,
        available: Tensor | None,
        hidden: Tensor | None,
        keep: Tensor | None,
    ) -> tuple[Distribution, Tensor | None]:
        """π(·|o) for observations [R, K, C, L, O], and the memory after the last step.

        available [R, K, C, L, D] bool: legal choices. hidden and keep as for `Trunk.features`.
        """
        features, states = self.trunk.features(layers, observation, hidden, keep, available)
        hidden = None if states is None else states[:, :, :, -1]
        outputs = head(layers, "head", features, self.action.parameters)
        if self.action.kind == "gaussian":
            return Distribution(outputs, layers["std"].expand_as(outputs)), hidden
        if available is not None:
            outputs = torch.where(available, outputs, UNAVAILABLE)
        parts = [torch.log_softmax(part, -1) for part in outputs.split(self.action.sizes, -1)]
        return Distribution(torch.cat(parts, -1) if len(parts) > 1 else parts[0], None), hidden

    def std(self, psi: Tensor) -> Tensor:
        """σ from the parameter ψ [R, K or 1, d], shaped [R, K or 1, 1, 1, d] to broadcast over chunks and time."""
        sigma = STD_SCALE * sigmoid(psi) if self.gaussian_std == "sigmoid" else torch.exp(psi)
        return sigma[:, :, None, None]

    def log_prob(self, d: Distribution, action: Tensor, used: Tensor | None = None) -> Tensor:
        """log π of each agent's action [R, K, C, L, …], summed over its dimensions or sub-actions: [R, K, C, L].

        used: 1 for action dimensions that exist, 0 for padding; broadcasts to the action. None: all exist.
        """
        if d.std is None:
            parts = d.location.split(self.action.sizes, -1)
            chosen = [part.gather(-1, action[..., i : i + 1].long()) for i, part in enumerate(parts)]
            return torch.cat(chosen, -1).sum(-1) if len(chosen) > 1 else chosen[0].squeeze(-1)
        per_dimension = -0.5 * ((action - d.location) / d.std) ** 2 - torch.log(d.std) - 0.5 * math.log(2 * math.pi)
        return _sum(per_dimension, used)

    def entropy(self, d: Distribution, used: Tensor | None = None) -> Tensor:
        """Entropy [R, K, C, L]: summed over dimensions, averaged over sub-actions (as on-policy does for MPE)."""
        if d.std is None:
            parts = [-(part.exp() * part).sum(-1) for part in d.location.split(self.action.sizes, -1)]
            return torch.stack(parts).mean(0) if len(parts) > 1 else parts[0]
        return _sum(0.5 + 0.5 * math.log(2 * math.pi) + torch.log(d.std), used)

    def kl(self, new: Distribution, old: Distribution, used: Tensor | None = None) -> Tensor:
        """Exact KL(new ‖ old) per sample [R, K, C, L]."""
        if new.std is None or old.std is None:
            return (new.location.exp() * (new.location - old.location)).sum(-1)
        ratio = new.std / old.std
        return _sum(0.5 * (ratio**2 + ((new.location - old.location) / old.std) ** 2 - 1) - torch.log(ratio), used)

    def sample(self, d: Distribution, noise: Tensor) -> Tensor:
        """An action from standard normal (Gaussian) or uniform (categorical, one per sub-action) noise."""
        if d.std is not None:
            return d.location + d.std * noise
        choices = []
        for i, part in enumerate(d.location.split(self.action.sizes, -1)):
            # Inverse transform sampling. Scaled by the total probability, which may round to less than the noise.
            probability = part.exp()
            cumulative = probability.cumsum(-1)
            threshold = noise[..., i : i + 1] * cumulative[..., -1:]
            # The first possible choice beyond the threshold; if rounding left none, the last possible one. A GPU sums
            # in parallel: its sums may be a bit larger at a choice of probability 0 than at the one before.
            place, size = torch.arange(part.shape[-1], device=part.device), part.shape[-1]
            preference = torch.where(cumulative > threshold, 2 * size - place, 1 + place)
            choices.append((preference * (probability > 0)).argmax(-1, keepdim=True))
        return torch.cat(choices, -1)

    def mode(self, d: Distribution) -> Tensor:
        """The deterministic action used in evaluation."""
        if d.std is not None:
            return d.location
        return torch.cat([p.argmax(-1, keepdim=True) for p in d.location.split(self.action.sizes, -1)], -1)


def _sum(x: Tensor, used: Tensor | None) -> Tensor:
    return (x if used is None else x * used).sum(-1)
