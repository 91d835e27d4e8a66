"""Runs as objects, playing and training from Python."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fp3o
from fp3o import cli
from fp3o.execution.choice import Execution
from fp3o.learner.update import Learner
from fp3o.rollout.evaluation import final_rows
from fp3o.runs import records
from fp3o.training import run as training

CELL = "matrix/two-step/none/fp3o"
TINY = {"total_steps": 1024, "evaluation_interval": 2, "evaluation_episodes": 4, "final_episodes": 8, "hidden_size": 16}
HERE: dict[str, Any] = {"device": "cpu", "path": "eager", "quiet": True}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    assert [run.seed for run in fp3o.train(CELL, [2, 0], TINY, out, **HERE)] == [0, 2]
    return out


def test_a_run_is_its_files(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fp3o.runs(finished, "matrix/*/none/*")
    assert fp3o.runs(finished, "matrix/*/full/*") == []
    assert (first.cell, first.seed, second.seed, first.status) == (CELL, 0, 2, "finished")
    assert (first.settings["total_steps"], first.settings["clip"]) == (1024, 0.2)
    assert first.evaluations["env_steps"].tolist() == [256.0] * 4 + [768.0] * 4
    assert first.final is not None
    assert first.final["episode"].tolist() == list(range(8))
    assert first.score["return"] == pytest.approx(first.final["return"].mean(), rel=1e-5)
    assert first.iterations["iteration"].tolist() == [0, 1, 2, 3]
    assert "episodes" in set(first.iterations)
    with pytest.raises(ValueError, match="read-only"):
        first.iterations["iteration"][0] = 7
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    assert first.iterations.to_pandas()["iteration"].tolist() == [0, 1, 2, 3]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fp3o.UserError, match="pip install pandas"):
        first.iterations.to_pandas()


def test_the_same_settings_are_the_same_run(finished: Path) -> None:
    (run,) = fp3o.train(CELL, [0], fp3o.runs(finished)[0].settings, finished, **HERE)
    assert run.path == fp3o.runs(finished)[0].path


def test_an_altered_run_is_refused(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(fp3o.runs(finished)[0].path, copy)
    run = fp3o.Run(copy)
    for name in (records.ITERATIONS, records.EVALUATIONS):
        (copy / name).write_text((copy / name).read_text().replace("0", "1"))
    for name in ("iterations", "evaluations"):
        with pytest.raises(fp3o.UserError, match=r"does not match run\.json"):
            getattr(run, name)
    misplaced = tmp_path / "out" / CELL / run.digest / "seed-5"
    shutil.copytree(copy, misplaced)
    with pytest.raises(fp3o.UserError, match="another run than its folder says"):
        fp3o.runs(tmp_path / "out")
    with pytest.raises(fp3o.UserError, match=r"no finished run: it has no run\.json"):
        fp3o.Run(tmp_path)
    with pytest.raises(fp3o.UserError, match="there is no folder"):
        fp3o.runs(tmp_path / "nowhere")


def test_play_is_evaluate(finished: Path, tmp_path: Path) -> None:
    run = fp3o.runs(finished)[1]
    with pytest.raises(SystemExit):
        cli.main(["evaluate", str(run.path), "--episodes", "5", "--seed", "7", "--out", str(tmp_path / "played.csv")])
    log = records.CsvLog(tmp_path / "here.csv", records.FINAL_COLUMNS)
    log.append(final_rows(fp3o.play(run, episodes=5, seed=7)))
    log.close()
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "played.csv").read_bytes()
    assert fp3o.play(str(run.path), 2) == fp3o.play(run, 2)
    with pytest.raises(fp3o.UserError, match="episodes = 0 is not allowed"):
        fp3o.play(run, 0)


class Watch(fp3o.Callback):
    """Remembers everything; stops where it is told to."""

    may_stop = True

    def __init__(self, stop_at: int = -1) -> None:
        self.rows: dict[int, list[Mapping[str, Any]]] = {}
        self.evaluations: dict[int, list[Mapping[str, Any]]] = {}
        self.told: list[Any] = []
        self._stop_at = stop_at

    def begin(self, env_steps: int) -> None:
        self.told.append(("begin", env_steps))

    def iteration(self, seed: int, record: Mapping[str, Any]) -> bool:
        self.rows.setdefault(seed, []).append(record)
        return record["iteration"] == self._stop_at

    def evaluation(self, seed: int, records: Sequence[Mapping[str, Any]]) -> None:
        self.evaluations.setdefault(seed, []).extend(records)

    def end(self) -> None:
        self.told.append("end")


def test_callbacks_see_all_and_may_stop(finished: Path, tmp_path: Path) -> None:
    """Stopped after the second iteration and called again: the same bytes as without a stop, each row told once."""
    watch = Watch(stop_at=1)
    assert fp3o.train(CELL, [0, 2], TINY, tmp_path, [watch], **HERE) == []
    assert {seed: len(rows) for seed, rows in watch.rows.items()} == {0: 2, 2: 2}
    runs = fp3o.train(CELL, [0, 2], TINY, tmp_path, [watch], **HERE)
    assert watch.told == [("begin", 0), "end", ("begin", 512), "end"]
    assert [run.seed for run in runs] == [0, 2]
    for run, unbroken in zip(runs, fp3o.runs(finished), strict=True):
        for name in (records.ITERATIONS, records.EVALUATIONS, records.CHECKPOINT):
            assert (run.path / name).read_bytes() == (unbroken.path / name).read_bytes()
        for told, table in ((watch.rows, run.iterations), (watch.evaluations, run.evaluations)):
            for name, column in table.items():
                given = [np.nan if row[name] is None else float(row[name]) for row in told[run.seed]]
                np.testing.assert_allclose(given, column, rtol=1e-5)


def test_callbacks_are_told_that_a_run_ends_while_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for CUDA graphs, which are made before the first iteration."""

    def fails(*_: Any) -> None:
        raise fp3o.UserError("this does not compile")

    monkeypatch.setattr(training, "choose", lambda *_: Execution("graph", "cpu", "", 1, ""))
    monkeypatch.setattr(Learner, "rehearse", fails)
    watch = Watch()
    with pytest.raises(fp3o.UserError, match="this does not compile"):
        fp3o.train(CELL, [0], TINY, tmp_path / "runs", [watch], **HERE)
    assert watch.told == ["end"]
    assert not (tmp_path / "runs").exists()


def test_training_in_a_thread(tmp_path: Path) -> None:
    found: list[Any] = []
    short = {**TINY, "total_steps": 256}
    thread = threading.Thread(target=lambda: found.extend(fp3o.train(CELL, [0], short, tmp_path, **HERE)))
    thread.start()
    thread.join()
    assert [run.status for run in found] == ["finished"]


def test_a_kept_state_goes_on(finished: Path, tmp_path: Path) -> None:
    first, _ = fp3o.train(CELL, [0, 2], {**TINY, "total_steps": 512}, tmp_path, keep_state=True, **HERE)
    with pytest.raises(SystemExit) as ended:
        cli.main(["continue", str(first.path), "--total-steps", "1024", "--device", "cpu", "--path", "eager"])
    assert ended.value.code in (0, None)
    wanted = fp3o.runs(finished)[0]
    longer = tmp_path / CELL / wanted.digest / "seed-0"
    for name in (records.ITERATIONS, records.EVALUATIONS, records.CHECKPOINT):
        assert (longer / name).read_bytes() == (wanted.path / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CELL, 5), r"seeds = 5 is not allowed; allowed: a list or range"),
        ((CELL, [-1]), "seeds '-1' not understood"),
        ((CELL, [0], {"clip": 7}), "clip"),
        ((CELL, [0], {}, "runs", [print]), r"allowed: objects of subclasses of fp3o\.Callback"),
        (("matrix/two-step/none/shy",), "unknown algorithm 'shy'"),
    ],
)
def test_bad_arguments_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fp3o.UserError, match=message):
        fp3o.train(*arguments)
    assert not any(tmp_path.iterdir())


def test_code_of_others_needs_trust(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fp3o.runs(finished)[0]
    monkeypatch.setitem(run._document["options"], "env", "theirs:Game")
    for use in (run.team, run.make_env, lambda: fp3o.play(run)):
        with pytest.raises(fp3o.UserError, match=r"wants to run code .* theirs:Game; Run\(…, trust=True\) allows it"):
            use()


def test_the_package_of_runs_can_be_called_and_imported() -> None:
    from fp3o.runs import layout

    package: Any = fp3o.runs
    assert isinstance(package, ModuleType)
    assert package.layout is layout
