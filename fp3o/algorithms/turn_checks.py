"""Checks every turn that a user's algorithm yields; a mistake is one line that names the turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fp3o.algorithms.own_loss import plain_function
from fp3o.algorithms.turns import Context, Turn
from fp3o.errors import UserError
from fp3o.registry import failure
from fp3o.source_files import source_file

# Axes of a turn's tensors. R: replicas (seeds), T: time, N: environments, A: agents, K: agents of the turn.
AXES = {
    "agents": "RK",
    "learners": "RK",
    "weight": "RTNA",
    "others": "RKK",
    "advantage": "RTNA",
    "returns": "RTNA",
    "clip_range": "RK",
    "go": "R",
}
TRUTHS = ("learners", "others", "go")  # must be boolean
CHOICES = {"clip": ("own", "product", "joint"), "learn": ("both", "actor", "critic")}


def checked(name: str, turns: Callable[[Context], Iterator[Turn]], context: Context) -> Iterator[Turn]:
    """The turns of an iteration; an exception in the generator, or a wrong turn, becomes a UserError."""
    generator, number = turns(context), 0
    while True:
        number += 1
        try:
            turn = next(generator)
        except StopIteration:
            break
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            said = failure(error, source_file(turns))
            raise UserError(f"algorithm {name} fails before its turn {number}: {said}") from error
        _check(f"algorithm {name}, turn {number}", turn, context)
        # Copied: it may hold state that the algorithm changes before the records are written.
        yield turn._replace(records={key: value.clone() for key, value in turn.records.items()})
    if number == 1:
        raise UserError(f"algorithm {name} yields no turn; allowed: one or more per iteration")


def _check(where: str, turn: object, context: Context) -> None:
    """UserError unless `turn` is a Turn with allowed values; tensors: right shape and type, finite (see `_sound`)."""
    if not isinstance(turn, Turn):
        raise UserError(f"{where}: it is a {type(turn).__name__}; allowed: fp3o.Turn")
    if isinstance(turn.epochs, bool) or not isinstance(turn.epochs, int) or turn.epochs < 0:
        raise UserError(f"{where}: epochs = {turn.epochs!r} is not allowed; allowed: a whole number")
    for field, allowed in CHOICES.items():
        if (chosen := getattr(turn, field)) not in allowed:
            raise UserError(f"{where}: {field} = {chosen!r} is not allowed; allowed: {', '.join(allowed)}")
    for field in ("loss", "critic_loss"):
        plain_function(getattr(turn, field), f"{where}: {field}")
    sizes = dict(zip("RTNA", context.advantage.shape, strict=True))
    sizes["K"] = sizes["A"] if turn.agents is None or turn.agents.dim() != 2 else turn.agents.shape[1]
    named = {field: (getattr(turn, field), axes) for field, axes in AXES.items()}
    named |= {f"records[{key!r}]": (value, "R") for key, value in turn.records.items()}
    named |= {
        f"inputs[{key!r}]": (value, "RTNA" if isinstance(value, Tensor) and value.dim() > 1 else "R")
        for key, value in turn.inputs.items()
        if not isinstance(value, (int, float))
    }
    for field, (value, axes) in named.items():
        if value is None:
            continue
        wanted = tuple(sizes[axis] for axis in axes)
        if not isinstance(value, Tensor) or tuple(value.shape) != wanted:
            seen = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"{where}: {field} is {seen}; allowed: a tensor [{', '.join(axes)}] = {wanted}")
        if field in TRUTHS and value.dtype != torch.bool:
            raise UserError(f"{where}: {field} holds {value.dtype}; allowed: torch.bool")
        if field == "agents" and (value.dtype != torch.int64 or not _within(value, sizes["A"])):
            raise UserError(f"{where}: agents holds {value.dtype}; allowed: torch.int64, 0 … {sizes['A'] - 1}")
        if field.startswith(("weight", "advantage", "returns", "clip_range", "inputs")) and not _sound(value, context):
            raise UserError(f"{where}: {field} has values that are not finite (NaN or infinity)")


def _within(value: Tensor, agents: int) -> bool:
    return bool(((value >= 0) & (value < agents)).all())


def _sound(value: Tensor, context: Context) -> bool:
    """Whether `value` [R, …] is finite in every healthy replica.

    A replica that has diverged has non-finite advantages, returns or ratios: there the algorithm is not to blame.
    """
    bad = ~_finite(value)
    if not bool(bad.any()):
        return True
    healthy = _finite(context.advantage) & _finite(context.returns) & _finite(context.log_ratio())
    return not bool((bad & healthy).any())


def _finite(value: Tensor) -> Tensor:
    """Which replicas of a tensor [R, …] are wholly finite: [R], bool."""
    return torch.isfinite(value).reshape(len(value), -1).all(1)
