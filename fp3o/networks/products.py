"""Matrix products and the logistic function for many networks at once: parameters [R, P, …], data [R, P, rows, …]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x·W + b of every network: [R, P, rows, in] → [R, P, rows, out]."""
    # Not baddbmm: it copies the bias to all rows first, and torch's compiler cannot fuse that with what follows. Added
    # before the view: the gradient of an addition in place to a view copies three times.
    y = product(x.flatten(0, 1), weight.flatten(0, 1)).add_(bias.flatten(0, 1)[:, None])
    return y.view(*x.shape[:-1], -1)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """torch.bmm; on a GPU with a faster gradient of the weight (`split_product`)."""
    return split_product(x, weight) if x.is_cuda else torch.bmm(x, weight)


# A weight's gradient is one long sum over rows per network, and few networks leave most of a GPU idle. Summed in pieces
# of at least this many rows, HalfCheetah's step under full sharing took 0.18 instead of 0.24 ms (5 seeds) and 0.24
# instead of 0.33 ms (20 seeds) on an H200.
ROWS_PER_PIECE, MOST_PIECES = 100, 32


class _SplitProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return torch.bmm(gradient, weight.transpose(1, 2)), sum_of_products(x, gradient)


def sum_of_products(x: Tensor, gradient: Tensor) -> Tensor:
    """xᵀ·gradient of [networks, rows, …], computed for pieces of the rows in parallel, then summed."""
    most = max(1, min(MOST_PIECES, x.shape[1] // ROWS_PER_PIECE))
    pieces = next(n for n in range(most, 0, -1) if x.shape[1] % n == 0)
    rows, gradients = (y.reshape(len(y) * pieces, -1, y.shape[2]) for y in (x, gradient))
    partial = torch.bmm(rows.transpose(1, 2), gradients).view(len(x), pieces, x.shape[2], -1)
    return partial.sum(1)


def split_product(x: Tensor, weight: Tensor) -> Tensor:
    """torch.bmm whose gradient of the weight is computed for pieces of the rows in parallel, then summed."""
    result: Tensor = _SplitProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return result


def sigmoid(x: Tensor) -> Tensor:
    """1/(1 + e⁻ˣ), computed by tanh. torch.sigmoid rounds the last few elements of an array differently from the
    others, so a seed trained alone and the same seed trained in a stack would differ in the last bit."""
    return 0.5 * torch.tanh(0.5 * x) + 0.5
