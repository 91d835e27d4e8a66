"""What commands say at first, and how help looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import call

import fp3o
from fp3o import config
from fp3o.__main__ import main
from fp3o.cli.arguments import FIRST, Values, allow_code, read_run
from fp3o.cli.train import deviation_lines, first_line
from fp3o.config import Cell, resolve
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.statistics.scores import departures

CELL = "matrix/climbing/full/mappo"


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fp3o", "--version"])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert capsys.readouterr().out == f"fp3o {fp3o.__version__}\n"


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ("5", "seed 5 (one seed, the one numbered 5; 5 seeds are 0-4), 25,600 steps each"),
        ("0", "seed 0, 25,600 steps each"),
        ("0-4,7", "seeds 0-4,7, 25,600 steps each"),
    ],
)
def test_the_first_line_says_which_seeds(seeds: str, text: str) -> None:
    plan = resolve(Cell.parse(CELL))
    assert first_line(plan, seeds) == f"{CELL} {plan.digest}: {text}"


def test_own_games_do_not_deviate_by_being_own() -> None:
    plan = resolve(Cell.parse("pettingzoo/game/full/ippo"), {"env": "a:b", "env_args": "n=3", "gamma": "0.5"})
    assert deviation_lines(plan) == ["differs from the default: gamma 0.99 → 0.5 (--set)"]
    paper = resolve(Cell.parse("mpe/simple-reference/full/ippo"), {"gamma": "0.5"})
    assert deviation_lines(paper) == ["deviates from the paper: gamma 0.99 → 0.5 (--set)"]


def test_the_real_game_is_the_papers() -> None:
    """It is no departure from the paper, which a table would leave out; our engine with other unit data is one."""
    game = {"backend": "starcraft2", "profile": "legacy"}
    plan = resolve(Cell.parse("smac/3s5z/full/mappo"), game)
    assert deviation_lines(plan) == [
        "differs from the default, as the paper does: backend embedded → starcraft2 (--set)",
        "deviates from the paper: profile liberty → legacy (--set)",
    ]
    assert [change.name for change in departures(plan.deviations)] == ["profile"]
    assert not any(departures(planned.deviations) for planned, _ in config.load_suite("paper-sc2").runs())


def test_arguments_of_environments() -> None:
    assert Values(env_args="n=3", set_=("env=a:b",)).overrides() == {"env": "a:b", "env_args": "n=3"}
    with pytest.raises(UserError, match="--set env_args is given twice"):
        Values(env_args="n=3", set_=("env_args=n=4",)).overrides()


@pytest.mark.parametrize("out", ["/proc/none/such", "/proc/none"])
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here, where no folder can be made")
def test_folders_that_cannot_be_made_are_one_line(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train", CELL, "--seeds", "0", "--out", out, "--device", "cpu", "--path", "eager") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fp3o: cannot write {out}/")
    assert line.endswith("no folder can be made in /proc")


def test_code_that_is_elsewhere_says_where_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    document: dict[str, Any] = {"cell": "pettingzoo/game/full/ippo", "options": {"env": "nowhere_game:Game"}}
    with pytest.raises(UserError, match="--trust allows it"):
        allow_code(tmp_path, document, trust=False)
    with pytest.raises(UserError, match=f"in {tmp_path} or .*; run this in the folder that has nowhere_game.py"):
        allow_code(tmp_path, document, trust=True)
    (tmp_path / "nowhere_game.py").write_text("")
    allow_code(tmp_path, document, trust=True)


def test_a_run_of_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Path("results/paper/runs/mpe/seed-0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "checkout", lambda: tmp_path / "home")
    with pytest.raises(UserError, match=rf"^there is no run in {run}: no run.json is there$"):
        read_run(run)
    (tmp_path / "home" / run).mkdir(parents=True)
    (tmp_path / "home" / run / "run.json").write_text("{}")
    with pytest.raises(UserError, match=rf"; there is one in {tmp_path}/home, and this is {tmp_path}: run this there"):
        read_run(run)


def test_runs_below_a_folder_are_named(tmp_path: Path) -> None:
    for seed in range(7):
        (tmp_path / "digest" / f"seed-{seed}").mkdir(parents=True)
        (tmp_path / "digest" / f"seed-{seed}" / "run.json").write_text("{}")
    for folder in (tmp_path, tmp_path / "digest"):
        with pytest.raises(UserError, match=rf"below it are {tmp_path}/digest/seed-0, .*/seed-4 and 2 more$"):
            read_run(folder)


def test_a_saved_run_that_is_not_here_can_be_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest in git knows it; the folder may be named from anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / "results" / name)
    saved = {"cell": CELL, "digest": "0123456789", "seed": 3}
    (tmp_path / "results/preview").mkdir(parents=True)
    (tmp_path / "results/preview/manifest.json").write_text(json.dumps({"runs": {"0123456789-s3": saved}}))
    runs = Path("results/preview/runs", CELL, "0123456789")
    for run in (runs / "seed-3", tmp_path / runs / "seed-3", runs):
        with pytest.raises(UserError, match=f"; it was saved: `fp3o pull {CELL}` brings it$"):
            read_run(run)
    with pytest.raises(UserError, match=r"no run.json is there$"):
        read_run(runs / "seed-4")


def test_help_has_sections_and_what_is_changed_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train", "--help") == 0
    shown = capsys.readouterr().out
    sections = ["--seeds SEEDS", "computing options", "watching options", "settings options"]
    places = [shown.index(section) for section in sections]
    assert places == sorted(places)
    names = [*(f"• {name} " for name in FIRST), "Other settings:", "• gamma ", "Options of mamujoco environments:"]
    places = [shown.index(name) for name in names]
    assert places == sorted(places)
    assert len(FIRST) == 10


def test_files_get_no_colours() -> None:
    command = [sys.executable, "-m", "fp3o", "--help"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "TERM": "xterm-256color"})
    assert b"train" in done.stdout
    assert b"\x1b" not in done.stdout


def test_shells_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--tyro-print-completion", "bash") == 0
    shown = capsys.readouterr().out
    assert "check-env" in shown
    assert "--seeds" in shown
