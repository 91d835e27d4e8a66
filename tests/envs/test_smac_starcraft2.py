"""The backend for the real game, against recordings replayed in place of the smac package."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_game import DATA, use_fake_package, use_threads
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import ActionSpec, BatchEnv, EnvSpec, Episode, Seeds, Snapshot, Transition
from fp3o.errors import UserError
from fp3o.networks.actor import Actor
from fp3o.networks.sharing import sharing
from fp3o.networks.trunk import StandardTrunk
from fp3o.rollout import evaluation as evaluate

GOLDEN = Path(os.environ.get("FP3O_GOLDEN", DATA / "golden")) / "envs" / "smac"
FILES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
SEEDS = np.array([0, 1], np.uint64)


@pytest.fixture
def fake_smac(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_package(monkeypatch)


@pytest.fixture
def threads(fake_smac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_threads(monkeypatch)


def recording(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    path = GOLDEN / f"{name}.{layout}.npz"
    monkeypatch.setenv("FAKE_SMAC_RECORDING", str(path))
    with np.load(path, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def options(layout: str) -> SmacOptions:
    return SmacOptions(backend="starcraft2", layout=layout)  # type: ignore[arg-type]


def expect(env: BatchEnv, data: dict[str, np.ndarray], slot: int, row: int) -> None:
    expect_shown(env.snapshot(), data, slot, row)


def expect_shown(snapshot: Snapshot, data: dict[str, np.ndarray], slot: int, row: int) -> None:
    assert snapshot.available is not None
    np.testing.assert_allclose(snapshot.observation[slot], data["obs"][row], rtol=0, atol=1e-6)
    state = np.broadcast_to(data["state"][row], snapshot.state[slot].shape)
    np.testing.assert_allclose(snapshot.state[slot], state, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(snapshot.available[slot], data["avail"][row].astype(bool))
    np.testing.assert_array_equal(snapshot.alive[slot], data["ally_alive"][row].astype(bool))


def play_side_by_side(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All battles of instance 0 in slot 0, the one of instance 1 over and over in slot 1."""
    name, layout = file.split(".")
    data = recording(name, layout, monkeypatch)
    rows = [np.nonzero(data["instance"] == instance)[0].tolist() for instance in (0, 1)]
    env = make("smac", name, 2, options=options(layout))
    try:
        assert not env.spec.exact_resume
        env.reset(SEEDS)
        at = [0, 0]
        total, length = np.zeros(2), np.zeros(2, int)
        met: list[list[int]] = [[], []]
        while len(met[0]) < len(set(data["episode"][rows[0]].tolist())):
            for slot in (0, 1):
                expect(env, data, slot, rows[slot][at[slot]])
                at[slot] += 1
            now = [rows[slot][at[slot]] for slot in (0, 1)]
            result = env.step(data["actions"][now][..., None])
            total += result.reward[:, 0]
            length += 1
            episodes = []
            for slot in (0, 1):
                assert result.reward[slot] == pytest.approx(data["reward"][now[slot]])
                end = int(data["end"][now[slot]])
                assert result.terminated[slot] == (end in (1, 2, 3))
                assert result.truncated[slot] == (end == 4)
                if end:
                    met[slot].append(end)
                    assert result.final is not None
                    expect_shown(result.final, data, slot, now[slot])
                    episodes.append(Episode(slot, total[slot], total[slot], length[slot], end == 1))
                    total[slot], length[slot] = 0, 0
                    at[slot] = (at[slot] + 1) % len(rows[slot])  # the first row of the next battle
            assert result.episodes == episodes
        assert set(met[0]) == {1, 2, 3, 4}
        assert set(met[1]) == {1}
        assert env.restarts == 0
        assert env.identity()["engine"] == "starcraft2"
    finally:
        env.close()


def test_recordings_are_there() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES)
@pytest.mark.usefixtures("threads")
def test_two_games_side_by_side(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play_side_by_side(file, monkeypatch)


@pytest.mark.parametrize("file", ["3s5z.agent", "bane_vs_bane.default"])
@pytest.mark.usefixtures("fake_smac")
def test_two_games_in_processes_of_their_own(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play_side_by_side(file, monkeypatch)


@pytest.mark.usefixtures("fake_smac")
def test_a_crashed_game_starts_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = recording("3s5z", "agent", monkeypatch)
    monkeypatch.setenv("FAKE_SMAC_CRASH", str(tmp_path / "crashed"))
    env = make("smac", "3s5z", 1, options=options("agent"))
    try:
        env.reset(SEEDS[:1])
        env.step(data["actions"][1][None, :, None])
        result = env.step(data["actions"][2][None, :, None])
        assert result.truncated[0]
        assert not result.terminated[0]
        assert result.reward[0, 0] == 0
        assert result.episodes == []
        assert env.restarts == 1
        assert env.lost_episodes == {"StarCraft II died": 1}
        expect(env, data, 0, 0)
        env.step(data["actions"][1][None, :, None])
        expect(env, data, 0, 1)
    finally:
        env.close()


@pytest.mark.parametrize("auto_reset", [True, False])
@pytest.mark.usefixtures("threads")
def test_a_battle_that_smac_restarted_by_itself_is_dropped_and_played_anew(
    auto_reset: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """smac says so by an empty info, together with a reward and an end that mean nothing."""
    data = recording("3s5z", "agent", monkeypatch)
    monkeypatch.setenv("FAKE_SMAC_RESTART", str(tmp_path / "restarted"))
    env = make("smac", "3s5z", 1, auto_reset=auto_reset, options=options("agent"))
    try:
        env.reset(SEEDS[:1])
        env.step(data["actions"][1][None, :, None])
        result = env.step(data["actions"][2][None, :, None])
        assert (tmp_path / "restarted").exists()
        assert result.truncated[0]
        assert not result.terminated[0]
        assert (result.reward == 0).all()
        assert result.episodes == []
        assert result.final is not None
        expect_shown(result.final, data, 0, 1)  # the last that was seen of it
        expect(env, data, 0, 0)
        steps = int(np.nonzero(data["end"])[0][0])
        for row in range(1, steps + 1):
            result = env.step(data["actions"][row][None, :, None])
            assert result.terminated[0] == (row == steps)
            assert not result.truncated[0]
        (episode,) = result.episodes
        assert episode.length == steps
        assert episode.total_return == pytest.approx(data["reward"][1 : steps + 1].sum())
    finally:
        env.close()


class Repeating(BatchEnv):
    """Two slots that always see the same: what is done differs from step to step only by what a policy remembers.

    Battles have LENGTH steps; slot 0's first is dropped in its third step and begins again.
    """

    LENGTH = 6
    DROPPED = 3
    slots = 2

    def __init__(self) -> None:
        self.spec = EnvSpec(2, 3, 3, ActionSpec("gaussian", (1,)), self.LENGTH, (0, 0))
        self.done: list[NDArray[Any]] = []

    def reset(self, seeds: Seeds) -> Snapshot:
        self.length, self.dropped = np.zeros(2, int), False
        return self.snapshot()

    def step(self, actions: NDArray[Any]) -> Transition:
        self.done.append(actions.copy())
        running = self.length < self.LENGTH
        self.length += running
        terminated, truncated = running & (self.length == self.LENGTH), np.zeros(2, bool)
        if self.length[0] == self.DROPPED and not self.dropped:
            self.dropped = truncated[0] = True
            self.length[0] = 0
        episodes = [Episode(slot, 0.0, 0.0, self.LENGTH, True) for slot in np.nonzero(terminated)[0].tolist()]
        final = self.snapshot() if (terminated | truncated).any() else None
        return Transition(self.snapshot(), np.zeros((2, 2)), terminated, truncated, final, episodes)

    def snapshot(self) -> Snapshot:
        seen = np.tile(np.array([1.0, -1.0, 0.5], np.float32), (2, 2, 1))
        return Snapshot(seen, seen.copy(), np.ones((2, 2), bool), None)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None: ...

    def identity(self) -> dict[str, Any]:
        return {}

    def close(self) -> None: ...


def test_evaluation_replays_a_dropped_battle_from_a_clean_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Repeating()
    monkeypatch.setattr(evaluate, "make", lambda *arguments, **named: env)
    actor = Actor(StandardTrunk(3, 16, True), env.spec.action, "sigmoid", sharing("full", env.spec.agent_types))
    trunks, heads = actor.initialise(torch.Generator().manual_seed(0))
    evaluator = evaluate.Evaluator(Cell.parse("smac/3m/full/mappo"), SmacOptions(), actor, 1, 2)
    (episodes,) = evaluator.run(trunks[None], 100 * heads[None], [0], "evaluation", 0)
    assert [(episode.slot, episode.length) for episode in episodes] == [(0, env.LENGTH), (1, env.LENGTH)]
    assert len(env.done) == env.DROPPED + env.LENGTH
    actions = np.stack(env.done)
    whole, replay = actions[: env.LENGTH, 1], actions[env.DROPPED :, 0]
    assert np.abs(whole[env.DROPPED] - whole[0]).min() > 0.01  # a memory kept would be seen
    np.testing.assert_allclose(actions[: env.DROPPED, 0], whole[: env.DROPPED], rtol=1e-5)
    np.testing.assert_allclose(replay, whole, rtol=1e-5)


@pytest.mark.usefixtures("fake_smac")
def test_runs_name_the_build_and_the_map_of_the_game(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recording("3s5z", "agent", monkeypatch)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    for name in ("Versions/Base9999", "Versions/Base75689", "Versions/Shared", "Maps/SMAC_Maps"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "Maps/SMAC_Maps/3s5z.SC2Map").write_bytes(b"a map")
    told = make("smac", "3s5z", 1, options=options("agent")).identity()
    assert told["versions"]["game"] == "Base75689"
    assert told["map_data"] == hashlib.sha256(b"a map").hexdigest()[:16]
    monkeypatch.setenv("SC2PATH", str(tmp_path / "absent"))
    told = make("smac", "3s5z", 1, options=options("agent")).identity()
    assert (told["versions"]["game"], told["map_data"]) == ("unknown", "unknown")


def test_without_the_package_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smac.env", None)
    with pytest.raises(UserError, match=r"needs StarCraft II.*allowed without them: embedded") as caught:
        make("smac", "3s5z", 1, options=options("agent"))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("fake_smac")
def test_auto_becomes_what_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_SMAC_RECORDING", "")
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    assert SmacOptions(backend="auto") == SmacOptions(backend="starcraft2")
    monkeypatch.setenv("SC2PATH", str(tmp_path / "absent"))
    assert SmacOptions(backend="auto") == SmacOptions(backend="embedded")
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "smac.env", None)
    assert SmacOptions(backend="auto") == SmacOptions(backend="embedded")
