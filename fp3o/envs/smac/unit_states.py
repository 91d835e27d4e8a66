"""The state of all units of a batch of battles: what both backends report."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fp3o.envs.smac.layouts import Array


class UnitStates(NamedTuple):
    """Arrays [N, U], allies first. The backends overwrite theirs: copy what is needed longer."""

    x: Array  # cells
    y: Array
    health: Array
    shield: Array
    cooldown: Array  # game loops until the weapon is ready
    alive: Array  # bool


def empty_units(slots: int, units: int) -> UnitStates:
    """Positions in double precision, in which the game gives them."""
    shape = (slots, units)
    return UnitStates(
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, bool),
    )
