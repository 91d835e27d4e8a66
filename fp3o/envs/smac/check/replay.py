"""Replays pieces of recorded battles in the embedded engine: how far off is it after 1, 2, 3 … steps?

Battles are chaotic: played twice from the same start they differ after some seconds. So the engine starts from
the recorded state of a step (`resuming.py` reconstructs what is not recorded), takes the recorded actions for a few
steps, and its units are compared with the recorded ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import Steering
from fp3o.envs.smac.battlefield import UnitStates
from fp3o.envs.smac.check.recording import Recording
from fp3o.envs.smac.check.resuming import Resuming, foe_distances
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.layouts import NO_OP, STOP, Array
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.errors import UserError
from fp3o.fields import restored

HORIZON = 4  # steps
SLOTS = 128  # pieces that are replayed at once: bounds the memory


class Pieces(NamedTuple):
    """Where pieces of a recording begin."""

    battle: Array  # [W]
    step: Array  # [W]


class Errors(NamedTuple):
    """Means over pieces and units after 1, 2, … steps: arrays [horizon]."""

    distance: Array  # cells between predicted and recorded positions of units that live in both
    health: Array  # difference of health plus shield, of units that lived at the start; 0 for the dead


class Futures(NamedTuple):
    """Units after 1, 2, … steps: arrays [horizon, W, U]."""

    x: Array
    y: Array
    vitality: Array  # health plus shield; 0 for the dead
    alive: Array


def pieces_of(
    recording: Recording, horizon: int = HORIZON, most: int = 2000, within: float = np.inf, seed: int = 0
) -> Pieces:
    """Pieces of whole `horizon` steps, at most so many, drawn at random; in order of battles and steps.

    within: only those that begin with a unit so near (cells, between centres) to a foe.
    """
    units = recording.units
    step, battle = np.nonzero(np.arange(len(recording.actions))[:, None] + horizon <= recording.lengths)
    if np.isfinite(within):
        x, y, alive = (array[step, battle] for array in (units.x, units.y, units.alive))
        near = foe_distances(x, y, alive, recording.agents).min((1, 2)) <= within
        step, battle = step[near], battle[near]
    if not step.size:
        raise UserError(f"the recording of {recording.map} has no piece of {horizon} steps with foes that near")
    chosen = np.random.default_rng(seed).permutation(step.size)[:most]
    chosen = chosen[np.lexsort((step[chosen], battle[chosen]))]
    return Pieces(battle[chosen], step[chosen])


def engine_options(recording: Recording) -> SmacOptions:
    """Options of the embedded engine for a recording: its own, or the defaults if the game was recorded."""
    if recording.backend != "embedded":
        return SmacOptions()
    options: SmacOptions = restored(recording.identity["options"], SmacOptions)
    return options


class Replay:
    """Pieces of a recording, ready to be predicted again and again with other steering."""

    def __init__(
        self,
        recording: Recording,
        pieces: Pieces,
        horizon: int = HORIZON,
        options: SmacOptions | None = None,
        seed: int = 0,
    ) -> None:
        """options: of the engine that predicts; None: those of the engine that was recorded, the defaults for the game.
        seed: of what is random in it; the same for every prediction."""
        self.recording, self.pieces, self.horizon = recording, pieces, horizon
        count, units = len(pieces.step), recording.units.x.shape[2]
        slots = -(-count // -(-count // SLOTS))  # batches of equal size
        self._env = EmbeddedBattles(
            SCENARIOS[recording.map], slots, auto_reset=False, options=options or engine_options(recording)
        )
        self._own = self._env.steering
        # The last batch is filled up with pieces of the first.
        self._batches = (np.arange(-(-count // slots) * slots) % count).reshape(-1, slots)
        resuming = Resuming(recording, self._env)
        seeds, luck = slot_seeds(seed, "replay", count), np.random.default_rng(seed).random((count, units))
        self._starts = [
            resuming.state(pieces.step[batch], pieces.battle[batch], seeds[batch], luck[batch])
            for batch in self._batches
        ]
        later = pieces.step + np.arange(1, horizon + 1)[:, None]
        self.before = UnitStates(*(array[pieces.step, pieces.battle] for array in recording.units))
        """Recorded units at the start of every piece [W, U]."""
        self.truth = _futures(UnitStates(*(array[later, pieces.battle] for array in recording.units)))
        """What the recording shows."""

    def errors(self, steering: Steering | None = None) -> Errors:
        """Of the engine's predictions. None: the steering that its options say."""
        return self._compare(self.predict(steering))

    def errors_of_standing(self) -> Errors:
        """Of the prediction that nothing moves and nobody is hurt."""
        same = _futures(self.before)
        return self._compare(Futures(*(np.broadcast_to(array, (self.horizon, *array.shape)) for array in same)))

    def predict(self, steering: Steering | None = None) -> Futures:
        env = self._env
        env.steering = steering or self._own
        env.rules = env.rules  # tells the kernel
        predicted: list[Futures] = []
        for batch, start in zip(self._batches, self._starts, strict=True):
            env.load_state_dict(start)
            steps = []
            for ahead in range(self.horizon):
                asked = self.recording.actions[self.pieces.step[batch] + ahead, self.pieces.battle[batch]]
                env.step(self._possible(asked)[..., None])
                steps.append(_futures(UnitStates(*(array.copy() for array in env.units))))
            predicted.append(Futures(*(np.stack(arrays) for arrays in zip(*steps, strict=True))))
        joined = (np.concatenate(arrays, axis=1)[:, : len(self.pieces.step)] for arrays in zip(*predicted, strict=True))
        return Futures(*joined)

    def _possible(self, asked: Array) -> Array:
        """The recorded actions; what the prediction makes impossible (a target out of range …) becomes stop."""
        available = self._env.snapshot().available
        assert available is not None
        allowed = np.take_along_axis(available, asked[..., None].astype(np.int64), -1)[..., 0]
        return np.where(allowed, asked, np.where(available[..., STOP], STOP, NO_OP))

    def _compare(self, predicted: Futures) -> Errors:
        truth, lived = self.truth, self.before.alive
        both = lived & truth.alive & predicted.alive
        distance = np.hypot(predicted.x - truth.x, predicted.y - truth.y)
        lost = np.abs(predicted.vitality - truth.vitality)
        return Errors(_mean(distance, both), _mean(lost, np.broadcast_to(lived, lost.shape)))


def _futures(units: UnitStates) -> Futures:
    return Futures(units.x, units.y, np.where(units.alive, units.health + units.shield, 0), units.alive)


def _mean(values: Array, counted: Array) -> Array:
    """Over pieces and units [horizon, W, U]; NaN where there are none."""
    count = counted.sum((1, 2))
    total = np.where(counted, values, 0).sum((1, 2), dtype=np.float64)
    mean: Array = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean
