"""Records battles of either backend while they are played."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fp3o.envs.interface import Seeds, Transition
from fp3o.envs.smac.battlefield import Battlefield, UnitStates
from fp3o.envs.smac.check.playing import Player, lost_battles, play
from fp3o.envs.smac.check.recording import PER_BATTLE, UNIT_TYPES, Recording, outcomes_of
from fp3o.envs.smac.layouts import Array


class Recorder:
    """A `Watch` for `play` that records the battles; `recording` returns them."""

    def __init__(self, player: str) -> None:
        self.player = player

    def __call__(self, env: Battlefield, actions: Array | None, transition: Transition | None) -> None:
        units = UnitStates(*(array.astype(UNIT_TYPES[name]) for name, array in env.units._asdict().items()))
        if actions is None or transition is None:
            self._env, self._frames, self._actions = env, [units], []
            self._begun = np.zeros(env.slots, np.int64)
            self._lengths, self._returns = np.zeros(env.slots, np.int32), np.zeros(env.slots)
            return
        self._frames.append(units)
        self._actions.append(actions.astype(np.int16))
        # Of a battle that the game has lost nothing is kept: this frame is the start of the next one.
        self._begun[lost_battles(transition)] = len(self._actions)
        for episode in transition.episodes:
            self._lengths[episode.slot], self._returns[episode.slot] = episode.length, episode.total_return

    def recording(self) -> Recording:
        time = np.arange(self._lengths.max() + 1)[:, None]
        battle = np.arange(len(self._lengths))
        frame = self._begun + np.minimum(time, self._lengths)
        units = UnitStates(*(np.stack(arrays)[frame, battle] for arrays in zip(*self._frames, strict=True)))
        chosen = np.stack(self._actions)[np.minimum(frame, len(self._actions) - 1)[:-1], battle]
        identity = json.loads(json.dumps(self._env.identity()))
        return Recording(
            self._env.scenario.name,
            identity["engine"],
            self.player,
            identity,
            units,
            np.where(time[:-1, :, None] < self._lengths[:, None], chosen, np.int16(-1)),
            self._lengths.copy(),
            outcomes_of(units.alive[-1], self._env.spec.agents),
            self._returns.copy(),
        )


def join(parts: Sequence[Recording]) -> Recording:
    """Batches of battles of one player in one environment as one recording."""
    longest = max(len(part.actions) for part in parts)

    def together(arrays: Sequence[Array], pad: Callable[[Array, int], Array]) -> Array:
        return np.concatenate(
            [pad(array, longest - len(part.actions)) for array, part in zip(arrays, parts, strict=True)], axis=1
        )

    def last_row(array: Array, more: int) -> Array:
        return np.concatenate([array, np.repeat(array[-1:], more, axis=0)])

    def no_action(array: Array, more: int) -> Array:
        return np.concatenate([array, np.full((more, *array.shape[1:]), -1, array.dtype)])

    numbers: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in parts]) for name in PER_BATTLE}
    return parts[0]._replace(
        units=UnitStates(*(together(arrays, last_row) for arrays in zip(*(part.units for part in parts), strict=True))),
        actions=together([part.actions for part in parts], no_action),
        **numbers,
    )


def first_battles(recording: Recording, count: int) -> Recording:
    """The first battles of a recording."""
    longest = int(recording.lengths[:count].max())
    return recording._replace(
        units=UnitStates(*(array[: longest + 1, :count] for array in recording.units)),
        actions=recording.actions[:longest, :count],
        **{name: getattr(recording, name)[:count] for name in PER_BATTLE},
    )


def record(env: Battlefield, player: Player, seeds: Seeds, name: str) -> Recording:
    """One battle per slot, played and recorded. name: of the player."""
    recorder = Recorder(name)
    play(env, player, seeds, recorder)
    return recorder.recording()
