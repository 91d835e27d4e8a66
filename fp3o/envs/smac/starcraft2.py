"""The real StarCraft II through the smac package, one game per slot in a process of its own.

The game provides battle, reward and end; what agents see is computed from its unit list by the same kernels as for the
embedded engine, in either layout. A game that crashes is started again, and its episode is lost.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import multiprocessing
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import SmacOptions, game_folder, smac_class
from fp3o.envs.checks import checked_choices, checked_seeds
from fp3o.envs.interface import Episode, Seeds, Snapshot, Transition
from fp3o.envs.smac.battlefield import Battlefield, UnitStates, empty_units
from fp3o.envs.smac.layouts import Array, outcome, write_available, write_features
from fp3o.envs.smac.scenarios import Scenario
from fp3o.envs.smac.units import KINDS
from fp3o.errors import UserError, first_of

STOCK_IDS = {4: "colossus", 9: "baneling", 48: "marine", 73: "zealot", 74: "stalker", 105: "zergling", 107: "hydralisk"}
MOST_RESTARTS = 10  # in a row, per slot


class Units(NamedTuple):
    """The units of a game in our order: allies in the order of agents, then enemies."""

    kind: Array  # [U]
    states: UnitStates  # of arrays [U]
    pathing: Array  # [32, 32]


class Answer(NamedTuple):
    """The answer of a game to a command."""

    units: Units
    reward: float
    ended: bool


def find_class() -> Any:
    """smac's environment class; UserError without it."""
    try:
        return smac_class()
    except (ImportError, AttributeError) as error:
        raise UserError(
            "backend starcraft2 needs StarCraft II and the package oxwhirl/smac with smac.env.StarCraft2Env "
            f"({error}); allowed without them: embedded"
        ) from None


def require_game(maps: Iterable[str]) -> None:
    """UserError if package, game or maps are not where they are looked for."""
    find_class()
    if not game_folder().is_dir():
        raise UserError(
            f"backend starcraft2 needs StarCraft II, and there is no folder {game_folder()} (SC2PATH names another); "
            "allowed without it: embedded"
        )
    if missing := [name for name in maps if not _map_files(name)]:
        raise UserError(
            f"StarCraft II has no map {first_of(missing)} below {game_folder() / 'Maps'}, where SMAC's maps belong; "
            "allowed without them: embedded"
        )


def read_units(env: Any) -> Units:
    """smac's list of units as arrays."""
    own = {getattr(env, f"{kind}_id", 0): kind for kind in KINDS}
    own.pop(0, None)  # smac's value for types that the map lacks
    units = [env.agents[i] for i in range(len(env.agents))] + [env.enemies[j] for j in range(len(env.enemies))]
    ids = own | STOCK_IDS
    health = np.array([unit.health for unit in units], np.float32)
    states = UnitStates(
        # Double precision, in which smac compares distances: it refuses an attack from barely out of range.
        np.array([unit.pos.x for unit in units], np.float64),
        np.array([unit.pos.y for unit in units], np.float64),
        health,
        np.array([unit.shield for unit in units], np.float32),
        np.array([unit.weapon_cooldown for unit in units], np.float32),
        health > 0,
    )
    kinds = np.array([KINDS.index(ids[unit.unit_type]) for unit in units])
    return Units(kinds, states, np.ascontiguousarray(env.pathing_grid, np.uint8))


def serve(pipe: Connection, name: str, seed: int) -> None:
    """The process of one game; its commands are "reset", a list of actions, or "close".

    It ends by itself if smac has restarted the game, because smac's data then belong partly to the old game.
    """
    kind = find_class()
    env = kind(map_name=name, seed=seed)
    begun = finished = False
    try:
        while True:
            command = pipe.recv()
            if command == "close":
                return
            reward, ended = 0.0, False
            if command == "reset":
                if begun and not finished:
                    # Otherwise smac would launch a second game and count enemies' health twice in its reward scale.
                    env.close()
                    env = kind(map_name=name, seed=seed)
                env.reset()
                begun = True
            else:
                reward, ended, _ = env.step(command)
                finished = finished or bool(ended)
            if env.force_restarts:
                return
            pipe.send(Answer(read_units(env), float(reward), bool(ended)))
    finally:
        env.close()


class _Game:
    """The game of one slot; its process is started when first needed, and again after a crash."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = 0
        self.restarts = 0
        self._process: Any = None
        self._pipe: Any = None

    def send(self, command: Any) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs, self.name, self.seed), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send(command)
        except (BrokenPipeError, ConnectionResetError):
            return  # receive() will notice that the process has died

    def receive(self) -> Answer | None:
        """The answer, or None if the game has crashed."""
        try:
            answer: Answer = self._pipe.recv()
        except (EOFError, ConnectionResetError, OSError):
            self.stop()
            self.restarts += 1
            return None
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.join(timeout=10)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process = self._pipe = None

    def begin(self) -> Answer:
        """Start a new battle, in a new process if necessary."""
        for _ in range(MOST_RESTARTS):
            self.send("reset")
            answer = self.receive()
            if answer is not None:
                return answer
        raise UserError(
            f"StarCraft II died {MOST_RESTARTS} times in a row when starting {self.name}; see its output above"
        )

    def close(self) -> None:
        if self._process is not None:
            self.send("close")
            self.stop()


class StarCraft2Battles(Battlefield):
    """N games of the real StarCraft II. Their state cannot be saved; a game gets its seed when its process starts."""

    exact_resume = False

    def __init__(
        self, scenario: Scenario, slots: int, *, auto_reset: bool = True, options: SmacOptions | None = None
    ) -> None:
        find_class()
        super().__init__(scenario, slots, auto_reset, options or SmacOptions(backend="starcraft2"), "liberty")
        self._games = [_Game(scenario.name) for _ in range(slots)]
        self._units = empty_units(slots, scenario.agents + scenario.opponents)
        self._shown, self._final = self._buffers(), self._buffers()
        self._last_action = np.full((slots, scenario.agents), -1)
        self._running = np.zeros(slots, bool)
        self._total = np.zeros(slots)
        self._length = np.zeros(slots, np.int64)

    @property
    def restarts(self) -> int:
        """Games that had to be started again."""
        return sum(game.restarts for game in self._games)

    @property
    def lost_episodes(self) -> dict[str, int]:
        return {"StarCraft II died": self.restarts} if self.restarts else {}

    @property
    def units(self) -> UnitStates:
        return self._units

    @property
    def steps(self) -> Array:
        return self._length

    def reset(self, seeds: Seeds) -> Snapshot:
        for game, seed in zip(self._games, checked_seeds(seeds, self.slots).tolist(), strict=True):
            game.seed = seed % 2**31
            game.send("reset")
        for slot, game in enumerate(self._games):
            self._begin(slot, game.receive() or game.begin())
        return self.snapshot()

    def step(self, actions: NDArray[Any]) -> Transition:
        chosen = checked_choices(actions, self._choices)[..., 0]
        reward = np.zeros(self.slots)
        terminated, truncated = np.zeros(self.slots, bool), np.zeros(self.slots, bool)
        episodes: list[Episode] = []
        active = np.nonzero(self._running)[0].tolist()
        for slot in active:
            self._games[slot].send(chosen[slot].tolist())
        for slot in active:
            answer = self._games[slot].receive()
            if answer is None:
                # The episode is lost: truncated for the learner and not reported; the slot starts another one.
                truncated[slot] = True
                self._copy_to_final(slot)
                self._begin(slot, self._games[slot].begin())
                continue
            self._last_action[slot] = chosen[slot]
            self._show(slot, answer.units)
            reward[slot] = answer.reward
            self._total[slot] += answer.reward
            self._length[slot] += 1
            if not answer.ended:
                continue
            result = outcome(self.spec.agents, answer.units.states.alive)
            terminated[slot], truncated[slot] = result > 0, result == 0
            total = float(self._total[slot])
            episodes.append(Episode(slot, total, total, int(self._length[slot]), result == 1))
            self._copy_to_final(slot)
            self._running[slot] = False
            if self.auto_reset:
                self._begin(slot, self._games[slot].begin())
        ended = bool((terminated | truncated).any())
        rewards = np.repeat(reward[:, None], self.spec.agents, axis=1)
        return Transition(self.snapshot(), rewards, terminated, truncated, self._final if ended else None, episodes)

    def snapshot(self) -> Snapshot:
        return self._shown

    def _saved(self) -> dict[str, NDArray[Any]]:
        """Nothing of a running game can be saved."""
        return {}

    def _restored(self) -> None:
        """Start new battles in every slot."""
        for slot, game in enumerate(self._games):
            self._begin(slot, game.begin())

    def identity(self) -> dict[str, Any]:
        return super().identity() | {
            "engine": "starcraft2",
            "versions": {name: _version(name) for name in ("smac", "pysc2", "numpy")} | {"game": _game_build()},
            "map_data": _map_hash(self.scenario.name),
        }

    def close(self) -> None:
        for game in self._games:
            game.close()

    def _begin(self, slot: int, answer: Answer) -> None:
        self._last_action[slot] = -1
        self._running[slot] = True
        self._total[slot] = 0.0
        self._length[slot] = 0
        self._show(slot, answer.units)

    def _show(self, slot: int, units: Units) -> None:
        observation, state, alive, available = self._shown
        assert available is not None
        now, seen = units.states, (available[slot], observation[slot], state[slot])
        write_available(self.encoding, now.x, now.y, now.alive, units.pathing, available[slot])
        write_features(self.encoding, units.kind, *now, self._last_action[slot], *seen)
        alive[slot] = now.alive[: self.spec.agents]
        for array, values in zip(self._units, now, strict=True):
            array[slot] = values

    def _copy_to_final(self, slot: int) -> None:
        for kept, current in zip(self._final, self._shown, strict=True):
            kept[slot] = current[slot]  # type: ignore[index]

    def _buffers(self) -> Snapshot:
        size = (self.slots, self.spec.agents)
        return Snapshot(
            np.zeros((*size, self.spec.observation_size), np.float32),
            np.zeros((*size, self.spec.state_size), np.float32),
            np.zeros(size, bool),
            np.zeros((*size, self.spec.action.parameters), bool),
        )


def _game_build() -> str:
    """The build of the game that pysc2 starts: the newest one installed."""
    builds = [path.name for path in (game_folder() / "Versions").glob("Base*[0-9]")]
    return max(builds, key=lambda name: int(name.removeprefix("Base")), default="unknown")


def _map_files(name: str) -> list[Path]:
    return sorted((game_folder() / "Maps").rglob(f"{name}.SC2Map"))


def _map_hash(name: str) -> str:
    """Digest of the map's file, which contains terrain and unit data."""
    files = _map_files(name)
    return hashlib.sha256(files[0].read_bytes()).hexdigest()[:16] if files else "unknown"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
