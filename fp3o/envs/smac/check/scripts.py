"""Fixed scripts that play SMAC in either backend, simple enough that one knows how they should do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fp3o.envs.smac.battlefield import UnitStates
from fp3o.envs.smac.layouts import ATTACK, EAST, NORTH, SOUTH, STOP, WEST, Array


class Sight(NamedTuple):
    """What scripts look at: everything."""

    distance: Array  # [N, A, M] to enemies, infinite to the dead
    health: Array  # [N, M] health and shield of enemies, infinite for the dead
    dx: Array  # [N, A, M] toward enemies
    dy: Array
    x: Array  # [N, A]
    y: Array
    available: Array  # [N, A, D]
    cooldown: Array  # [N, A]
    step: Array  # [N]


Script = Callable[[Sight, np.random.Generator], Array]
"""Actions [N, A]."""


def sight_of(units: UnitStates, available: Array, step: Array) -> Sight:
    """available: legal actions [N, A, D], which say how many of the units are agents. step: of each battle [N]."""
    agents = available.shape[1]
    x, y = units.x[:, :agents], units.y[:, :agents]
    dx = units.x[:, None, agents:] - x[:, :, None]
    dy = units.y[:, None, agents:] - y[:, :, None]
    there = units.alive[:, agents:]
    health = np.where(there, units.health[:, agents:] + units.shield[:, agents:], np.inf)
    distance = np.where(there[:, None, :], np.hypot(dx, dy), np.inf)
    return Sight(distance, health, dx, dy, x, y, available, units.cooldown[:, :agents], step)


def legal(action: Array, sight: Sight, otherwise: int = STOP) -> Array:
    """Replace what is not allowed: by `otherwise`, by no-op for the dead."""
    allowed = np.take_along_axis(sight.available, action[..., None], -1)[..., 0]
    fallback = np.where(sight.available[..., STOP], otherwise, 0)
    return np.where(allowed, action, fallback)


def toward(dx: Array, dy: Array, sight: Sight) -> Array:
    """The legal move that goes best in a direction, or stop."""
    gains = np.stack([dy, -dy, dx, -dx], axis=-1)
    gains = np.where(sight.available[..., NORTH : WEST + 1], gains, -np.inf)
    best = gains.argmax(-1)
    move = NORTH + best
    return legal(np.where(gains.max(-1) > 0, move, STOP), sight)


def approach(sight: Sight) -> Array:
    """Walk toward the nearest enemy."""
    nearest = sight.distance.argmin(-1)[..., None]
    return toward(
        np.take_along_axis(sight.dx, nearest, -1)[..., 0], np.take_along_axis(sight.dy, nearest, -1)[..., 0], sight
    )


def shoot(sight: Sight, preference: Array, otherwise: Array) -> Array:
    """Attack the legal target with the smallest preference [N, A, M], if there is one."""
    targets = sight.available[..., ATTACK:]
    cost = np.where(targets, preference, np.inf)
    return np.where(targets.any(-1), ATTACK + cost.argmin(-1), otherwise)


def random(sight: Sight, generator: np.random.Generator) -> Array:
    """Any legal action, all equally likely."""
    chosen: Array = (generator.random(sight.available.shape) * sight.available).argmax(-1)
    return chosen


def nearest(sight: Sight, generator: np.random.Generator) -> Array:
    """Attack the nearest enemy, walking up to it."""
    return shoot(sight, sight.distance, approach(sight))


def focus(sight: Sight, generator: np.random.Generator) -> Array:
    """All attack the weakest enemy, but rather one in range than one to walk to."""
    walk = np.where(np.isfinite(sight.distance), np.maximum(sight.distance - 5.5, 0), 0)
    return shoot(sight, sight.health[:, None, :] + 100 * walk, approach(sight))


def stand(sight: Sight, generator: np.random.Generator) -> Array:
    """Attack the nearest enemy in reach, never walk."""
    return shoot(sight, sight.distance, legal(np.full(sight.x.shape, STOP), sight))


def kite(sight: Sight, generator: np.random.Generator) -> Array:
    """Shoot when the weapon is ready, otherwise walk away from the enemies near by."""
    weight = np.where(sight.distance < 5, 1 / np.maximum(sight.distance, 0.3) ** 2, 0.0)
    away = toward(-(sight.dx * weight).sum(-1), -(sight.dy * weight).sum(-1), sight)
    ready = sight.cooldown <= 4
    act = np.where(ready, nearest(sight, generator), away)
    return np.where((sight.distance.min(-1) > 5) & ~ready, legal(np.full(act.shape, STOP), sight), act)


# Spots of a closed arc on the far side of the corridor's choke, nearest to the gap's edges first.
CHOKE_SPOTS = np.array([(12.2, 11.9), (13.8, 11.9), (11.2, 12.2), (14.7, 12.2), (13.0, 11.2), (12.2, 11.0)])


def hold_choke(sight: Sight, generator: np.random.Generator) -> Array:
    """Corridor: go through the choke, stand around its exit, fight only what comes within arm's length."""
    spots = CHOKE_SPOTS[: sight.x.shape[1]]
    dx, dy = spots[:, 0] - sight.x, spots[:, 1] - sight.y
    far = np.hypot(dx, dy)
    walk = np.where(far > 0.6, toward(dx, dy, sight), legal(np.full(far.shape, STOP), sight))
    fight = shoot(sight, sight.distance, walk)
    close = sight.distance.min(-1) < 1.6
    return np.where(close & (far < 2.5), fight, walk)


class Heuristic:
    """The smac package's own heuristic: attack the enemy that was nearest when chosen until it is dead; walk up to it
    along the longer axis. Win rates of it in the real game have been published."""

    def __init__(self) -> None:
        self._targets = np.zeros((0, 0), np.int64)

    def __call__(self, sight: Sight, generator: np.random.Generator) -> Array:
        if self._targets.shape != sight.x.shape:
            self._targets = np.full(sight.x.shape, -1)
        self._targets[sight.step == 0] = -1
        chosen = self._targets >= 0
        alive = np.take_along_axis(np.isfinite(sight.health), self._targets, 1)
        self._targets = np.where(chosen & alive, self._targets, sight.distance.argmin(-1))
        attack = ATTACK + self._targets
        dx, dy = (np.take_along_axis(way, self._targets[..., None], -1)[..., 0] for way in (sight.dx, sight.dy))
        walk = np.where(abs(dx) > abs(dy), np.where(dx > 0, EAST, WEST), np.where(dy > 0, NORTH, SOUTH))
        reached = np.take_along_axis(sight.available, attack[..., None], -1)[..., 0]
        return np.where(reached, attack, legal(walk, sight))


def idle(sight: Sight, generator: np.random.Generator) -> Array:
    """For mirror matches, in which allies follow their own attack-move order."""
    return legal(np.full(sight.x.shape, STOP), sight)


SCRIPTS: dict[str, Script] = {
    "random": random,
    "nearest": nearest,
    "heuristic": Heuristic(),
    "focus": focus,
    "stand": stand,
    "kite": kite,
    "hold choke": hold_choke,
    "mirror": idle,
}


def scripts_of(map_name: str) -> tuple[str, ...]:
    """Those that play a map as agents: one knows corridor's choke, and one is for mirror matches only."""
    return tuple(name for name in SCRIPTS if name != "mirror" and (name != "hold choke" or map_name == "corridor"))
