"""The same scripts and policies in the embedded engine and in the real StarCraft II: what `fp3o check-smac` plays and
writes. The file's format is in docs/smac-engine.md."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

import fp3o
from fp3o.api.run import Run
from fp3o.config import Cell
from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import Bools, Episode, slot_seeds
from fp3o.envs.smac.battlefield import Battlefield
from fp3o.envs.smac.check.playing import Player, ScriptPlayer, play
from fp3o.envs.smac.check.recorder import Recorder, first_battles, join
from fp3o.envs.smac.check.recording import Recording, write
from fp3o.envs.smac.check.replay import HORIZON
from fp3o.envs.smac.check.scripts import SCRIPTS, scripts_of
from fp3o.envs.smac.check.trajectories import Comparison, compare
from fp3o.envs.smac.layouts import Array
from fp3o.fields import restored
from fp3o.grouping import grouped
from fp3o.runs.atomic import write_atomically
from fp3o.statistics.intervals import wilson

if TYPE_CHECKING:
    from fp3o.api.team import Team

FORMAT = "fp3o smac check 1"
Backend: TypeAlias = Literal["embedded", "starcraft2"]
BACKENDS: tuple[Backend, ...] = ("embedded", "starcraft2")
EMBEDDED_SLOTS = 64  # battles at once: bounds the memory


class Entrant(NamedTuple):
    """Somebody who plays a map."""

    map: str
    name: str
    options: SmacOptions
    """Of the embedded engine; the game reads the layout of observations alone."""
    player: Callable[[int], Player]
    """Given a seed."""
    run: dict[str, Any] | None = None
    """cell, digest and seed of the run whose policies play; None for scripts."""


class RunPlayer:
    """The policies of a run, each agent's most likely action."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._memory: Array | None = None

    def act(self, env: Battlefield) -> Array:
        seen = env.snapshot()
        actions, self._memory = self._team.act(seen.observation, self._memory, seen.available)
        chosen: Array = actions[..., 0]
        return chosen

    def restart(self, slots: Bools) -> None:
        if self._memory is not None:
            self._memory[slots] = 0


def script_entrants(map_name: str) -> list[Entrant]:
    """All scripts that play this map."""
    return [
        Entrant(map_name, name, SmacOptions(), partial(ScriptPlayer, SCRIPTS[name])) for name in scripts_of(map_name)
    ]


def run_entrant(run: Run, options: dict[str, Any]) -> Entrant:
    """options: of run.json."""
    cell = Cell.parse(run.cell)
    name = f"{cell.sharing}/{cell.algorithm} {run.digest} seed {run.seed}"
    team = run.team()
    told = {"cell": run.cell, "digest": run.digest, "seed": run.seed}
    own: SmacOptions = restored(options, SmacOptions)
    if own.backend == "starcraft2":
        own = SmacOptions(layout=own.layout)
    return Entrant(cell.task, name, own, lambda seed: RunPlayer(team), told)


class Result(NamedTuple):
    """Battles of one entrant in one backend."""

    map: str
    player: str
    run: dict[str, Any] | None
    backend: str
    environment: int
    """Number of the environment in the file's list."""
    battles: int
    won: int
    win_rate: float
    half_width: float
    """Of Wilson's 95 % interval of the win rate."""
    mean_return: float
    mean_length: float
    restarts: int
    """Games that died and had to be started again."""


class Entry(NamedTuple):
    """Results of one entrant by backend, and, of recorded battles in both, how the engine compares."""

    results: tuple[Result, ...]
    comparison: Comparison | None


class Check:
    """Plays entrants, and keeps what the file says."""

    def __init__(self, backends: Sequence[Backend], battles: int, games: int, seed: int, record: Path | None) -> None:
        """games: that run at the same time. record: folder for recordings, which must exist."""
        self.backends, self.battles, self.games, self.seed, self.record = backends, battles, games, seed, record
        self.environments: list[dict[str, Any]] = []
        self.entries: list[Entry] = []
        self.recordings: list[str] = []

    def play(self, entrants: Iterable[Entrant]) -> Iterator[Entry]:
        """One entrant after the other. Games go on from one entrant to the next of the same map and options."""
        groups = grouped(((entrant.map, entrant.options), entrant) for entrant in entrants)
        for (name, options), members in groups.items():
            with ExitStack() as stack:
                envs = [self._environment(name, backend, options) for backend in self.backends]
                for env in envs:
                    stack.callback(env.close)
                numbers = range(len(self.environments), len(self.environments) + len(envs))
                self.environments += [env.identity() for env in envs]
                for entrant in members:
                    self.entries.append(self._entry(entrant, dict(zip(numbers, envs, strict=True))))
                    yield self.entries[-1]

    def _environment(self, name: str, backend: Backend, options: SmacOptions) -> Battlefield:
        slots = min(self.battles, EMBEDDED_SLOTS if backend == "embedded" else self.games)
        if backend == "starcraft2":
            options = SmacOptions(backend=backend, layout=options.layout)
        env = make("smac", name, slots, auto_reset=False, options=options)
        assert isinstance(env, Battlefield)
        return env

    def _entry(self, entrant: Entrant, envs: dict[int, Battlefield]) -> Entry:
        results, recordings = [], {}
        for backend, (number, env) in zip(self.backends, envs.items(), strict=True):
            died = env.restarts
            episodes, recording = self._battles(entrant, env)
            results.append(self._result(entrant, backend, number, episodes, env.restarts - died))
            if recording is not None and self.record is not None:
                recordings[backend] = recording
                name = entrant.name.replace(" ", "-").replace("/", "-")
                self.recordings.append(f"{entrant.map}.{name}.{backend}.npz")
                write(self.record / self.recordings[-1], recording)
        both = set(BACKENDS) <= set(recordings) and all(one.lengths.max() >= HORIZON for one in recordings.values())
        comparison = compare(recordings["starcraft2"], recordings["embedded"]) if both else None
        return Entry(tuple(results), comparison)

    def _battles(self, entrant: Entrant, env: Battlefield) -> tuple[list[Episode], Recording | None]:
        """In as many rounds as it takes; of the last one only the first slots count."""
        episodes: list[Episode] = []
        parts: list[Recording] = []
        for number in range(-(-self.battles // env.slots)):
            seeds = slot_seeds(self.seed, "check-smac", env.slots, number)
            recorder = Recorder(entrant.name) if self.record is not None else None
            episodes += sorted(play(env, entrant.player(self.seed + number), seeds, recorder))
            if recorder is not None:
                parts.append(recorder.recording())
        recording = first_battles(join(parts), self.battles) if parts else None
        return episodes[: self.battles], recording

    def _result(
        self, entrant: Entrant, backend: str, environment: int, episodes: Sequence[Episode], restarts: int
    ) -> Result:
        won, battles = sum(bool(episode.won) for episode in episodes), len(episodes)
        low, high, _ = wilson(won, battles)
        return Result(
            entrant.map,
            entrant.name,
            entrant.run,
            backend,
            environment,
            battles,
            won,
            won / battles,
            (high - low) / 2,
            float(np.mean([episode.total_return for episode in episodes])),
            float(np.mean([episode.length for episode in episodes])),
            restarts,
        )

    def document(self) -> dict[str, Any]:
        """What is sent to whoever compares: no paths, no names of machines."""
        return {
            "format": FORMAT,
            "versions": {"fp3o": fp3o.__version__, "python": platform.python_version()},
            "platform": f"{platform.system()} {platform.machine()}",
            "battles": self.battles,
            "seed": self.seed,
            "environments": self.environments,
            "results": [result._asdict() for entry in self.entries for result in entry.results],
            "comparisons": [
                {"map": entry.results[0].map, "player": entry.results[0].player, **told(entry.comparison)}
                for entry in self.entries
                if entry.comparison is not None
            ],
            "recordings": self.recordings,
        }

    def save(self, path: Path) -> None:
        write_atomically(path, (json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n").encode())


def told(comparison: Comparison) -> dict[str, Any]:
    """A comparison for JSON."""
    kinds = {
        "engine": comparison.replayed,
        "standing": comparison.standing,
        "floor": comparison.floor,
        "floor_standing": comparison.floor_standing,
    }
    return {
        "cells_off": {name: errors.distance.tolist() for name, errors in kinds.items()},
        "health_off": {name: errors.health.tolist() for name, errors in kinds.items()},
        "courses": {
            name: {"starcraft2": first, "embedded": second, "p": p} for name, first, second, p in comparison.courses
        },
    }
