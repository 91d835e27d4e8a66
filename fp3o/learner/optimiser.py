"""Adam and gradient-norm clipping on flat buffers [R, P, size], for some of their rows.

Plain Adam on the whole buffer would be wrong: rows that do not learn in a turn would still move by their momentum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

BETA1, BETA2 = 0.9, 0.999
NORM_EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


class Moments(NamedTuple):
    """Adam's state: first and second moment [R, P, size] and a step count per row [R, P]."""

    first: Tensor
    second: Tensor
    steps: Tensor

    @classmethod
    def fresh(cls, parameters: Tensor) -> Moments:
        zeros = torch.zeros_like(parameters, requires_grad=False)
        return cls(zeros, zeros.clone(), zeros[..., 0].clone())


def adam_(
    parameters: Tensor, gradient: Tensor, moments: Moments, rate: Tensor | float, eps: float, rows: Tensor
) -> None:
    """One Adam step, in place, for the rows [R, P] bool that learn; other rows and their moments do not change."""
    steps = moments.steps + 1
    first = moments.first.lerp(gradient, 1 - BETA1)
    second = moments.second * BETA2 + (1 - BETA2) * gradient * gradient
    # 1 − βᵗ by expm1: accurate for small t and, unlike a power, with the same bits for a seed alone and in a stack.
    scale = -rate / torch.expm1(steps * math.log(BETA1))
    denominator = second.sqrt() / (-torch.expm1(steps * math.log(BETA2))).sqrt()[..., None] + eps
    learns = rows[..., None]
    parameters.copy_(torch.where(learns, parameters - scale[..., None] * (first / denominator), parameters))
    moments.first.copy_(torch.where(learns, first, moments.first))
    moments.second.copy_(torch.where(learns, second, moments.second))
    moments.steps.copy_(torch.where(rows, steps, moments.steps))


def squared_norm(gradient: Tensor) -> Tensor:
    """Squared norm of each row: [R, P, size] → [R, P]."""
    return (gradient * gradient).sum(-1)


def clip_factor(norm: Tensor, largest: float) -> Tensor:
    """The factor by which gradients with this norm are scaled, so that it does not exceed `largest`."""
    return (largest / (norm + NORM_EPSILON)).clamp(max=1.0)
