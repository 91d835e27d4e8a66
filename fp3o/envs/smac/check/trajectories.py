"""Compares two recordings of one map, such as one of the game and one of the embedded engine: how well the engine
predicts the next steps (`replay.py`), how long battles last, and who survives them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.stats

from fp3o.envs.smac.check.recording import Recording, as_the_game_tells
from fp3o.envs.smac.check.replay import HORIZON, Errors, Replay, engine_options, pieces_of
from fp3o.envs.smac.layouts import Array
from fp3o.errors import UserError


class Course(NamedTuple):
    """One number per battle: arrays [N]."""

    contact: Array  # steps until the first unit of either side is hurt; the length where nobody ever is
    length: Array  # steps
    allies: Array  # that survive
    enemies: Array


def course(recording: Recording) -> Course:
    vitality = recording.units.health + recording.units.shield
    hurt = (vitality[1:] < vitality[:-1]).any(2)
    last = recording.units.alive[-1]
    return Course(
        np.where(hurt.any(0), hurt.argmax(0) + 1, recording.lengths),
        recording.lengths,
        last[:, : recording.agents].sum(1),
        last[:, recording.agents :].sum(1),
    )


class Difference(NamedTuple):
    """Of one number of `Course` between two recordings."""

    name: str
    first: float
    """Mean over battles."""
    second: float
    p: float
    """Kolmogorov–Smirnov: how probable as large a difference is if both have the same distribution."""


class Comparison(NamedTuple):
    """The first recording (the game's, say) against the engine and against a second recording, of the engine."""

    replayed: Errors
    """Of the engine that starts from the first recording's states."""
    standing: Errors
    """Of the prediction that nothing moves."""
    floor: Errors
    """Of the engine that starts from the second recording's states, given only what the first recording has: the error
    that remains if the model is right."""
    floor_standing: Errors
    """Of the prediction that nothing moves, in the second recording: its units may have gone further."""
    courses: tuple[Difference, ...]


def compare(first: Recording, second: Recording, horizon: int = HORIZON, pieces: int = 1000) -> Comparison:
    """second: a recording of the embedded engine with the same player; its options are those of the prediction."""
    if first.map != second.map:
        raise UserError(f"recordings of {first.map} and {second.map} cannot be compared; allowed: of one map")
    if second.backend != "embedded":
        raise UserError(f"the second recording is of {second.backend}; allowed: one of the embedded engine")
    options = engine_options(second)
    alike = second if first.backend == "embedded" else as_the_game_tells(second)
    replays = [Replay(one, pieces_of(one, horizon, pieces), horizon, options) for one in (first, alike)]
    courses = zip(Course._fields, course(first), course(second), strict=True)
    replayed, floor = ((replay.errors(), replay.errors_of_standing()) for replay in replays)
    return Comparison(
        *replayed,
        *floor,
        tuple(
            Difference(name, float(a.mean()), float(b.mean()), float(scipy.stats.ks_2samp(a, b).pvalue))
            for name, a, b in courses
        ),
    )
