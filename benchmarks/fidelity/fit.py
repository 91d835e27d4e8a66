"""Fits the engine's steering to recorded battles, the game's or the engine's own.

    python benchmarks/fidelity/fit.py RECORDING … [--pieces 400] [--samples 96] [--rounds 4] [--seed 0]
    python benchmarks/fidelity/fit.py --recover   with hidden values drawn at random: are they found again?

Recordings are those of `fp3o check-smac --record FOLDER`. Pieces of them are replayed
(fp3o/envs/smac/check/replay.py); what is minimised is the energy score of predicted positions, E|X − y| − ½ E|X − X′|:
y is the recorded position of a unit after one to four steps, X and X′ are two predictions with different random
numbers. Its expectation is least where predictions are distributed as the truth is. The mean error alone, E|X − y|,
would favour parameters with which units move less, or less at random, than they do. It is divided by the mean distance
that units walked, so that maps count alike.

Six of the nine parameters of `Steering` are fitted, those that crowds of melee units show best: look_ahead,
attacker_load, friend_load, side_bonus, occupied, push. The other three decide little: enemy_load only where units run
into foes that they do not attack; detour and no_place weigh cells of way against each other where a target has hardly
a free place left.

Prints of each the default, the fitted value, and the range around it in which, all others as fitted, the score is not
worse by more than two standard errors (over battles): what is in it cannot be told apart by these recordings. For this
other pieces are drawn from them than for the search.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import Steering
from fp3o.envs.smac.check.playing import ScriptPlayer
from fp3o.envs.smac.check.recorder import record
from fp3o.envs.smac.check.recording import Recording, as_the_game_tells, read
from fp3o.envs.smac.check.replay import HORIZON, Replay, pieces_of
from fp3o.envs.smac.check.scripts import SCRIPTS
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.errors import UserError

Array = NDArray[Any]
NEAR = 3.0  # cells: pieces begin with foes that near; before that units hardly meet each other
DRAWS = 2  # predictions per piece
OFFSETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # of a profile's values from the fitted one, in searched ranges
ROUGH = 4  # times fewer pieces for the first part of the search
Score = Callable[[Steering], Array]


class Parameter(NamedTuple):
    """A field of `Steering` and the range that is searched."""

    name: str
    low: float
    high: float


PARAMETERS = (
    Parameter("look_ahead", 0.1, 0.9),
    Parameter("attacker_load", 0.2, 3.0),
    Parameter("friend_load", 0.05, 1.2),
    Parameter("side_bonus", 0.0, 2.0),
    Parameter("occupied", 0.3, 1.2),
    Parameter("push", 0.2, 1.2),
)


class Objective:
    """The energy score of predictions, by battle."""

    def __init__(self, recordings: Sequence[Recording], pieces: int, seed: int = 0, horizon: int = HORIZON) -> None:
        """pieces: of every recording."""
        self._replays = []
        for recording in recordings:
            chosen = pieces_of(recording, horizon, pieces, NEAR, seed)
            self._replays.append(
                [Replay(recording, chosen, horizon, seed=DRAWS * seed + draw) for draw in range(DRAWS)]
            )
        self._scales = [float(draws[0].errors_of_standing().distance.mean()) for draws in self._replays]

    def __call__(self, steering: Steering) -> Array:
        """What every battle of every recording adds to the score, which is the sum."""
        shares = []
        for draws, scale in zip(self._replays, self._scales, strict=True):
            score = energy_score(draws, steering) / scale / len(self._replays)
            battles = draws[0].pieces.battle
            shares.append(np.bincount(battles, score / len(battles), minlength=battles.max() + 1))
        return np.concatenate(shares)


def energy_score(draws: Sequence[Replay], steering: Steering) -> Array:
    """Of predicted positions, mean over steps and units of every piece [W]."""
    truth = draws[0].truth
    one, other = (replay.predict(steering) for replay in draws)
    counted = draws[0].before.alive & truth.alive & one.alive & other.alive
    off = (np.hypot(one.x - truth.x, one.y - truth.y) + np.hypot(other.x - truth.x, other.y - truth.y)) / 2
    apart = np.hypot(one.x - other.x, one.y - other.y)
    score: Array = np.where(counted, off - apart / 2, 0).sum((0, 2)) / np.maximum(counted.sum((0, 2)), 1)
    return score


def noise(difference: Array) -> float:
    """Standard error of a sum over battles of differences between two steerings."""
    return float(np.sqrt(len(difference)) * difference.std())


def steering_at(point: Array, parameters: Sequence[Parameter]) -> Steering:
    """point: in units of the searched ranges, 0 … 1."""
    values = {p.name: float(p.low + (p.high - p.low) * share) for p, share in zip(parameters, point, strict=True)}
    return replace(Steering(), **values)


def search(
    rough: Score,
    exact: Score,
    parameters: Sequence[Parameter],
    samples: int,
    rounds: int,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> Steering:
    """Random points; then new ones around the best, `rounds` times; then one parameter after the other.

    rough: a cheap objective for all but the last. samples: random points at first, half as many in every round.
    """
    generator = np.random.default_rng(seed)

    def score(objective: Score, point: Array) -> float:
        return float(objective(steering_at(point, parameters)).sum())

    points = list(generator.random((samples, len(parameters))))
    scores = [score(rough, point) for point in points]
    for number in range(rounds):
        best = np.argsort(scores)[: max(samples // (4 << number), 4)]
        tell(f"after {len(scores)} points: {min(scores):.4f}")
        elite = np.stack([points[place] for place in best])
        for point in generator.normal(elite.mean(0), elite.std(0) + 0.01, (samples // 2, len(parameters))):
            points.append(point.clip(0, 1))
            scores.append(score(rough, points[-1]))
    point = points[int(np.argmin(scores))]
    least, stride = score(exact, point), 0.08
    while stride >= 0.005:
        before = least
        for axis in range(len(parameters)):
            for sign in (-1, 1):
                other = point.copy()
                other[axis] = np.clip(other[axis] + sign * stride, 0, 1)
                if (found := score(exact, other)) < least:
                    least, point = found, other
                    break
        tell(f"steps of {stride:.3f} of the range: {least:.4f}")
        stride = stride if least < before else stride / 2
    return steering_at(point, parameters)


class Profile(NamedTuple):
    """How the score rises on either side of a fitted parameter, the others as fitted."""

    parameter: Parameter
    default: float
    fitted: float
    low: float
    """Least and greatest of the values around the fitted one that are not worse by more than two standard errors."""
    high: float
    values: Array
    rise: Array
    noise: Array


def profile(objective: Score, fitted: Steering, parameter: Parameter) -> Profile:
    own = float(getattr(fitted, parameter.name))
    offsets = (parameter.high - parameter.low) * np.array(OFFSETS)
    values = np.unique(np.concatenate([own - offsets, [own], own + offsets]).clip(parameter.low, parameter.high))
    base = objective(fitted)
    differences = [objective(replace(fitted, **{parameter.name: float(value)})) - base for value in values]
    rise = np.array([difference.sum() for difference in differences])
    errors = np.array([noise(difference) for difference in differences])
    alike = rise <= 2 * errors
    # The range around the fitted value: from it to the first value on either side that is worse.
    place = int(np.flatnonzero(values == own)[0])
    worse = np.flatnonzero(~alike)
    low = values[max(worse[worse < place], default=-1) + 1]
    high = values[min(worse[worse > place], default=len(values)) - 1]
    default = float(getattr(Steering(), parameter.name))
    return Profile(parameter, default, own, float(low), float(high), values, rise, errors)


def table(profiles: Sequence[Profile], hidden: Steering | None) -> list[str]:
    titles = ["parameter", "default", "fitted", "cannot be told apart", "searched", *(["hidden"] if hidden else [])]
    rows = [titles, ["---"] * len(titles)]
    for one in profiles:
        name, low, high = one.parameter
        row = [name, f"{one.default:g}", f"{one.fitted:.3f}", f"{one.low:.3f} … {one.high:.3f}", f"{low:g} … {high:g}"]
        rows.append([*row, *([f"{getattr(hidden, name):.3f}"] if hidden else [])])
    return [f"| {' | '.join(row)} |" for row in rows]


def hidden_steering(seed: int) -> Steering:
    """Values to be found again: somewhere in the inner 80 % of the searched ranges."""
    return steering_at(0.1 + 0.8 * np.random.default_rng(seed).random(len(PARAMETERS)), PARAMETERS)


def hidden_recordings(steering: Steering, battles: int, seed: int) -> list[Recording]:
    """Of crowds of melee units that surround what they attack, in the open, on a plateau and on both sides; with no
    more in them than the game would tell."""
    recordings = []
    for name in ("corridor", "2c_vs_64zg", "bane_vs_bane"):
        env = EmbeddedBattles(SCENARIOS[name], battles, auto_reset=False, steering=steering)
        player = ScriptPlayer(SCRIPTS["nearest"], seed)
        battle = record(env, player, slot_seeds(seed, "hidden", battles), "nearest")
        recordings.append(as_the_game_tells(battle))
    return recordings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="*")
    parser.add_argument("--recover", action="store_true", help="record battles with hidden parameters and fit those")
    parser.add_argument("--battles", type=int, default=48, help="of every map, with --recover")
    parser.add_argument("--pieces", type=int, default=400, help="of every recording")
    parser.add_argument("--samples", type=int, default=96, help="random points at first")
    parser.add_argument("--rounds", type=int, default=4, help="of points around the best so far")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if bool(asked.recordings) == asked.recover:
        parser.error("either recordings or --recover must be given")
    hidden = hidden_steering(asked.seed) if asked.recover else None
    try:
        recordings = [read(path) for path in asked.recordings]
        if hidden is not None:
            recordings = hidden_recordings(hidden, asked.battles, asked.seed)
        rough, exact = (Objective(recordings, asked.pieces // part, asked.seed) for part in (ROUGH, 1))
        # Of what the search has not seen: it also fits the random numbers of its predictions.
        fresh = Objective(recordings, asked.pieces, asked.seed + 1)
    except UserError as error:
        parser.error(str(error))
    tell = partial(print, flush=True)
    default = exact(Steering())
    tell(f"{len(default)} battles; score with the defaults {default.sum():.4f}")
    fitted = search(rough, exact, PARAMETERS, asked.samples, asked.rounds, asked.seed, tell)
    found, default = fresh(fitted), fresh(Steering())
    gain = default - found
    tell(f"of other pieces: with the defaults {default.sum():.4f}, as fitted {found.sum():.4f}")
    tell(f"less by {gain.sum():.4f} ± {noise(gain):.4f} (standard error)")
    if hidden is not None:
        excess = found - fresh(hidden)
        tell(f"more than with the hidden values by {excess.sum():.4f} ± {noise(excess):.4f}")
    tell("\n".join(["", *table([profile(fresh, fitted, parameter) for parameter in PARAMETERS], hidden)]))


if __name__ == "__main__":
    main()
