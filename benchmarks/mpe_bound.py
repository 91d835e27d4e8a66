"""What the best possible team scores on the two MPE tasks: a bound that knows every goal. Writes benchmarks/bounds.csv.

In both tasks agents move without touching each other, and each mover's reward is minus its squared distance to its own
goal after every step; averaged over agents (the paper's number) a team scores what its movers score on average. A
beam search over the five moves is near-optimal for one mover. "From step 2" makes the first move a no-op: a word
spoken in step 1 is heard in step 2. A perfect team lies between the two. The episodes are those on which seeds 0 to 4
of every cell are scored, so that a policy and its bound can be compared without the chance of their episodes.

    python benchmarks/mpe_bound.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fp3o.envs import make
from fp3o.envs.interface import slot_seeds

STEPS, TIME_STEP, DAMPING, FORCE = 25, 0.1, 0.25, 5.0  # on-policy's particle world
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=float)
# The movers that have goals, in the order of the goals: agents know each other's, and speakers stand still.
TASKS = {"simple-reference": (1, 0), "simple-speaker-listener": (1,)}
SEEDS, EPISODES, WIDTH = range(5), 1000, 128


def best_returns(
    start: NDArray[np.float64], goal: NDArray[np.float64], first_move: int, width: int
) -> NDArray[np.float64]:
    """The best return found for every draw [D, 2]; no move before step `first_move` (0 = at once)."""
    draws = len(start)
    position, velocity = start[:, None], np.zeros((draws, 1, 2))  # [D, beam, 2]
    total = np.zeros((draws, 1))
    for step in range(STEPS):
        moves = MOVES if step >= first_move else MOVES[:1]
        faster = velocity[:, :, None] * (1 - DAMPING) + TIME_STEP * FORCE * moves  # [D, beam, moves, 2]
        moved = position[:, :, None] + TIME_STEP * faster
        gain = total[:, :, None] - ((moved - goal[:, None, None]) ** 2).sum(-1)
        position, velocity = moved.reshape(draws, -1, 2), faster.reshape(draws, -1, 2)
        total = gain.reshape(draws, -1)
        if total.shape[1] > width:
            # Ranked by what is earned so far and where the mover would drift to: speed toward the goal counts.
            ahead = position + TIME_STEP * velocity / DAMPING * (1 - (1 - DAMPING) ** (STEPS - 1 - step))
            rank = total - 2.0 * ((ahead - goal[:, None]) ** 2).sum(-1) - ((position - goal[:, None]) ** 2).sum(-1)
            keep = np.argpartition(-rank, width, axis=1)[:, :width]
            position, velocity = (np.take_along_axis(x, keep[:, :, None], 1) for x in (position, velocity))
            total = np.take_along_axis(total, keep, 1)
    return total.max(1)


def starts(task: str, seed: int, episodes: int = EPISODES) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Where each mover of a seed's scored episodes starts, and its goal: [D, 2] each."""
    env = make("mpe", task, episodes)
    env.reset(slot_seeds(seed, "final", episodes))
    state = env.state_dict()
    env.close()
    rows = np.arange(episodes)
    goals = [state["landmark"][rows, state["goal"][:, number]] for number in range(len(TASKS[task]))]
    return [(state["position"][:, mover], goal) for mover, goal in zip(TASKS[task], goals, strict=True)]


def bound(task: str, first_move: int, episodes: int = EPISODES, width: int = WIDTH) -> NDArray[np.float64]:
    """Returns per agent of the episodes of all seeds, [seeds, episodes]."""
    found = [
        np.mean([best_returns(start, goal, first_move, width) for start, goal in starts(task, seed, episodes)], axis=0)
        for seed in SEEDS
    ]
    return np.array(found)


def main() -> None:
    rows = []
    for task in TASKS:
        for first_move, knows in ((0, "at once"), (1, "from step 2")):
            found = bound(task, first_move).ravel()
            numbers = (found.mean(), found.std(ddof=1), found.std(ddof=1) / np.sqrt(len(found)))
            rows.append(("mpe", task, knows, *(f"{number:.3f}" for number in numbers), len(found), WIDTH))
    path = Path(__file__).parent / "bounds.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("domain", "task", "goal_known", "value", "spread", "standard_error", "episodes", "beam_width"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
