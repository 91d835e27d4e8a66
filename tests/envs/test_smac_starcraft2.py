"""The backend for the real game, against recordings replayed in place of the smac package."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fp3o.envs import make
from fp3o.envs.options import SmacOptions
from fp3o.envs.protocol import BatchEnv
from fp3o.errors import UserError

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden" / "envs" / "smac"


@pytest.fixture
def fake_smac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DATA / "fake_smac"))
    for name in ("smac", "smac.env"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def recording(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    path = GOLDEN / f"{name}.{layout}.npz"
    monkeypatch.setenv("FAKE_SMAC_RECORDING", str(path))
    with np.load(path, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def options(layout: str) -> SmacOptions:
    return SmacOptions(backend="starcraft2", layout=layout)  # type: ignore[arg-type]


def expect(env: BatchEnv, data: dict[str, np.ndarray], slot: int, row: int) -> None:
    snapshot = env.snapshot()
    assert snapshot.available is not None
    np.testing.assert_allclose(snapshot.observation[slot], data["obs"][row], rtol=0, atol=1e-6)
    state = np.broadcast_to(data["state"][row], snapshot.state[slot].shape)
    np.testing.assert_allclose(snapshot.state[slot], state, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(snapshot.available[slot], data["avail"][row].astype(bool))
    np.testing.assert_array_equal(snapshot.alive[slot], data["ally_alive"][row].astype(bool))


@pytest.mark.parametrize(("name", "layout"), [("3s5z", "agent"), ("bane_vs_bane", "default")])
@pytest.mark.usefixtures("fake_smac")
def test_two_games_side_by_side(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = recording(name, layout, monkeypatch)
    rows = [np.nonzero(data["instance"] == instance)[0].tolist() for instance in (0, 1)]
    env = make("smac", name, 2, options=options(layout))
    try:
        assert not env.spec.exact_resume
        env.reset(np.array([0, 1], np.uint64))
        at = [0, 0]
        ended = []
        for _ in range(len(rows[1]) - 1):
            for slot in (0, 1):
                expect(env, data, slot, rows[slot][at[slot]])
                at[slot] += 1
            now = [rows[slot][at[slot]] for slot in (0, 1)]
            result = env.step(data["actions"][now][..., None])
            for slot in (0, 1):
                assert result.reward[slot, 0] == pytest.approx(data["reward"][now[slot]])
                end = int(data["end"][now[slot]])
                assert result.terminated[slot] == (end in (1, 2, 3))
                assert result.truncated[slot] == (end == 4)
                if end:
                    ended.append((slot, end == 1))
                    assert result.final is not None
                    np.testing.assert_allclose(result.final.observation[slot], data["obs"][now[slot]], atol=1e-6)
                    at[slot] += 1  # the next row is the first of the next battle
                    if at[slot] == len(rows[slot]):
                        at[slot] = 0
        assert ended
        assert env.identity()["engine"] == "starcraft2"
    finally:
        env.close()


@pytest.mark.usefixtures("fake_smac")
def test_a_crashed_game_starts_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = recording("3s5z", "agent", monkeypatch)
    monkeypatch.setenv("FAKE_SMAC_CRASH", str(tmp_path / "crashed"))
    env = make("smac", "3s5z", 1, options=options("agent"))
    try:
        env.reset(np.array([0], np.uint64))
        env.step(data["actions"][1][None, :, None])
        result = env.step(data["actions"][2][None, :, None])
        assert result.truncated[0]
        assert not result.terminated[0]
        assert result.reward[0, 0] == 0
        assert result.episodes == []
        assert env.restarts == 1  # type: ignore[attr-defined]
        expect(env, data, 0, 0)
        env.step(data["actions"][1][None, :, None])
        expect(env, data, 0, 1)
    finally:
        env.close()


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
