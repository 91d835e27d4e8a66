"""`fp3o check-smac`: scripts and policies in both backends, side by side."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command import call
from fake_game import game_file, install_game, use_fake_package, use_threads
from recorded_battles import recorded
from short_runs import tiny_plan, train

from fp3o.checks import smac as smac_check
from fp3o.cli.check_smac import MAPS
from fp3o.envs.smac.check.recording import read
from fp3o.runs import records


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_the_game_one_line_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smac.env", None)
    assert call("check-smac") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "needs StarCraft II and the package oxwhirl/smac" in told.err
    assert list(Path().iterdir()) == []


def test_a_game_without_maps_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_package(monkeypatch)
    monkeypatch.setenv("SC2PATH", str(tmp_path / "absent"))
    assert call("check-smac") == 2
    assert "there is no folder" in capsys.readouterr().err
    install_game(tmp_path / "game", ("3s5z",), monkeypatch)
    assert call("check-smac", "--maps", "3s5z", "corridor") == 2
    assert "StarCraft II has no map corridor below" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--maps", "3m", "4m"), "unknown map '4m'"),
        (("--battles", "0"), "--battles 0 is not allowed"),
        (("--out", "absent/check.json"), "there is no folder absent"),
        (("--runs", "absent"), "there is no run in absent"),
    ],
)
def test_mistakes_end_in_one_line(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check-smac", "--backend", "embedded", *words) == 2
    assert message in capsys.readouterr().err


def test_the_embedded_engine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--backend", "embedded", "--maps", "3m", "corridor", "--battles", "3", "--record", "battles")
    assert call("check-smac", *words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["map", "player", "embedded:", "won", "(return)"]
    players = [("3m", name) for name in ("random", "nearest", "heuristic", "focus", "stand", "kite")]
    players += [("corridor", name) for _, name in players] + [("corridor", "hold choke")]
    assert len(shown) == 1 + len(players) + 1
    document = json.loads(Path("smac-check.json").read_text())
    assert document["format"] == smac_check.FORMAT
    assert [(result["map"], result["player"]) for result in document["results"]] == players
    assert {identity["task"] for identity in document["environments"]} == {"3m", "corridor"}
    assert document["comparisons"] == []
    assert len(document["recordings"]) == len(players)
    for result, name in zip(document["results"], document["recordings"], strict=True):
        recording = read(Path("battles") / name)
        assert (recording.map, recording.player) == (result["map"], result["player"])
        assert document["environments"][result["environment"]] == recording.identity
        assert (recording.outcomes == 1).sum() == result["won"]
        assert recording.lengths.mean() == pytest.approx(result["mean_length"])
        assert recording.returns.mean() == pytest.approx(result["mean_return"])


def test_both_backends_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The game is a replay of battles that the engine played; it fails if a script does anything else in it."""
    use_fake_package(monkeypatch)
    use_threads(monkeypatch)
    install_game(tmp_path / "game", ("3m",), monkeypatch)
    battles = recorded("3m", "nearest", 2)
    game_file(battles, tmp_path / "game.npz", monkeypatch)
    monkeypatch.setattr(smac_check, "scripts_of", lambda name: ("nearest",))
    monkeypatch.setattr(smac_check, "slot_seeds", lambda *_: np.arange(2, dtype=np.uint64))
    words = ("--maps", "3m", "--battles", "3", "--games", "2", "--record", "battles")
    monkeypatch.setattr(smac_check, "EMBEDDED_SLOTS", 2)
    assert call("check-smac", *words) == 0
    head, row, *compared = capsys.readouterr().out.splitlines()
    assert "embedded: won (return)" in head
    assert "starcraft2: won (return)" in head
    assert row.count(" ± ") == 2
    assert "the engine is off after 4 steps by " in compared[0]
    assert "starcraft2 | embedded: contact" in compared[1]
    document = json.loads(Path("smac-check.json").read_text())
    ours, game = document["results"]
    assert (ours["backend"], game["backend"]) == ("embedded", "starcraft2")
    # Two games at a time, so that the first of them is played twice.
    assert game["mean_return"] == pytest.approx(battles.returns[[0, 1, 0]].mean())
    assert game["battles"] == ours["battles"] == 3
    assert [identity["engine"] for identity in document["environments"]] == ["embedded", "starcraft2"]
    (comparison,) = document["comparisons"]
    assert comparison["courses"]["length"]["starcraft2"] == pytest.approx(battles.lengths[[0, 1, 0]].mean())
    assert len(comparison["cells_off"]["floor"]) == 4
    assert read(Path("battles/3m.nearest.starcraft2.npz")).lengths.tolist() == battles.lengths[[0, 1, 0]].tolist()


def test_policies_of_runs_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny_plan("smac/3m/full/mappo", 1), tmp_path / "runs")
    (run,) = (path.parent for path in (tmp_path / "runs").rglob(records.RUN))
    words = ("--backend", "embedded", "--maps", "3m", "--battles", "2", "--runs", str(run))
    assert call("check-smac", *words) == 0
    result = json.loads(Path("smac-check.json").read_text())["results"][-1]
    assert result["player"].startswith("full/mappo ")
    assert result["run"] == {"cell": "smac/3m/full/mappo", "digest": run.parent.name, "seed": 0}
    capsys.readouterr()
    assert call("check-smac", "--backend", "embedded", "--runs", str(run)) == 2
    assert "is a run of smac/3m; allowed: smac on bane_vs_bane" in capsys.readouterr().err
    (run / records.CHECKPOINT).unlink()
    assert call("check-smac", *words) == 0
    assert f"{run} has no checkpoint" in capsys.readouterr().out
    results = json.loads(Path("smac-check.json").read_text())["results"]
    assert all(result["run"] is None for result in results)


def test_a_policy_forgets_a_battle_that_the_game_lost() -> None:
    class Team:
        def act(self, observations: Any, memory: Any, available: Any) -> tuple[Any, Any]:
            return np.zeros((2, 3, 1), int), np.ones((2, 3, 4), np.float32)

    class Env:
        def snapshot(self) -> Any:
            return SimpleNamespace(observation=None, available=None)

    player = smac_check.RunPlayer(Team())  # type: ignore[arg-type]
    player.restart(np.array([True, False]))
    assert player.act(Env()).shape == (2, 3)  # type: ignore[arg-type]
    player.restart(np.array([True, False]))
    assert player._memory is not None
    assert player._memory[:, 0, 0].tolist() == [0, 1]


def test_the_maps_are_those_of_the_paper() -> None:
    file = Path(__file__).parents[2] / "benchmarks/published/hyperparameters.csv"
    with file.open(newline="") as rows:
        assert set(MAPS) == {row["task"] for row in csv.DictReader(rows) if row["domain"] == "smac"} - {""}
