"""How the embedded engine behaves: win rates of fixed scripts on every map, mirror matches, sensitivity.

    python benchmarks/fidelity/smac.py [--episodes 512] [--only scripts|mirror|sensitivity]

Prints one JSON line per measurement and, at the end, the Markdown tables of docs/smac-engine.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import Episode, slot_seeds
from fp3o.envs.options import SmacOptions
from fp3o.envs.smac.battle import Steering
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.layouts import ATTACK, NORTH, STOP, WEST
from fp3o.envs.smac.scenarios import SCENARIOS

Array = NDArray[Any]


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


Policy = Callable[[Sight, np.random.Generator], Array]


def look(env: EmbeddedBattles) -> Sight:
    battles, agents = env.battles, env.spec.agents
    x, y = battles.x[:, :agents], battles.y[:, :agents]
    dx = battles.x[:, None, agents:] - x[:, :, None]
    dy = battles.y[:, None, agents:] - y[:, :, None]
    there = battles.alive[:, agents:]
    health = np.where(there, battles.health[:, agents:] + battles.shield[:, agents:], np.inf)
    available = env.snapshot().available
    assert available is not None
    distance = np.where(there[:, None, :], np.hypot(dx, dy), np.inf)
    return Sight(distance, health, dx, dy, x, y, available, battles.cooldown[:, :agents], battles.step)


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
    return (generator.random(sight.available.shape) * sight.available).argmax(-1)


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


def idle(sight: Sight, generator: np.random.Generator) -> Array:
    """For mirror matches, in which allies follow their own attack-move order."""
    return legal(np.full(sight.x.shape, STOP), sight)


def play(env: EmbeddedBattles, policy: Policy, seed: int = 0) -> list[Episode]:
    """Exactly one episode per slot."""
    env.reset(slot_seeds(seed, "fidelity", env.slots))
    generator = np.random.default_rng(seed)
    episodes: list[Episode] = []
    while len(episodes) < env.slots:
        episodes += env.step(policy(look(env), generator)[..., None]).episodes
    return episodes


class Measurement(NamedTuple):
    """Win rate of a script over episodes, with half the width of its 95 % interval."""

    map: str
    script: str
    changed: str
    episodes: int
    wins: float
    plus_minus: float
    mean_return: float


def measure(name: str, script: str, episodes: int, changed: str = "", **settings: Any) -> Measurement:
    """`settings` go to the engine: options, steering, scripted_allies. Draws count half in mirror matches."""
    env = EmbeddedBattles(SCENARIOS[name], episodes, auto_reset=False, **settings)
    played = play(env, SCRIPTS[script])
    score = np.array([float(bool(episode.won)) for episode in sorted(played)])
    if settings.get("scripted_allies"):
        allies = env.battles.alive[:, : env.spec.agents].any(axis=1)
        enemies = env.battles.alive[:, env.spec.agents :].any(axis=1)
        score[allies == enemies] = 0.5
    mean = float(score.mean())
    # Wilson's half-width: honest at 0 and 1, where the plain one is zero.
    half = 1.96 / (1 + 3.84 / episodes) * math.sqrt(mean * (1 - mean) / episodes + 0.96 / episodes**2)
    returns = float(np.mean([episode.total_return for episode in played]))
    result = Measurement(name, script, changed, episodes, round(mean, 4), round(half, 4), round(returns, 2))
    print(json.dumps(result._asdict()), flush=True)
    return result


SCRIPTS: dict[str, Policy] = {
    "random": random,
    "nearest": nearest,
    "focus": focus,
    "stand": stand,
    "kite": kite,
    "hold choke": hold_choke,
    "mirror": idle,
}
MAPS = ("bane_vs_bane", "2c_vs_64zg", "3s5z", "5m_vs_6m", "corridor", "6h_vs_8z", "10m_vs_11m", "3s5z_vs_3s6z", "8m")
MIRRORS = ("3m", "8m", "2s3z", "3s5z", "bane_vs_bane")
SENSITIVE = (
    ("corridor", "nearest"),
    ("corridor", "hold choke"),
    ("2c_vs_64zg", "stand"),
    ("2c_vs_64zg", "kite"),
    ("3s5z", "nearest"),
)


def scripts_table(episodes: int) -> list[str]:
    """Every script on every map."""
    names = ["random", "nearest", "focus", "stand", "kite", "hold choke"]
    lines = ["| map | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for name in MAPS:
        cells = []
        for script in names:
            if script == "hold choke" and name != "corridor":
                cells.append("")
                continue
            result = measure(name, script, episodes)
            cells.append(f"{result.wins:.3f} ± {result.plus_minus:.3f} ({result.mean_return:.1f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def mirror_table(episodes: int) -> list[str]:
    """Both sides follow the script of the enemy."""
    lines = ["| map | allies' score, draws half |", "|---|---|"]
    for name in MIRRORS:
        result = measure(name, "mirror", episodes, scripted_allies=True)
        lines.append(f"| {name} | {result.wins:.3f} ± {result.plus_minus:.3f} |")
    return lines


def sensitivity_table(episodes: int) -> list[str]:
    """What the game does not tell us, varied one at a time."""
    default = Steering()
    changes: list[tuple[str, dict[str, Any]]] = [("none", {})]
    changes += [(f"choke width {w:g}", {"options": SmacOptions(choke_width=w)}) for w in (2.0, 3.0, 5.0, 6.0)]
    changes.append(("Legacy of the Void units", {"options": SmacOptions(profile="legacy")}))
    for field in fields(Steering):
        for factor in (0.5, 1.5):
            value = getattr(default, field.name) * factor
            changes.append((f"{field.name} {value:g}", {"steering": replace(default, **{field.name: value})}))
    lines = ["| changed | " + " | ".join(f"{m} {s}" for m, s in SENSITIVE) + " |", "|---" * (len(SENSITIVE) + 1) + "|"]
    for label, settings in changes:
        cells = []
        for name, script in SENSITIVE:
            if label.startswith("choke") and name != "corridor":
                cells.append("")
                continue
            cells.append(f"{measure(name, script, episodes, label, **settings).wins:.3f}")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


TABLES = {"scripts": scripts_table, "mirror": mirror_table, "sensitivity": sensitivity_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=512, help="per measurement; mirror matches play twice as many")
    parser.add_argument("--only", choices=sorted(TABLES), action="append")
    arguments = parser.parse_args()
    tables = []
    for name in arguments.only or TABLES:
        episodes = arguments.episodes * (2 if name == "mirror" else 1)
        tables.append("\n".join([f"{name}, {episodes} episodes each", "", *TABLES[name](episodes)]))
    print("\n\n".join(["", *tables]))


if __name__ == "__main__":
    main()
