"""How the embedded engine behaves: win rates of fixed scripts on every map, mirror matches, sensitivity.

    python benchmarks/fidelity/smac.py [--episodes 512] [--only scripts|mirror|sensitivity] [--revisions 3 2]

Prints one JSON line per measurement and, at the end, the Markdown tables of docs/smac-engine.md, the engine's revisions
side by side.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import Response, Steering
from fp3o.envs.smac.check.playing import ScriptPlayer, play
from fp3o.envs.smac.check.scripts import SCRIPTS, scripts_of
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS


class Measurement(NamedTuple):
    """Win rate of a script over episodes, with half the width of its 95 % interval."""

    map: str
    script: str
    revision: int
    changed: str
    episodes: int
    wins: float
    plus_minus: float
    mean_return: float


def measure(name: str, script: str, episodes: int, changed: str = "", **settings: Any) -> Measurement:
    """`settings` go to the engine: options, steering, response, scripted_allies. Draws count half in mirror matches."""
    env = EmbeddedBattles(SCENARIOS[name], episodes, auto_reset=False, **settings)
    played = play(env, ScriptPlayer(SCRIPTS[script]), slot_seeds(0, "fidelity", episodes))
    score = np.array([float(bool(episode.won)) for episode in sorted(played)])
    if settings.get("scripted_allies"):
        allies = env.battles.alive[:, : env.spec.agents].any(axis=1)
        enemies = env.battles.alive[:, env.spec.agents :].any(axis=1)
        score[allies == enemies] = 0.5
    mean = float(score.mean())
    # Wilson's half-width: honest at 0 and 1, where the plain one is zero.
    half = 1.96 / (1 + 3.84 / episodes) * math.sqrt(mean * (1 - mean) / episodes + 0.96 / episodes**2)
    returns = float(np.mean([episode.total_return for episode in played]))
    revision = env.options.engine_revision
    result = Measurement(name, script, revision, changed, episodes, round(mean, 4), round(half, 4), round(returns, 2))
    print(json.dumps(result._asdict()), flush=True)
    return result


MAPS = (
    "bane_vs_bane",
    "2c_vs_64zg",
    "3s5z",
    "5m_vs_6m",
    "corridor",
    "6h_vs_8z",
    "10m_vs_11m",
    "3s5z_vs_3s6z",
    "8m",
    "2s3z",
)
MIRRORS = ("3m", "8m", "2s3z", "3s5z", "bane_vs_bane")
SENSITIVE = (
    ("corridor", "nearest"),
    ("corridor", "hold choke"),
    ("2c_vs_64zg", "stand"),
    ("2c_vs_64zg", "kite"),
    ("3s5z", "nearest"),
    ("8m", "focus"),
    ("bane_vs_bane", "random"),
)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows)]


def scripts_table(episodes: int, revisions: Sequence[int]) -> list[str]:
    """Every script on every map."""
    names = [script for script in SCRIPTS if script != "mirror"]
    rows = []
    for name in MAPS:
        for revision in revisions:
            options = SmacOptions(engine_revision=revision)
            found = {script: measure(name, script, episodes, options=options) for script in scripts_of(name)}
            cells = {
                script: f"{one.wins:.3f} ± {one.plus_minus:.3f} ({one.mean_return:.1f})"
                for script, one in found.items()
            }
            rows.append([name, str(revision), *(cells.get(script, "") for script in names)])
    return markdown(["map", "revision", *names], rows)


def mirror_table(episodes: int, revisions: Sequence[int]) -> list[str]:
    """Both sides follow the script of the enemy."""
    rows = []
    for name in MIRRORS:
        found = [
            measure(name, "mirror", episodes, options=SmacOptions(engine_revision=revision), scripted_allies=True)
            for revision in revisions
        ]
        rows.append([name, *(f"{result.wins:.3f} ± {result.plus_minus:.3f}" for result in found)])
    return markdown(["map", *(f"revision {revision}" for revision in revisions)], rows)


def changes_of(revision: int) -> dict[str, dict[str, Any]]:
    """What the game does not tell us, one thing at a time: label → arguments of the engine."""
    options, steering, response = SmacOptions(engine_revision=revision), Steering(), Response()
    changes: dict[str, dict[str, Any]] = {"none": {"options": options}}
    for width in (2.0, 3.0, 5.0, 6.0):
        changes[f"choke width {width:g}"] = {"options": replace(options, choke_width=width)}
    changes["Legacy of the Void units"] = {"options": replace(options, profile="legacy")}
    answers: list[tuple[str, Any]] = [("scan_period", 2), ("scan_period", 8)]
    if revision > 2:
        answers += [("help_radius", 2.0), ("help_radius", 8.0), ("leash", 5.0), ("redirects", "never")]
        answers += [("redirects", "always")]
    for name, value in answers:
        changes[f"{name} {value}"] = {"options": options, "response": replace(response, **{name: value})}
    for field in fields(Steering):
        for factor in (0.5, 1.5):
            value = getattr(steering, field.name) * factor
            changed = replace(steering, **{field.name: value})
            changes[f"{field.name} {value:g}"] = {"options": options, "steering": changed}
    return changes


def sensitivity_table(episodes: int, revisions: Sequence[int]) -> list[str]:
    """Every change, the revisions' wins divided by a slash."""
    every = {revision: changes_of(revision) for revision in revisions}
    rows = []
    for label in dict.fromkeys(label for changes in every.values() for label in changes):
        cells = []
        for name, script in SENSITIVE:
            if label.startswith("choke") and name != "corridor":
                cells.append("")
                continue
            found = [measure(name, script, episodes, label, **c[label]).wins for c in every.values() if label in c]
            cells.append(" / ".join(f"{wins:.3f}" for wins in found))
        rows.append([label, *cells])
    return markdown(["changed", *(f"{name} {script}" for name, script in SENSITIVE)], rows)


TABLES = {"scripts": scripts_table, "mirror": mirror_table, "sensitivity": sensitivity_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=512, help="per measurement; mirror matches play twice as many")
    parser.add_argument("--only", choices=sorted(TABLES), action="append")
    parser.add_argument("--revisions", type=int, choices=(2, 3), nargs="+", default=[3, 2])
    arguments = parser.parse_args()
    tables = []
    for name in arguments.only or TABLES:
        episodes = arguments.episodes * (2 if name == "mirror" else 1)
        lines = TABLES[name](episodes, arguments.revisions)
        tables.append("\n".join([f"{name}, {episodes} episodes each", "", *lines]))
    print("\n\n".join(["", *tables]))


if __name__ == "__main__":
    main()
