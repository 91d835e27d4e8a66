"""Compares a compiled program with what it was made from, before it is used: torch 2.11 compiled an optimiser's step
for CPUs in which some parameters moved wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from fp3o.errors import UserError

# How far a program may be from what it was made from: as a share of a result, or of the change of an input, and in all.
MOST_WRONG, LEAST_WRONG = 0.1, 1e-6


def compared(tensors: list[Tensor]) -> bool:
    """Whether programs of these tensors are compared: on a CPU. Not on a GPU, whose memory the copies might fill."""
    return not any(x.is_cuda for x in tensors)


def check_program(
    program: Callable[..., Iterable[Any]], source: Callable[..., Iterable[Any]], tensors: list[Tensor]
) -> None:
    """Where that is done, call both once on copies of these tensors.

    Takes 0.1 s for five seeds of HalfCheetah. Only reals are compared, as wholes: rounding may change a choice or two.
    """
    if not compared(tensors):
        return
    for right, ours in zip(_outcome(source, tensors), _outcome(program, tensors), strict=True):
        if _far(*torch.broadcast_tensors(right, ours)):
            raise UserError(
                f"torch {torch.__version__} compiles this step wrongly on this processor; "
                "allowed: --path eager, or another version of torch (2.13 is tested)"
            )


def _outcome(function: Callable[..., Iterable[Any]], tensors: list[Tensor]) -> list[Tensor]:
    """Reals that the function gives, and how it changes inputs of reals (one 0 for an input that stays)."""
    copies = [_copy(x) for x in tensors]
    results = [x for x in function(*copies) if isinstance(x, Tensor) and x.is_floating_point()]
    reals = [both for both in zip(copies, tensors, strict=True) if both[0].is_floating_point()]
    return [*results, *(torch.zeros(()) if torch.equal(new, old) else new - old for new, old in reals)]


def _far(right: Tensor, ours: Tensor) -> bool:
    """Whether they differ by more than rounding explains."""
    there = right.isfinite()
    if not there.all():  # a replica has diverged: the others are compared
        there &= ours.isfinite()
        right, ours = right[there], ours[there]
    error, allowed = (ours - right).norm(), MOST_WRONG * right.norm() + LEAST_WRONG * right.numel() ** 0.5
    return not bool(error <= allowed)  # so that not a number is far


def _copy(x: Tensor) -> Tensor:
    """With the same strides; itself if elements share memory, as nothing writes to such a tensor."""
    shared = any(step == 0 and size > 1 for step, size in zip(x.stride(), x.shape, strict=True))
    return x if shared else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
