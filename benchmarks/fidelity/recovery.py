"""How much reward do policies on SMAC get for enemies that recover? Writes CSV, a line per run.

    python benchmarks/fidelity/recovery.py RUN … [--battles 64] > docs/evidence/smac-recovery.csv

SMAC's reward of a step is the absolute value of the damage to enemies, so it also pays for shields that grow again: a
policy may learn to hide one agent and wait.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fp3o import Run
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.errors import UserError


class Outcome(NamedTuple):
    """Means over battles."""

    won: float
    limit: float
    """Share of battles that ended at the time limit."""
    paid: float
    """Return."""
    recovery: float
    """Its part from steps in which the enemies gained health and shields and none of them died."""
    left: float
    """Enemies alive at the end."""


def play(run: Run, battles: int) -> Outcome:
    """Every battle once, with the policies' most likely actions."""
    env = run.make_env(battles, auto_reset=False)
    if not isinstance(env, EmbeddedBattles):
        raise UserError(f"{run.cell} is not played by the embedded engine; allowed: runs of smac that are")
    state, team, hostile = env.battles, run.team(), slice(env.spec.agents, None)
    snapshot, memory = env.reset(slot_seeds(0, "recovery", battles)), None
    won, limit, over = (np.zeros(battles, bool) for _ in range(3))
    paid, recovery, left = (np.zeros(battles) for _ in range(3))
    while not over.all():
        actions, memory = team.act(snapshot.observation, memory, snapshot.available)
        before, alive = (state.health + state.shield)[:, hostile].sum(1), state.alive[:, hostile].sum(1)
        transition = env.step(actions)
        snapshot = transition.snapshot
        after, still = (state.health + state.shield)[:, hostile].sum(1), state.alive[:, hostile].sum(1)
        reward = np.where(over, 0.0, transition.reward[:, 0])
        paid += reward
        recovery += np.where((after > before) & (still == alive), reward, 0.0)
        for episode in transition.episodes:
            slot = episode.slot
            won[slot], over[slot] = bool(episode.won), True
            limit[slot], left[slot] = transition.truncated[slot], still[slot]
    return Outcome(*(float(part.mean()) for part in (won, limit, paid, recovery, left)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders with run.json and checkpoint")
    parser.add_argument("--battles", type=int, default=64)
    asked = parser.parse_args()
    try:
        print("cell", "seed", *Outcome._fields, sep=",")
        for folder in asked.runs:
            run = Run(folder)
            print(run.cell, run.seed, *(f"{part:.2f}" for part in play(run, asked.battles)), sep=",", flush=True)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
