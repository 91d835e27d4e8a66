"""Checks of what callers pass to an engine; a mistake is a UserError of one line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import Seeds
from fp3o.errors import UserError
from fp3o.machine import processors


def checked_threads(threads: int, slots: int, least: int) -> int:
    """The number of threads asked for or, for 0, one per processor, but with at least `least` slots each."""
    if threads < 0:
        raise UserError(f"number of threads is {threads}; allowed: 1 or more, or 0 to let the engine choose")
    return min(threads, slots) if threads else max(1, min(processors(), slots // least))


def checked_seeds(seeds: NDArray[Any], slots: int) -> Seeds:
    """A copy of the seeds, checked to be one unsigned 64-bit integer per slot."""
    given = np.asarray(seeds)
    if given.shape != (slots,) or given.dtype.kind not in "ui":
        raise UserError(f"seeds are {given.dtype} {given.shape}; allowed: unsigned 64-bit integers of shape ({slots},)")
    return given.astype(np.uint64)


def checked_integers(actions: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Categorical actions [N, A, sub-actions], checked to be integers."""
    given = np.asarray(actions)
    if given.dtype.kind not in "iu":
        raise UserError(f"actions are {given.dtype}; allowed: integers of shape {shape}")
    if given.shape != shape:
        raise UserError(f"actions have shape {given.shape}; allowed: {shape} (environments, agents, sub-actions)")
    return given


def checked_choices(actions: NDArray[Any], choices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Categorical actions [N, A, sub-actions], each checked to be less than the number of choices at its place."""
    given = checked_integers(actions, choices.shape)
    whole = given.astype(np.int64, copy=False)
    # Read as unsigned, negative numbers are huge: one comparison finds those too.
    if (whole.view(np.uint64) >= choices.view(np.uint64)).any():
        slot, agent, part = (int(i) for i in np.argwhere((whole < 0) | (whole >= choices))[0])
        raise UserError(
            f"action {int(whole[slot, agent, part])} of agent {agent} in environment {slot} does not exist; "
            f"allowed: 0 to {int(choices[slot, agent, part]) - 1}"
        )
    return whole


def all_finite(numbers: NDArray[Any]) -> bool:
    """Whether none is infinite or NaN. If one is, so is the sum of squares, which takes half the time."""
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def checked_reals(actions: NDArray[Any], agents: int, size: int, slots: int) -> NDArray[Any]:
    """Gaussian actions [N, A, dimensions], checked to be finite numbers; of the type they were given in."""
    given = np.asarray(actions)
    shape = (slots, agents, size)
    if given.dtype.kind not in "fiu":
        raise UserError(f"actions are {given.dtype}; allowed: numbers of shape {shape}")
    if given.shape != shape:
        raise UserError(f"actions have shape {given.shape}; allowed: {shape} (environments, agents, dimensions)")
    if not all_finite(given):
        slot, agent, _ = (int(i) for i in np.argwhere(~np.isfinite(given))[0])
        raise UserError(f"action of agent {agent} in environment {slot} is not finite; allowed: finite numbers")
    return given
