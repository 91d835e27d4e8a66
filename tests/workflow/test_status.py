"""fp3o status: every state a planned run can be in."""

from __future__ import annotations

import json
from pathlib import Path

import fake_trainer
import pytest
from run_files import write_run

from fp3o import cli, config
from fp3o.runs import checkpoint, layout
from fp3o.workflow import guard, jobs, manifest, status
from fp3o.workflow.blocks import blocks_of


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Suite:
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / name)
    return config.load_suite("smoke")


def document(suite: config.Suite, resolved: config.Plan, seed: int) -> Path:
    path = layout.run_directory(layout.suite_root(suite.name) / "runs", resolved, seed) / "run.json"
    path.parent.mkdir(parents=True)
    return path


def test_nothing_yet(suite: config.Suite, capsys: pytest.CaptureFixture[str]) -> None:
    runs = sum(len(seeds) for _, seeds in suite.runs())
    with pytest.raises(SystemExit) as left:
        cli.main(["status", "--suite", "smoke"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"{runs} missing\n"


def test_every_state(suite: config.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "in_dvc", lambda name: name == "smoke")
    monkeypatch.setattr(guard, "locked_runs", lambda name: None)  # Its listing is in a remote.
    cells = suite.runs()
    (first, seeds), (second, _), (third, _), (fourth, _), (fifth, _) = cells[:5]
    assert seeds == (0, 1)
    document(suite, first, 0).write_text(json.dumps({"status": "finished"}))
    document(suite, first, 1).write_text(json.dumps({"status": "diverged"}))
    folder = document(suite, first, 2).parents[1]
    stale = folder.with_name("0123456789") / "seed-0"
    stale.mkdir(parents=True)
    (stale / "run.json").write_text("{}")
    folder.with_name("abcdef0123").mkdir()  # nothing in it
    block = layout.scratch_directory(layout.suite_root(suite.name) / "scratch", second, seeds)
    block.mkdir(parents=True)
    checkpoint.save(block / "resume.safetensors", {}, {"iteration": 12})
    known = {f"{third.digest}-s1": {"cell": third.cell.id, "digest": third.digest, "seed": 1}}
    manifest.write_json(manifest.manifest_path(suite.name), {"suite": "smoke", "runs": known})
    for resolved, end in ((fourth, "fp3o: the disk is full\n--- exit code 2\n"), (fifth, "killed, or still running\n")):
        log = blocks_of(suite, resolved.cell.id)[0].last_log()
        log.parent.mkdir(parents=True)
        jobs.history(log).write_text(f"--- attempt 1: fp3o train\n{end}")
    found = status.examine(suite)
    assert [cell.seeds for cell in found[:5]] == [
        {0: "done", 1: "diverged"},
        {0: "resumable", 1: "resumable"},
        {0: "missing", 1: "in DVC"},
        {0: "failed", 1: "failed"},
        {0: "missing", 1: "missing"},
    ]
    assert found[0].stale == ("0123456789",)
    text = status.lines(found, everything=False)
    assert text[0] == f"{first.cell.id}\t{first.digest}\tdone 0; diverged 1; stale 0123456789"
    assert len(text) == 5
    others = 2 * (len(cells) - 4)
    assert text[-1] == f"1 done, 1 diverged, 2 resumable, 1 in DVC, 2 failed, {others + 1} missing"
    assert len(status.lines(found, everything=True)) == len(cells) + 1


def test_runs_of_cells_that_the_suite_does_not_have_are_named(
    suite: config.Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status.dropped(suite) == []
    (first, _), *_ = suite.runs()
    document(suite, first, 0).write_text("{}")
    root = layout.suite_root(suite.name) / "runs"
    for seed in (0, 1):
        old = root / "matrix/gone/full/mappo/0123456789" / f"seed-{seed}"
        old.mkdir(parents=True)
        (old / "run.json").write_text("{}")
    line = f"2 runs are of cells that suite smoke does not have, and stay: {root / 'matrix/gone/full/mappo'} (2)"
    assert status.dropped(suite) == [line]
    for command in ("status", "prune"):
        with pytest.raises(SystemExit):
            cli.main([command, "--suite", suite.name])
        assert line in capsys.readouterr().out.splitlines()


def test_a_run_json_that_cannot_be_read_is_a_state(suite: config.Suite) -> None:
    first, _ = suite.runs()[0]
    document(suite, first, 0).write_text('{"status": "fin')
    assert status.examine(suite)[0].seeds[0] == "damaged"
    assert status.lines(status.examine(suite), everything=False)[-1].startswith("1 damaged, ")


def test_verify_names_the_damaged_runs(suite: config.Suite, capsys: pytest.CaptureFixture[str]) -> None:
    plan, seeds = suite.runs()[0]
    runs = layout.suite_root("smoke") / "runs"
    folders = []
    for seed in seeds:
        folder = layout.run_directory(runs, plan, seed)
        write_run(folder, fake_trainer.write_files(folder, plan, seed, (seed,), 0))
        folders.append(folder)

    def verify() -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(["status", "--suite", "smoke", "--verify"])
        shown = capsys.readouterr()
        return left.value.code, shown.out.splitlines()[-1], shown.err

    assert verify() == (0, "2 runs checked, 0 damaged", "")
    with (folders[1] / "iterations.csv").open("a") as file:
        file.write("\n")
    code, last, error = verify()
    assert (code, last) == (1, "2 runs checked, 1 damaged")
    assert error.startswith(f"fp3o: {folders[1] / 'iterations.csv'} does not match run.json")
    assert error.count("\n") == 1
    (folders[1] / "iterations.csv").unlink()
    folders[0].rename(folders[0].with_name("seed-7"))  # another run's place
    code, last, error = verify()
    assert (code, last, error.count("\n")) == (1, "2 runs checked, 2 damaged", 2)
    assert "its seed is 0, not 7" in error
