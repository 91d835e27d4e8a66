"""Recordings of battles: what is kept of them, and files that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_game import game_file, use_fake_package, use_threads
from recorded_battles import recorded

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import Bools
from fp3o.envs.smac.battlefield import Battlefield
from fp3o.envs.smac.check.playing import ScriptPlayer
from fp3o.envs.smac.check.recorder import first_battles, join, record
from fp3o.envs.smac.check.recording import FORMAT, Recording, read, write
from fp3o.envs.smac.check.scripts import SCRIPTS
from fp3o.envs.smac.layouts import Array
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.envs.smac.starcraft2 import StarCraft2Battles
from fp3o.errors import UserError


@pytest.fixture(scope="module")
def battles() -> Recording:
    return recorded("3m", "nearest", 4)


def expect_equal(one: Recording, other: Recording) -> None:
    assert one[:4] == other[:4]
    for name in ("actions", "lengths", "outcomes", "returns"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name, array in one.units._asdict().items():
        np.testing.assert_array_equal(array, getattr(other.units, name))


def test_files_keep_everything(battles: Recording, tmp_path: Path) -> None:
    write(tmp_path / "battles.npz", battles)
    found = read(tmp_path / "battles.npz")
    expect_equal(found, battles)
    assert found.identity["options"]["backend"] == found.backend == "embedded"


def test_a_battle_that_has_ended_stays_as_it_was(battles: Recording) -> None:
    shortest = int(battles.lengths.argmin())
    end = battles.lengths[shortest]
    assert end < len(battles.actions)
    for array in battles.units:
        np.testing.assert_array_equal(
            array[end:, shortest], np.broadcast_to(array[end, shortest], (len(array) - end, 6))
        )
    assert (battles.actions[end:, shortest] == -1).all()
    assert (battles.actions[:end, shortest] >= 0).all()
    assert set(battles.outcomes) <= {1, 2, 3}


def test_batches_are_joined(battles: Recording) -> None:
    parts = [first_battles(battles, 1), first_battles(battles, 4)]
    joined = join(parts)
    assert joined.lengths.tolist() == [*battles.lengths[:1], *battles.lengths]
    expect_equal(first_battles(joined, 1), parts[0])


class Dictated:
    """Does what was recorded, from the start again where a battle was lost."""

    def __init__(self, actions: Array) -> None:
        self._actions = actions
        self._at = np.zeros(actions.shape[1], int)

    def act(self, env: Battlefield) -> Array:
        chosen = self._actions[np.minimum(self._at, len(self._actions) - 1), np.arange(len(self._at))]
        self._at += 1
        return np.maximum(chosen, 0)

    def restart(self, slots: Bools) -> None:
        self._at[slots] = 0


@pytest.mark.parametrize("lost", [False, True])
def test_the_game_is_recorded_like_the_engine(
    lost: bool, battles: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_package(monkeypatch)
    use_threads(monkeypatch)
    game_file(battles, tmp_path / "game.npz", monkeypatch)
    if lost:
        monkeypatch.setenv("FAKE_SMAC_RESTART", str(tmp_path / "restarted"))
    env = StarCraft2Battles(SCENARIOS["3m"], 4, auto_reset=False)
    try:
        found = record(env, Dictated(battles.actions), np.arange(4, dtype=np.uint64), "nearest")
        assert (env.restarts > 0) == lost
    finally:
        env.close()
    assert found.backend == "starcraft2"
    expect_equal(found._replace(backend="embedded", identity=battles.identity), battles)


def test_scripts_see_the_same_in_both_backends(
    battles: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for the game fails if an action is not the recorded one."""
    use_fake_package(monkeypatch)
    use_threads(monkeypatch)
    game_file(battles, tmp_path / "game.npz", monkeypatch)
    env = StarCraft2Battles(SCENARIOS["3m"], 4, auto_reset=False, options=SmacOptions(backend="starcraft2"))
    try:
        found = record(env, ScriptPlayer(SCRIPTS["nearest"]), np.arange(4, dtype=np.uint64), "nearest")
    finally:
        env.close()
    np.testing.assert_array_equal(found.actions, battles.actions)


def altered(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Changes the contents of a file and leaves the checksum as it is."""

    def alter(path: Path) -> None:
        with np.load(path) as data:
            members = dict(data)
        change(members)
        np.savez(path, **members)

    return alter


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "absent": (Path.unlink, "there is no recording"),
    "empty": (lambda path: path.write_bytes(b""), "is not a recording"),
    "text": (lambda path: path.write_text("x,y\n1,2\n"), "is not a recording"),
    "truncated": (cut, "only a part of one"),
    "an array": (lambda path: np.save(path.open("wb"), np.zeros(3)), "is not a recording"),
    "pickled": (altered(lambda members: members.update(x=np.array([None]))), "is not a recording"),
    "foreign": (altered(lambda members: members.pop("actions")), "it has no actions"),
    "newer": (altered(lambda members: members.update(format=np.array("fp3o smac recording 9"))), repr(FORMAT)),
    "another map": (altered(lambda members: members.update(map=np.array("3m_vs_3m"))), "unknown map '3m_vs_3m'"),
    "doubles": (altered(lambda members: members.update(x=members["x"].astype(float))), "x is of type float64"),
    "fewer units": (altered(lambda members: members.update(y=members["y"][..., 1:])), "y has shape"),
    "healed": (altered(lambda members: np.copyto(members["health"], 45)), "it was altered"),
    "won": (altered(lambda members: np.copyto(members["outcomes"], 1)), "it was altered"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_recording_is_refused_in_one_line(kind: str, battles: Recording, tmp_path: Path) -> None:
    spoil, message = WRONG[kind]
    path = tmp_path / "battles.npz"
    write(path, battles)
    spoil(path)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


IMPOSSIBLE: dict[str, tuple[Callable[[Recording], Recording], str]] = {
    "outside": (lambda one: one._replace(units=one.units._replace(x=one.units.x + 40)), "x leads out of the map"),
    "no number": (lambda one: one._replace(returns=one.returns * np.nan), "returns is not finite"),
    "endless": (lambda one: one._replace(lengths=one.lengths + 1), "lengths are"),
    "no such action": (lambda one: one._replace(actions=one.actions + 99), "actions are not 0 … 8"),
    "won": (lambda one: one._replace(outcomes=np.full(4, 0)), "outcomes do not fit"),
    "another engine": (
        lambda one: one._replace(identity={"engine": "starcraft2"}),
        "identity is not that of its backend",
    ),
    "no options": (lambda one: one._replace(identity={"engine": "embedded"}), "identity has no options"),
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_what_cannot_have_happened_is_refused(kind: str, battles: Recording, tmp_path: Path) -> None:
    change, message = IMPOSSIBLE[kind]
    write(tmp_path / "battles.npz", change(battles))
    with pytest.raises(UserError, match=message):
        read(tmp_path / "battles.npz")
