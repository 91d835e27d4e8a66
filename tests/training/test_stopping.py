"""A callback finishes runs before their budget is spent: each seed where it is told, and they are runs like others."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from short_runs import PLAIN, documents, files, tiny_plan

import fp3o
from fp3o import cli
from fp3o.runs.interrupt import Interrupted
from fp3o.statistics.scores import Planned, collect
from fp3o.training import run as training
from fp3o.training.callbacks import Callback, Record

CELL = "matrix/climbing/none/mappo"
LAST = {0: 1, 1: 3}
"""By seed: the last iteration it is to do, of six."""


class Early(Callback):
    may_stop = True
    finishes = True

    def iteration(self, seed: int, record: Record) -> bool:
        return record["iteration"] == LAST.get(seed)


class Interrupting(Callback):
    def advance(self, env_steps: int) -> None:
        if env_steps == 3 * 16:  # seed 0 is done, seed 1 is not
            signal.raise_signal(signal.SIGINT)


def stopped(folder: Path, seeds: Sequence[int], *more: Callback, final: int = 2) -> dict[str, Any]:
    plan = tiny_plan(CELL, 6, final_episodes=final)
    training.train(plan, seeds, folder, folder / "scratch", PLAIN, [Early(), *more])
    return files(folder)


def test_each_seed_ends_where_it_is_told(tmp_path: Path) -> None:
    found = stopped(tmp_path / "all", (0, 1, 2))
    first, second, third = documents(tmp_path / "all").values()
    assert (first["status"], first["stopped"]) == ("stopped", {"iteration": 1, "by": "Early"})
    assert (second["status"], second["stopped"]["iteration"]) == ("stopped", 3)
    assert (third["status"], "stopped" in third) == ("finished", False)
    runs = fp3o.runs(tmp_path / "all")
    assert [len(run.iterations["iteration"]) for run in runs] == [2, 4, 6]
    assert [run.evaluations["iteration"].max() for run in runs] == [1, 3, 5]
    assert [run.score["env_steps"] for run in runs] == [32, 64, 96]
    for seed, last in LAST.items():  # the policy is that of a run whose budget ends there
        short = tiny_plan(CELL, last + 1)
        training.train(short, (seed,), tmp_path / "short", tmp_path / "short" / "scratch", PLAIN)
        whole = load_file(next((tmp_path / "short").rglob(f"seed-{seed}/checkpoint.safetensors")))
        mine = load_file(runs[seed].path / "checkpoint.safetensors")
        assert all((mine[name] == whole[name]).all() for name in whole)
    alone = stopped(tmp_path / "alone", (1,))
    assert alone == {name: content for name, content in found.items() if "seed-1/" in name}


def test_an_interruption_changes_nothing(tmp_path: Path) -> None:
    whole = stopped(tmp_path / "whole", (0, 1))
    with pytest.raises(Interrupted):
        stopped(tmp_path / "interrupted", (0, 1), Interrupting())
    assert stopped(tmp_path / "interrupted", (0, 1)) == whole


def test_a_stopped_run_is_played_scored_and_no_run_of_the_whole_budget(tmp_path: Path) -> None:
    stopped(tmp_path, (0,), final=4)
    plan = tiny_plan(CELL, 6, final_episodes=4)
    (run,) = fp3o.runs(tmp_path)
    assert run.final is not None
    assert len(run.final["episode"]) == 4
    assert len(fp3o.play(run, episodes=2)) == 2
    assert "stopped>" in repr(run)
    with pytest.raises(fp3o.UserError, match="no run of the whole budget: Early stopped it after iteration 1; delete"):
        collect(tmp_path, [Planned(plan.cell.id, plan.digest, (0,))])
    before = files(tmp_path)
    training.train(plan, (0,), tmp_path, tmp_path / "scratch", PLAIN)
    assert files(tmp_path) == before, "it is finished"


def rows(value: float) -> list[Record]:
    return [{"return": value + x, "return_per_agent": value / 2, "won": None, "length": 1} for x in (-1.0, 1.0)]


def test_at_a_return() -> None:
    stop = fp3o.StopAtReturn(3.0)
    assert [stop.evaluation(0, rows(value)) for value in (1.0, 3.0, 2.0)] == [False, True, False]
    assert fp3o.StopAtReturn(1.0, "return_per_agent").evaluation(0, rows(2.0))
    assert not fp3o.StopAtReturn(0.0, "won").evaluation(0, rows(2.0)), "neither won nor lost"
    with pytest.raises(fp3o.UserError, match="column = 'wins' is not allowed; allowed: return, return_per_agent, won"):
        fp3o.StopAtReturn(1.0, "wins")  # type: ignore[arg-type]


def test_without_progress() -> None:
    stop = fp3o.StopWithoutProgress(2, least=0.5)
    values = (1.0, 1.4, 2.0, 2.5, 2.4, 9.0)
    assert [stop.evaluation(0, rows(value)) for value in values] == [False, False, False, False, True, False]
    assert not stop.evaluation(1, rows(0.0)), "each seed has its own best"
    with pytest.raises(fp3o.UserError, match="evaluations = 0 is not allowed"):
        fp3o.StopWithoutProgress(0)


def test_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"total_steps": 5120, "evaluation_episodes": 2, "final_episodes": 2, "evaluation_interval": 1}
    cell = "matrix/climbing/full/mappo"
    options: dict[str, Any] = {"quiet": True, "path": "eager", "device": "cpu"}
    [run] = fp3o.train(cell, [0], settings, tmp_path, [fp3o.StopAtReturn(-100.0)], **options, keep_state=True)
    assert (run.status, len(run.iterations["iteration"])) == ("stopped", 1)
    with pytest.raises(SystemExit):
        cli.main(["continue", str(run.path), "--total-steps", "10240"])
    assert "were stopped early: cannot go on" in capsys.readouterr().err


def test_all_that_the_command_can_keep(tmp_path: Path) -> None:
    settings = {"total_steps": 1024, "evaluation_episodes": 2, "final_episodes": 2, "evaluation_interval": 2}
    keeps: dict[str, Any] = {"checkpoint_every": 2, "keep_best": True, "timings": tmp_path / "seconds.csv"}
    [run] = fp3o.train("matrix/two-step/none/mappo", [0], settings, tmp_path / "runs", quiet=True, **keeps)
    kept = sorted((tmp_path / "runs" / "scratch").rglob("kept/seed-0/*.safetensors"))
    assert [path.stem for path in kept] == ["best", "step-1024", "step-512"]
    assert run.team(checkpoint=kept[0]) is not None
    assert (tmp_path / "seconds.csv").read_text().count("\n") > 4
    with pytest.raises(fp3o.UserError, match="checkpoint_every = -1 is not allowed"):
        fp3o.train("matrix/two-step/none/mappo", checkpoint_every=-1)
