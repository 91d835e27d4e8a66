"""The backend for the real game with the smac package itself; only the game is a stand-in.

The package runs unchanged from launch to reward. pysc2's way to a game leads to recorded battles, served as the game's
own messages; the orders that arrive are kept. Skipped where oxwhirl/smac is not installed.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import Episode, Snapshot
from fp3o.envs.smac import starcraft2

run_configs = pytest.importorskip("pysc2.run_configs")
protocol = pytest.importorskip("pysc2.lib.protocol")
messages = pytest.importorskip("s2clientprotocol.sc2api_pb2")
if not hasattr(pytest.importorskip("smac.env"), "StarCraft2Env"):
    pytest.skip("another package called smac is installed", allow_module_level=True)

GOLDEN = Path(os.environ.get("FP3O_GOLDEN", Path(__file__).parents[1] / "data" / "golden")) / "envs" / "smac"
MAPS = ("2c_vs_64zg", "3s5z", "3s5z_vs_3s6z", "5m_vs_6m", "6h_vs_8z", "10m_vs_11m", "bane_vs_bane", "corridor")
SIZE = 32
TICK = 1 / 4096  # the game's grid of positions
LOOPS = 8  # game loops per step
FIRST_OWN_ID = 1970  # the maps number the types of allied units consecutively; from where on does not matter
STOCK_IDS = {"baneling": 9, "colossus": 4, "hydralisk": 107, "marine": 48, "stalker": 74, "zealot": 73, "zergling": 105}
OWN, ENEMY, NEUTRAL = 1, 2, 16  # players

Data = dict[str, np.ndarray]


class Game:
    """One launch of the game: what pysc2 calls run configuration, process and controller."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.rows: list[int] = []
        self.at = 0
        self.battle = 0
        self.seed = -1
        self.idle = False
        """Time passes, but nothing happens."""
        self.faults: set[str] = set()
        """Requests that will find the connection lost."""
        self.killed = False
        self.closed = False
        self.orders: list[np.ndarray] = []

    @property
    def controller(self) -> Game:
        return self

    def start(self, **_: Any) -> Game:
        return self

    def map_data(self, path: str) -> bytes:
        return path.encode()

    def close(self) -> None:
        self.closed = True

    def create_game(self, request: Any) -> None:
        assert Path(request.local_map.map_path).stem == str(self.data["map_name"])
        self.seed = request.random_seed
        self.rows = np.nonzero(self.data["instance"] == self.seed)[0].tolist()

    def join_game(self, request: Any) -> None:
        assert request.options.raw

    def game_info(self) -> Any:
        """The grid in the encoding of new games (one bit per cell) or of old ones (one byte, inverted, upside down)."""
        image = self.data["pathing_grid"][self.seed].T.astype(np.uint8)
        response = messages.ResponseGameInfo()
        raw = response.start_raw
        raw.map_size.x = raw.map_size.y = SIZE
        raw.playable_area.p1.x = raw.playable_area.p1.y = SIZE
        raw.pathing_grid.bits_per_pixel = 1 if self.seed == 0 else 8
        raw.pathing_grid.data = (np.packbits(image, axis=1) if self.seed == 0 else 255 * (1 - image[::-1])).tobytes()
        raw.terrain_height.data = bytes(SIZE * SIZE)
        return response

    def observe(self) -> Any:
        """Who lives. The order is the recorded one at the start of a battle and another one later."""
        self._connected("observe")
        row = self.rows[self.at]
        allies = np.argsort(self.data["reset_ally_order"][self.data["episode"][row]]).tolist()
        units = [("enemy", j) for j in range(int(self.data["n_enemies"]))] + [("ally", i) for i in allies]
        response = messages.ResponseObservation()
        listed = response.observation.raw_data.units
        listed.add(owner=NEUTRAL, alliance=3, unit_type=1, tag=1, health=10, health_max=10)
        for side, i in units if self.data["t"][row] == 0 else reversed(units):
            if self.data[f"{side}_alive"][row, i]:
                self._describe(listed.add(), side, row, i)
        return response

    def actions(self, request: Any) -> None:
        self._connected("actions")
        sent = np.full((int(self.data["n_agents"]), 4), np.nan, np.float32)
        for action in request.actions:
            order = action.action_raw.unit_command
            (tag,) = order.unit_tags
            line = sent[tag - self._tag("ally", 0)]
            assert np.isnan(line).all()
            line[[0, 3]] = order.ability_id, -1
            if order.HasField("target_world_space_pos"):
                line[1:3] = order.target_world_space_pos.x, order.target_world_space_pos.y
            if order.HasField("target_unit_tag"):
                line[3] = order.target_unit_tag - self._tag("enemy", 0)
        self.orders.append(sent)

    def debug(self, commands: list[Any]) -> None:
        """All units are to be killed, upon which the map begins the next battle."""
        self._connected("debug")
        row = self.rows[self.at]
        alive = {side: np.flatnonzero(self.data[f"{side}_alive"][row]).tolist() for side in ("ally", "enemy")}
        living = {self._tag(side, i) for side, numbers in alive.items() for i in numbers}
        assert {tag for command in commands for tag in command.kill_unit.tag} == living
        self.killed = True

    def step(self, loops: int) -> None:
        if self.killed:
            self.killed = False
            self.battle += 1
            starts = [at for at, row in enumerate(self.rows) if self.data["t"][row] == 0]
            self.at = next((at for at in starts if at > self.at), 0)
            return
        assert loops == LOOPS
        if not self.idle:
            self.at += 1

    def _connected(self, request: str) -> None:
        if request in self.faults:
            self.faults.clear()
            raise protocol.ConnectionError("the game is gone")

    def _tag(self, side: str, i: int) -> int:
        return 1000 * (self.battle + 1) + (500 if side == "enemy" else 0) + int(i)

    def _describe(self, unit: Any, side: str, row: int, i: int) -> None:
        def value(key: str) -> float:
            return float(self.data[f"{side}_{key}"][row, i])

        kinds = np.unique(self.data["ally_type"]).tolist()
        kind = int(value("type"))
        unit.tag = self._tag(side, i)
        unit.owner, unit.alliance = (OWN, 1) if side == "ally" else (ENEMY, 4)
        own_id = FIRST_OWN_ID + kinds.index(kind) if side == "ally" else 0
        unit.unit_type = own_id or STOCK_IDS[str(self.data["type_names"][kind])]
        unit.pos.x, unit.pos.y = value("x"), value("y")
        unit.health, unit.health_max = value("hp"), value("hp_max")
        unit.shield, unit.shield_max = value("shield"), value("shield_max")
        unit.weapon_cooldown = value("cooldown")


class Thread(threading.Thread):
    """In place of a game's process, which could not see the stand-in."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> None:
        self.pipe = Connection(os.dup(args[0].fileno()))  # the starter closes its own
        super().__init__(target=target, args=(self.pipe, *args[1:]), daemon=daemon)

    def run(self) -> None:
        try:
            super().run()
        except EOFError:
            return  # given up by the backend
        finally:
            self.pipe.close()


class Stage:
    """A backend with one game, and what became of it."""

    def __init__(self, name: str, layout: str, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = data
        self.launched: list[Game] = []
        self.package: Any = None
        """The smac package's environment that answered last."""
        read_units = starcraft2.read_units

        def launch(version: str | None = None) -> Game:
            self.launched.append(Game(data))
            return self.launched[-1]

        def read(package: Any) -> starcraft2.Units:
            self.package = package
            return read_units(package)

        context = SimpleNamespace(Pipe=Pipe, Process=Thread)
        monkeypatch.setattr(run_configs, "get", launch)
        monkeypatch.setattr(starcraft2, "read_units", read)
        monkeypatch.setattr(starcraft2, "multiprocessing", SimpleNamespace(get_context=lambda method: context))
        options = SmacOptions(backend="starcraft2", layout=layout)  # type: ignore[arg-type]
        self.env: Any = make("smac", name, 1, options=options)

    @property
    def game(self) -> Game:
        return self.launched[-1]

    def begin(self, seed: int = 0) -> None:
        self.env.reset(np.array([seed], np.uint64))

    def step(self, actions: np.ndarray) -> Any:
        return self.env.step(actions.astype(np.int64)[None, :, None])

    def wait(self, steps: int) -> None:
        """Let time pass without anything happening."""
        self.game.idle = True
        for _ in range(steps):
            result = self.step(np.where(self.env.snapshot().alive[0], 1, 0))
            assert result.reward[0, 0] == 0
            assert not result.terminated[0]
            assert not result.truncated[0]
        self.game.idle = False

    def play(self, row: int) -> Any:
        """The step that led to a recorded row; its reward and orders must be the recorded ones."""
        game = self.game
        result = self.step(self.data["actions"][row])
        assert result.reward[0] == pytest.approx(self.data["reward"][row], rel=1e-6, abs=1e-9)
        np.testing.assert_array_equal(game.orders[-1], self.data["command"][row])
        return result

    def expect(self, row: int) -> None:
        """The backend and, as far as it shows the same, the package show the recorded row."""
        shown = self.env.snapshot()
        self.same(shown, row)
        np.testing.assert_array_equal(self.package.get_avail_actions(), self.data["avail"][row])
        if str(self.data["layout"]) == "default":
            np.testing.assert_allclose(self.package.get_obs(), self.data["obs"][row], rtol=0, atol=1e-6)
            np.testing.assert_allclose(self.package.get_state(), self.data["state"][row], rtol=0, atol=1e-6)

    def same(self, shown: Snapshot, row: int) -> None:
        assert shown.available is not None
        np.testing.assert_allclose(shown.observation[0], self.data["obs"][row], rtol=0, atol=1e-6)
        state = np.broadcast_to(self.data["state"][row], shown.state[0].shape)
        np.testing.assert_allclose(shown.state[0], state, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(shown.available[0], self.data["avail"][row].astype(bool))
        np.testing.assert_array_equal(shown.alive[0], self.data["ally_alive"][row].astype(bool))

    def close(self) -> None:
        self.env.close()
        assert all(game.closed for game in self.launched), "a game was left running"


def recording(name: str, layout: str) -> Data:
    with np.load(GOLDEN / f"{name}.{layout}.npz", allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


@pytest.mark.parametrize("instance", [0, 1])
@pytest.mark.parametrize("layout", ["agent", "default"])
@pytest.mark.parametrize("name", MAPS)
def test_recorded_battles(name: str, layout: str, instance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = recording(name, layout)
    stage = Stage(name, layout, data, monkeypatch)
    rows = np.nonzero(data["instance"] == instance)[0].tolist()
    ends = []
    stage.begin(instance)
    stage.expect(rows[0])
    np.testing.assert_array_equal(stage.package.pathing_grid, data["pathing_grid"][instance].astype(bool))
    for place, row in enumerate(rows):
        if data["t"][row] == 0:
            continue  # shown when the battle before it ended
        end = int(data["end"][row])
        if end == 4:
            stage.wait(int(data["episode_limit"]) - int(data["t"][row]))
        result = stage.play(row)
        assert result.terminated[0] == (end in (1, 2, 3))
        assert result.truncated[0] == (end == 4)
        if not end:
            assert result.episodes == []
            stage.expect(row)
            continue
        ends.append(end)
        total = np.nansum(data["reward"][data["episode"] == data["episode"][row]])
        length = int(data["episode_steps"][row])
        (episode,) = result.episodes
        assert episode.total_return == pytest.approx(total)
        assert episode == Episode(0, episode.total_return, episode.total_return, length, end == 1)
        stage.same(result.final, row)
        stage.expect(rows[(place + 1) % len(rows)])
    assert ends == ([1, 2, 3, 4] if instance == 0 else [1])
    assert stage.package.max_reward == data["max_reward"]
    assert stage.env.restarts == 0
    assert [game.seed for game in stage.launched] == [instance]
    stage.close()


def tight_spots(data: Data, rows: int, rng: np.random.Generator) -> Data:
    """One battle of 3s5z in which enemies surround agents at 6 and 9 cells, give or take the grid's last digit."""
    n, m = int(data["n_agents"]), int(data["n_enemies"])
    spots = {key: np.repeat(data[key][:1], rows, axis=0) for key in data if data[key].shape[:1] == data["t"].shape}
    spots = data | spots | {"t": np.arange(rows)}
    spots["ally_x"], spots["ally_y"] = (rng.integers(0, SIZE * 4096, (rows, n)) * TICK for _ in range(2))
    centre = rng.integers(0, n, (rows, m))
    reach = rng.choice([6, 9], (rows, m)) * 4096
    east = rng.integers(-reach, reach + 1)
    north = np.array([round(math.sqrt(s)) for s in (reach**2 - east**2).ravel().tolist()]).reshape(rows, m)
    north = (north + rng.integers(-1, 2, (rows, m))) * rng.choice([-1, 1], (rows, m))
    every = np.arange(rows)[:, None]
    spots["enemy_x"] = spots["ally_x"][every, centre] + east * TICK
    spots["enemy_y"] = spots["ally_y"][every, centre] + north * TICK
    for side in ("ally", "enemy"):
        size = spots[f"{side}_hp"].shape
        spots[f"{side}_hp"] = spots[f"{side}_hp_max"] * rng.uniform(0.01, 1, size).astype(np.float32)
        spots[f"{side}_shield"] = spots[f"{side}_shield_max"] * rng.uniform(0, 1, size).astype(np.float32)
        spots[f"{side}_cooldown"] = rng.uniform(0, 40, size).astype(np.float32)
    return spots


def test_at_the_edge_of_sight_and_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package refuses an order that it holds to be illegal, so legality must agree to the last bit."""
    rng = np.random.default_rng(5)
    rows = 100
    stage = Stage("3s5z", "default", tight_spots(recording("3s5z", "default"), rows, rng), monkeypatch)
    stage.begin()
    for row in range(rows):
        shown = stage.env.snapshot()
        np.testing.assert_array_equal(shown.available[0], np.array(stage.package.get_avail_actions(), bool))
        np.testing.assert_allclose(shown.observation[0], stage.package.get_obs(), rtol=0, atol=1e-6)
        np.testing.assert_allclose(shown.state[0, 0], stage.package.get_state(), rtol=0, atol=1e-6)
        if row < rows - 1:
            stage.step(np.array([rng.choice(np.nonzero(legal)[0]) for legal in shown.available[0]]))
    assert stage.env.restarts == 0
    stage.close()


def test_connection_lost_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package launches another game by itself; the battle is dropped and the next one counts as ever."""
    stage = Stage("3s5z", "agent", recording("3s5z", "agent"), monkeypatch)
    stage.begin()
    stage.play(1)
    stage.game.faults = {"actions"}
    result = stage.step(stage.data["actions"][2])
    assert result.truncated[0]
    assert not result.terminated[0]
    assert result.reward[0, 0] == 0
    assert result.episodes == []
    for row in range(1, 6):
        stage.expect(row - 1)
        result = stage.play(row)
    assert result.episodes[0].won
    stage.close()


def test_connection_lost_between_battles(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("3s5z", "agent", recording("3s5z", "agent"), monkeypatch)
    stage.begin()
    for row in range(1, 5):
        stage.play(row)
    debug = Game.debug

    def die(game: Game, commands: list[Any]) -> None:
        debug(game, commands)
        game.faults = {"observe"}

    monkeypatch.setattr(Game, "debug", die)
    assert stage.play(5).episodes[0].won
    stage.expect(0)  # a new game starts with its first battle
    stage.play(1)
    stage.close()


def test_a_second_reset_in_the_first_battle(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("3s5z", "agent", recording("3s5z", "agent"), monkeypatch)
    stage.begin()
    stage.play(1)
    stage.begin()
    stage.expect(0)
    stage.play(1)
    stage.close()
