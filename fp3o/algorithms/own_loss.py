"""Losses that an algorithm brings along (`Turn.loss`, `Turn.critic_loss`)."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from fp3o.errors import UserError
from fp3o.registry import failure
from fp3o.source_files import source_file

Loss: TypeAlias = Callable[[Any], Tensor]

_KNOWN: dict[CodeType, Loss] = {}


def plain_function(loss: Loss | None, where: str) -> Loss | None:
    """The function that stands for all of the same code: one that is made anew in each iteration is compiled once.

    UserError for functions that hold values besides their code: a compiled step would never see them change.
    """
    if loss is None:
        return None
    if not isinstance(loss, FunctionType) or loss.__closure__ or loss.__defaults__ or loss.__kwdefaults__:
        held = ", ".join(loss.__code__.co_freevars) if isinstance(loss, FunctionType) else type(loss).__name__
        raise UserError(
            f"{where} must be a plain function of the minibatch, without variables of a function around it or default "
            f"arguments{f' (it has {held})' if held else ''}; allowed: Turn(inputs={{…}}) for what it needs besides"
        )
    return _KNOWN.setdefault(loss.__code__, loss)


def own_loss(loss: Loss, batch: Any, like: Tensor) -> Tensor:
    """The loss of each sample, shaped as `like`; UserError if the function fails or returns something else."""
    name = getattr(loss, "__name__", "loss")
    try:
        term = loss(batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise UserError(f"loss {name} fails: {failure(error, source_file(loss))}") from error
    if not isinstance(term, Tensor) or term.shape != like.shape:
        seen = tuple(term.shape) if isinstance(term, Tensor) else type(term).__name__
        raise UserError(f"loss {name} returns {seen}; allowed: a tensor [R, K, C, L] = {tuple(like.shape)}")
    return term
