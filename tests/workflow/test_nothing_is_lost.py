"""No rule owns a run's files: whatever Snakemake does before and after its jobs, finished seeds stay as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Checkout, processes

pytestmark = pytest.mark.workflow

CELL = "smac/3s5z/full/happo"
OWN = re.compile(r"/\.snakemake/(log|iocache)/")
"""What Snakemake itself keeps of every call."""
TARGET = f"results/paper/cells/{CELL}.json"
MADE = ("runs", "results/paper/tables/table-smac.csv")
"""All runs and one of the tables: figures and the report would be made again too, which takes long."""


def files(checkout: Checkout, cell: str = CELL) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file of a cell's finished runs, by name."""
    folder = checkout.path / "results/paper/runs" / cell
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def seeds(found: dict[str, tuple[bytes, int]]) -> list[str]:
    return sorted({name.split("/")[1] for name in found})


def two_seeds(checkout: Checkout) -> None:
    checkout.edit("benchmarks/suites/paper.yaml", "seeds: 0-4", "seeds: 0-1")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_trainer_that_outlives_snakemake_keeps_what_it_finished(checkout: Checkout, tmp_path: Path) -> None:
    two_seeds(checkout)
    journal, hold = tmp_path / "journal", tmp_path / "hold"
    hold.touch()
    sweep = subprocess.Popen(
        ["snakemake", TARGET],
        cwd=checkout.path,
        env={**checkout.environment, "FAKE_HOLD": str(hold), "FAKE_JOURNAL": str(journal)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(lambda: journal.exists() and "start" in journal.read_text())
    sweep.kill()
    sweep.wait()
    trainer = int(journal.read_text().split()[4])
    checkout.snakemake("--unlock")
    refused = checkout.snakemake(TARGET, check=False)
    assert refused.returncode == 1
    assert f"is already being trained by process {trainer}" in refused.stdout
    hold.unlink()
    wait_for(lambda: "end" in journal.read_text() and trainer not in processes())
    finished = files(checkout)
    assert seeds(finished) == ["seed-0", "seed-1"]
    checkout.snakemake(TARGET)
    assert files(checkout) == finished
    assert len(json.loads((checkout.path / TARGET).read_text())["seeds_found"]) == 2


def test_one_more_seed_leaves_the_others_alone(checkout: Checkout) -> None:
    two_seeds(checkout)
    checkout.snakemake(TARGET)
    before = files(checkout)
    checkout.edit("benchmarks/suites/paper.yaml", "seeds: 0-1", "seeds: 0-2")
    assert checkout.trainings(TARGET) == {f"{CELL} 0-2"}
    failed = checkout.snakemake(TARGET, "--retries", "0", check=False, FAKE_FAIL=f"{CELL}:3")
    assert failed.returncode == 1
    assert files(checkout) == before
    checkout.snakemake(TARGET)
    after = files(checkout)
    assert seeds(after) == ["seed-0", "seed-1", "seed-2"]
    assert {name: content for name, content in after.items() if name in before} == before
    assert checkout.planned_jobs(TARGET) == {}


@pytest.mark.parametrize("made", [pytest.param(MADE, id="a-table"), pytest.param((), marks=pytest.mark.slow, id="all")])
def test_a_lost_run_json_trains_that_seed_alone(trained: Checkout, made: tuple[str, ...]) -> None:
    before = files(trained)
    next(trained.path.glob(f"results/paper/runs/{CELL}/*/seed-2/run.json")).unlink()
    cells, jobs = trained.plan()
    assert cells == {f"{CELL} 0-4"}
    assert jobs["table"] == 1
    trained.snakemake(*made)
    after = files(trained)
    assert {n: c for n, c in after.items() if "seed-2/" not in n} == {
        n: c for n, c in before.items() if "seed-2/" not in n
    }
    assert seeds(after) == seeds(before)
    assert trained.planned_jobs(*made) == {}


def test_other_lost_files_are_asked_for_and_nothing_else_is_touched(trained: Checkout) -> None:
    lost = {
        CELL: "evaluations.csv",
        "smac/3s5z/full/fp3o": "iterations.csv",
        "mamujoco/ant-2x4/full/mappo": "checkpoint.safetensors",
    }
    damaged = [next(trained.path.glob(f"results/paper/runs/{cell}/*/seed-2")) for cell in lost]
    for folder, name in zip(damaged, lost.values(), strict=True):
        (folder / name).unlink()
    before = [files(trained, cell) for cell in lost]
    cells, jobs = trained.plan()
    assert cells == {f"{cell} 0-4" for cell in lost}
    assert jobs["table"] == 3
    refused = trained.snakemake(*MADE, check=False)
    assert refused.returncode == 1
    for name in lost.values():
        assert f"seed-2 has run.json but no {name}" in refused.stdout
    assert [files(trained, cell) for cell in lost] == before
    for folder in damaged:
        shutil.rmtree(folder)
    trained.snakemake(*MADE)
    assert len(trained.documents()) == 30
    assert trained.planned_jobs(*MADE) == {}


def test_a_queued_cell_finished_by_hand_is_not_trained_again(checkout: Checkout, tmp_path: Path) -> None:
    """The first job of the sweep runs while another process trains the cell that comes after it."""
    two_seeds(checkout)
    checkout.edit("benchmarks/suites/paper.yaml", "seeds: 0-1", "seeds: 0-1\nonly: 'smac/*'")
    journal, hold, other = tmp_path / "journal", tmp_path / "hold", "smac/3s5z/full/fp3o"
    hold.touch()
    sweep = subprocess.Popen(
        ["snakemake", "runs", "--cores", "1"],
        cwd=checkout.path,
        env={**checkout.environment, "FAKE_HOLD": str(hold), "FAKE_JOURNAL": str(journal)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: journal.exists() and "start" in journal.read_text())
    running = journal.read_text().split()[3]
    queued = ({CELL, other} - {running}).pop()
    checkout.run("fp3o", "train", queued, "--seeds", "0-1")
    by_hand = files(checkout, queued)
    assert seeds(by_hand) == ["seed-0", "seed-1"]
    hold.unlink()
    assert sweep.wait() == 0
    assert files(checkout, queued) == by_hand
    assert [line.split()[3] for line in journal.read_text().splitlines() if " start " in line] == [running]
    assert checkout.planned_jobs("runs") == {}


def test_a_cell_trained_again_replaces_the_old_runs_when_it_is_finished(trained: Checkout) -> None:
    trained.snakemake(TARGET)
    old = files(trained)
    trained.run("fp3o", "rerun", CELL, FAKE_FAIL=f"{CELL}:3")  # Retried once.
    new = files(trained)
    assert {n: c for n, (c, _) in new.items() if n.endswith(".csv")} == {
        n: c for n, (c, _) in old.items() if n.endswith(".csv")
    }
    assert all(new[name][1] > old[name][1] for name in old)
    kept = trained.path / "results/paper/replaced" / CELL
    assert {str(p.relative_to(kept)).replace(".1/", "/"): p.read_bytes() for p in kept.rglob("*") if p.is_file()} == {
        name: content for name, (content, _) in old.items()
    }
    assert trained.planned_jobs(TARGET) == {}
    again = trained.run("fp3o", "rerun", CELL, "--seed", "3", "--dry-run").stdout
    assert ".retrain-3 " in again


def test_until_the_new_runs_are_finished_the_old_ones_are_in_place(trained: Checkout, tmp_path: Path) -> None:
    old, journal, hold = files(trained), tmp_path / "journal", tmp_path / "hold"
    hold.touch()
    process = subprocess.Popen(
        ["fp3o", "train", CELL, "--replace"],
        cwd=trained.path,
        env={**trained.environment, "FAKE_HOLD": str(hold), "FAKE_JOURNAL": str(journal)},
    )
    wait_for(lambda: journal.exists() and "start" in journal.read_text())
    assert files(trained) == old
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert files(trained) == old
    trained.run("fp3o", "train", CELL, "--replace")
    assert files(trained) != old


def test_planning_writes_and_deletes_nothing(trained: Checkout) -> None:
    def everything() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for p in trained.path.rglob("*") if p.is_file() and not OWN.search(str(p))}

    (trained.path / ".snakemake/incomplete").mkdir(exist_ok=True)
    (trained.path / ".snakemake/incomplete/bWFyaw==").touch()
    shutil.rmtree(trained.path / "results/paper/tables")
    next(trained.path.glob(f"results/paper/runs/{CELL}/*/seed-2/run.json")).unlink()
    before = everything()
    trained.snakemake("-n")
    trained.snakemake("--lint")
    assert everything() == before
