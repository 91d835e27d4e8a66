"""Do policies on SMAC win because some of the embedded engine's enemies look on? One line per run.

    python benchmarks/fidelity/unaided.py RUN … [--battles 128]

Final policies of finished runs play battles as the engine is, and battles in which, after every step that hurts an
enemy, all enemies without a target are sent at the nearest agent, wherever they are: more help than the game gives.
`idle` is the share of living enemies without a target at the end of such steps, in battles as the engine is; `near`
counts only those within the radius of a call for help around an enemy that was hurt, which the game would not leave
idle. In revision 2 of the engine nobody calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o import Run
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.errors import UserError


class Outcome(NamedTuple):
    """Shares of battles won, and of living enemies without a target when one of them is hurt: all, and near it."""

    won: float
    idle: float
    near: float


def play(run: Run, battles: int, helped: bool) -> Outcome:
    """Every battle once, with the policies' most likely actions."""
    env = run.make_env(battles, auto_reset=False)
    if not isinstance(env, EmbeddedBattles):
        raise UserError(f"{run.cell} is not played by the embedded engine; allowed: runs of smac that are")
    agents, state, team = env.spec.agents, env.battles, run.team()
    allied, hostile = slice(agents), slice(agents, None)
    snapshot, memory = env.reset(slot_seeds(0, "unaided", battles)), None
    won, over = np.zeros(battles, bool), np.zeros(battles, bool)
    idle = near = living = 0
    call = (env.response.help_radius + env.rules.radius[hostile]) ** 2
    while not over.all():
        actions, memory = team.act(snapshot.observation, memory, snapshot.available)
        before = vigour(env, hostile)
        transition = env.step(actions)
        snapshot = transition.snapshot
        losses = vigour(env, hostile) < before
        hurt = losses.any(1) & ~over & state.alive[:, allied].any(1)  # with nobody left to attack all are idle
        alive, targets = state.alive[hurt, hostile], state.target[hurt, hostile]
        free = alive & (targets < 0)
        idle, living = idle + int(free.sum()), living + int(alive.sum())
        x, y = (position[hurt, hostile] for position in (state.x, state.y))
        apart = (x[:, :, None] - x[:, None]) ** 2 + (y[:, :, None] - y[:, None]) ** 2  # [., who is idle, who is hurt]
        near += int((free & ((apart <= call[:, None]) & losses[hurt, None]).any(2)).sum())
        if helped:
            x, y = (position[hurt, hostile, None] - position[hurt, None, allied] for position in (state.x, state.y))
            distance = np.where(state.alive[hurt, None, allied], np.hypot(x, y), np.inf)
            state.target[hurt, hostile] = np.where(free, distance.argmin(2), targets)
        for episode in transition.episodes:
            won[episode.slot], over[episode.slot] = bool(episode.won), True
    return Outcome(float(won.mean()), idle / max(living, 1), near / max(living, 1))


def vigour(env: EmbeddedBattles, units: slice) -> NDArray[np.float32]:
    """Health and shield."""
    return env.battles.health[:, units] + env.battles.shield[:, units]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders with run.json and checkpoint")
    parser.add_argument("--battles", type=int, default=128)
    asked = parser.parse_args()
    try:
        for folder in asked.runs:
            run = Run(folder)
            plain, helped = (play(run, asked.battles, aid) for aid in (False, True))
            shares = f"won {plain.won:.3f}, helped {helped.won:.3f}, idle {plain.idle:.2f}, near {plain.near:.3f}"
            print(f"{run.cell} {folder.name}: {shares}", flush=True)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
