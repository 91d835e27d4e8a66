"""Killed, stopped, failing: the other cells finish, and what was begun is resumed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Checkout, processes
from warm import warm_commands

pytestmark = pytest.mark.workflow


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something that must happen while the process lives."""
    while not condition():
        assert process.poll() is None, "the sweep ended before it could be interrupted"
        time.sleep(0.02)


def only(checkout: Checkout, cells: str) -> None:
    """Leave of the suite the cells that fit."""
    checkout.edit("benchmarks/suites/paper.yaml", "seeds: 0-4", f"seeds: 0-4\nonly: '{cells}'")


def scores(checkout: Checkout) -> dict[str, str]:
    """Of the battles' runs."""
    found = {run: str(document["sha256"]) for run, document in checkout.documents().items() if run.startswith("smac/")}
    assert len(found) == 10
    return found


def resumes(checkout: Checkout) -> list[int]:
    return [document["volatile"]["resumes"] for document in checkout.documents().values()]  # type: ignore[index]


def start(checkout: Checkout, journal: Path, hold: Path, warm: Path | None = None) -> subprocess.Popen[bytes]:
    """A sweep whose jobs wait before their last iteration until `hold` is removed.

    warm: commands that start warm; they are in no group together, so that a signal to one reaches no other.
    """
    hold.touch()
    path = os.pathsep.join([*([str(warm)] if warm else []), checkout.environment["PATH"]])
    return subprocess.Popen(
        ["snakemake", "runs", "--cores", "2"],
        cwd=checkout.path,
        env={**checkout.environment, "PATH": path, "FAKE_HOLD": str(hold), "FAKE_JOURNAL": str(journal)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and what it starts inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def held(checkout: Checkout) -> int:
    """How many jobs wait before their last iteration."""
    with contextlib.suppress(FileNotFoundError):  # A job has ended meanwhile: look again.
        found = [path.read_bytes() for path in checkout.path.glob("results/*/scratch/**/resume.safetensors")]
        return sum(b'\\"iteration\\": 7' in state for state in found)
    return 0


def begun(checkout: Checkout) -> bool:
    return held(checkout) > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_sweep_resumes(checkout: Checkout, trained: Checkout, tmp_path: Path, number: int) -> None:
    only(checkout, "smac/*")
    process = start(checkout, tmp_path / "journal", tmp_path / "hold")
    wait_for(lambda: begun(checkout), process)
    os.killpg(process.pid, number)
    assert process.wait() != 0
    if number == signal.SIGKILL:
        assert "--unlock" in checkout.snakemake("runs", check=False).stdout
        checkout.snakemake("--unlock")
    checkout.snakemake("runs")
    assert scores(checkout) == scores(trained)
    assert max(resumes(checkout)) == 1


def test_a_signal_to_snakemake_alone_stops_the_sweep(checkout: Checkout, trained: Checkout, tmp_path: Path) -> None:
    """First two jobs of three, then the third, while the first two are finished."""
    only(checkout, "*/fp3o")
    journal = tmp_path / "journal"
    for number, jobs in ((signal.SIGINT, 2), (signal.SIGTERM, 1)):
        journal.write_text("")
        process = start(checkout, journal, tmp_path / "hold", warm_commands())
        wait_for(lambda jobs=jobs: held(checkout) == jobs, process)  # type: ignore[misc]
        os.kill(process.pid, number)
        assert process.wait() == 1
        events = [line.split() for line in journal.read_text().splitlines()]
        assert [event for _, _, event, *_ in events].count("stopped") == jobs
        assert not processes() & {int(line[4]) for line in events if line[2] == "start"}
    assert len(checkout.documents()) == 10
    checkout.snakemake("runs")
    found, whole = checkout.documents(), trained.documents()
    assert len(found) == 15
    assert {run: document["sha256"] for run, document in found.items()} == {run: whole[run]["sha256"] for run in found}
    assert resumes(checkout) == [1] * 15


def test_a_trainer_told_to_stop_saves_and_is_retried(checkout: Checkout, trained: Checkout, tmp_path: Path) -> None:
    only(checkout, "smac/*")
    journal = tmp_path / "journal"
    process = start(checkout, journal, tmp_path / "hold")
    wait_for(lambda: begun(checkout), process)
    pid = int(journal.read_text().splitlines()[0].split()[4])
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: "stopped" in journal.read_text(), process)
    (tmp_path / "hold").unlink()
    assert process.wait() == 0
    assert scores(checkout) == scores(trained)
    assert resumes(checkout).count(1) == 5


def test_a_failing_cell_costs_no_other(checkout: Checkout) -> None:
    names = ("table-mamujoco", "table-smac", "control-head-lr", "table-cost")
    wanted = [f"results/paper/tables/{name}.csv" for name in names]
    failing = "hopper-3x1/full/mappo:4"
    done = checkout.run("snakemake", *wanted, "--retries", "0", check=False, FAKE_FAIL=failing)
    assert done.returncode == 1
    assert "rule train:" not in done.stdout  # As a user sees it: no blocks of jobs, but what a failed one said
    assert "fp3o: injected failure" in done.stdout
    assert len(checkout.documents()) == 25
    tables = {p.name for p in checkout.path.glob("results/paper/tables/*.csv")}
    assert tables == {"table-smac.csv", "control-head-lr.csv", "table-cost.csv"}
    (failure,) = json.loads((checkout.path / "results/paper/failures.json").read_text())
    assert failure["cell"] == "mamujoco/hopper-3x1/full/mappo"
    assert (failure["attempts"], failure["exit_code"], failure["resumable_from"]) == (1, 2, 4)
    assert "fp3o: injected failure" in failure["last_lines"]
    assert re.search(r"mamujoco/hopper-3x1/full/mappo seeds 0-4: unfinished after 1 attempts", done.stdout)
    checkout.snakemake("runs")
    assert not (checkout.path / "results/paper/failures.json").exists()
    assert resumes(checkout).count(1) == 5


def test_a_retry_resumes(checkout: Checkout) -> None:
    only(checkout, "*/fp3o")
    checkout.snakemake("runs", FAKE_FAIL="smac/:5")
    found = checkout.documents()
    assert len(found) == 15
    assert {run for run, d in found.items() if d["volatile"]["resumes"] == 1} == {  # type: ignore[index]
        run for run in found if run.startswith("smac/")
    }
    log = next(checkout.path.glob("results/paper/logs/train/smac/**/*.log.all")).read_text()
    assert "--- attempt 1:" in log
    assert "--- exit code 2" in log
    assert "--- attempt 2:" in log
    assert "resume from iteration 5" in log


@pytest.mark.slow
def test_each_gpu_slot_has_one_job_at_a_time(checkout: Checkout, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    checkout.snakemake(
        "runs",
        "--cores",
        "4",
        "--config",
        "gpus=0,1",
        "jobs_per_gpu=1",
        FAKE_JOURNAL=str(journal),
        FAKE_SECONDS="0.05",
    )
    used: dict[str, list[str]] = {}
    for line in journal.read_text().splitlines():
        _, device, event, *_ = line.split()
        used.setdefault(device, []).append(event)
    assert set(used) == {"0", "1"}
    for events in used.values():
        assert events == ["start", "end"] * (len(events) // 2)
        assert len(events) >= 4
