"""Plays battles in either backend, one per slot; a script or the policies of a run choose the actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from fp3o.envs.interface import Bools, Episode, Seeds, Transition
from fp3o.envs.smac.battlefield import Battlefield
from fp3o.envs.smac.check.scripts import Script, Sight, sight_of
from fp3o.envs.smac.layouts import Array
from fp3o.errors import UserError

Watch: TypeAlias = Callable[[Battlefield, Array | None, Transition | None], None]
"""Called with the battles after their start, without actions [N, A] and transition, and after every step."""
MOST_LOST = 10  # battles of a slot that the game may lose (it crashes) and start again


def look(env: Battlefield) -> Sight:
    """What scripts see."""
    available = env.snapshot().available
    assert available is not None
    return sight_of(env.units, available, env.steps)


class Player(Protocol):
    """Chooses the actions of all agents of all battles."""

    def act(self, env: Battlefield) -> Array:
        """Actions [N, A]."""

    def restart(self, slots: Bools) -> None:
        """Begin anew in these slots [N], whose battle the game has lost."""


class ScriptPlayer:
    """A script with its own random numbers."""

    def __init__(self, script: Script, seed: int = 0) -> None:
        self._script = copy.deepcopy(script)  # one that remembers targets has a memory of its own
        self._generator = np.random.default_rng(seed)

    def act(self, env: Battlefield) -> Array:
        return self._script(look(env), self._generator)

    def restart(self, slots: Bools) -> None:
        """Scripts notice by the number of steps."""


def play(env: Battlefield, player: Player, seeds: Seeds, watch: Watch | None = None) -> list[Episode]:
    """Exactly one battle per slot of an environment without auto-reset, in the order in which they end."""
    env.reset(seeds)
    if watch is not None:
        watch(env, None, None)
    episodes: list[Episode] = []
    for _ in range(env.spec.episode_limit * (1 + MOST_LOST)):
        actions = player.act(env)
        transition = env.step(actions[..., None])
        episodes += transition.episodes
        if watch is not None:
            watch(env, actions, transition)
        if len(episodes) == env.slots:
            return episodes
        if (lost := lost_battles(transition)).any():
            player.restart(lost)
    raise UserError(f"{env.slots - len(episodes)} of {env.slots} battles did not end in {MOST_LOST} attempts more")


def lost_battles(transition: Transition) -> Bools:
    """Slots [N] whose battle the simulator lost in this step: cut short, but not reported. They have begun another."""
    lost: Bools = transition.truncated.copy()
    lost[[episode.slot for episode in transition.episodes]] = False
    return lost
