"""Interrupted = uninterrupted: after kill -9 anywhere, Ctrl-C or SIGTERM the files are those of an unbroken run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import call
from short_runs import files

from fp3o import config
from fp3o.runs import checkpoint, layout, records
from fp3o.runs.folder import RESUME
from fp3o.training import loop
from fp3o.training.run_stats import RunStats
from fp3o.workflow import packing

CELL = "matrix/two-step/partial/fp3o"
ITERATIONS = 6
SETTINGS = {
    **{"total_steps": ITERATIONS * 64, "rollout_length": 16, "rollout_threads": 4, "epochs": 1, "hidden_size": 8},
    **{"evaluation_interval": 2, "evaluation_episodes": 3, "final_episodes": 5},
}
SHORT = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]

# Imports once for all tests, then plays each attempt in a forked child: imports cost seconds, an attempt a part of one.
# An attempt is [kill, signal, arguments]: the signal comes at the kill-th time data is forced to disk (in the middle of
# a checkpoint, of a CSV file or of publishing), or never (0). Answers: exit code, how often it forced data to disk.
DRIVER = """
import json, os, signal, sys
from fp3o import cli
from fp3o.training import loop
loop.SECONDS_BETWEEN_SAVES = 0.0
real = os.fsync

def attempt(kill, number, arguments, report):
    count = 0
    def fsync(descriptor):
        nonlocal count
        count += 1
        if count == kill:
            if number == signal.SIGKILL and os.readlink(f"/proc/self/fd/{descriptor}").endswith(".partial"):
                os.truncate(descriptor, os.fstat(descriptor).st_size // 2)  # only half of it was written
            os.kill(os.getpid(), number)
        real(descriptor)
    os.fsync = fsync
    try:
        cli.main(arguments)
    finally:
        os.write(report, str(count).encode())

for line in sys.stdin:
    kill, number, arguments, said = json.loads(line)
    heard, report = os.pipe()
    child = os.fork()
    if child == 0:
        output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = 99
        try:
            attempt(kill, number, arguments, report)
            code = 0
        except SystemExit as left:
            code = left.code or 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(report)
    print(json.dumps([code, int(os.read(heard, 99) or 0)]), flush=True)
    os.close(heard)
"""

Attempt = tuple[int, int, list[str]]


class Player:
    """A process that plays attempts."""

    def __init__(self, folder: Path) -> None:
        self._said = folder / "said"
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, attempts: list[Attempt]) -> tuple[list[int], str]:
        """Exit codes of the attempts, and what they said."""
        self._said.unlink(missing_ok=True)
        codes = [self.play(*attempt)[0] for attempt in attempts]
        return codes, self._said.read_text()

    def play(self, kill: int, number: int, arguments: list[str]) -> tuple[int, int]:
        """Exit code, and how often something was forced to disk."""
        self.begin(kill, number, arguments)
        return self.end()

    def begin(self, kill: int, number: int, arguments: list[str]) -> None:
        assert self._process.stdin is not None
        print(json.dumps([kill, number, arguments, str(self._said)]), file=self._process.stdin, flush=True)

    def end(self) -> tuple[int, int]:
        """Of the attempt that was begun."""
        assert self._process.stdout is not None
        code, count = json.loads(self._process.stdout.readline())
        return code, count

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    player = Player(tmp_path_factory.mktemp("player"))
    yield player
    player.close()


def command(out: Path, *more: str, seeds: str = "0-1") -> list[str]:
    return ["train", CELL, "--seeds", seeds, "--out", str(out), "--device", "cpu", "--path", "eager", *SHORT, *more]


# Reads /proc to know which file is being forced to disk.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture(scope="module")
def unbroken(play: Player, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("unbroken")
    codes, said = play([(0, 0, command(out))])
    assert codes == [0], said
    found = files(out)
    assert len(found) == 2 * 5
    assert not list((out / "scratch").rglob("*.*"))
    return found


def test_killed_again_and_again(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    # Each attempt dies a little later into its life than it takes to save once (a save forces nine things to disk:
    # four CSV files and the checkpoint with its folder, after two probes), so all stages are met.
    kills = [2, 9, 13, 5, 17, 10, 12, 23, 11, 31, 14]
    codes, said = play([(kill, signal.SIGKILL, command(tmp_path)) for kill in kills])
    assert codes.count(-signal.SIGKILL) >= 8, (codes, said)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert files(tmp_path) == unbroken
    resumes = [records.read_run(path)["volatile"]["resumes"] for path in tmp_path.rglob(records.RUN)]
    assert max(resumes) >= 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop(
    play: Player, tmp_path: Path, unbroken: dict[str, Any], number: signal.Signals, code: int
) -> None:
    codes, said = play([(12, number, command(tmp_path)), (12, number, command(tmp_path)), (0, 0, command(tmp_path))])
    assert codes == [code, code, 0], said
    assert "the same command resumes it" in said
    assert f"resume with: fp3o train {CELL}" in said
    assert files(tmp_path) == unbroken


def test_a_signal_stops_after_the_iteration_it_came_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken: dict[str, Any]
) -> None:
    """However long ago the last save was."""
    assert loop.SECONDS_BETWEEN_SAVES > 60
    count = RunStats.count

    def counted(stats: RunStats) -> None:
        count(stats)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(RunStats, "count", counted)
        assert call(*command(tmp_path)) == 143
    (state,) = tmp_path.rglob(RESUME)
    assert checkpoint.load(state)[1]["iteration"] == 1
    assert call(*command(tmp_path)) == 0
    assert files(tmp_path) == unbroken


def test_the_same_command_twice_gives_the_same(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    codes, said = play([(0, 0, command(tmp_path / "again")), (0, 0, command(tmp_path / "again"))])
    assert codes == [0, 0], said
    assert "already finished, nothing to do" in said
    assert files(tmp_path / "again") == unbroken


def test_a_stack_is_its_single_runs(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    codes, said = play([(0, 0, command(tmp_path, seeds="1")), (0, 0, command(tmp_path, seeds="0"))])
    assert codes == [0, 0], said
    assert files(tmp_path) == unbroken


def test_foreign_and_damaged_states_are_refused(play: Player, tmp_path: Path) -> None:
    codes, said = play([(12, signal.SIGTERM, command(tmp_path / "a"))])
    assert codes == [143], said
    (state,) = (tmp_path / "a").rglob("resume.safetensors")
    good = state.read_bytes()
    other = command(tmp_path / "b", "--set", "gamma=0.5")
    codes, said = play([(12, signal.SIGTERM, other)])
    assert codes == [143], said
    (foreign,) = (tmp_path / "b").rglob("resume.safetensors")
    for content, message in ((good[:-7], "is damaged"), (foreign.read_bytes(), "belongs to another run: its digest")):
        state.write_bytes(content)
        codes, said = play([(0, 0, command(tmp_path / "a"))])
        assert codes == [2], said
        assert message in said.splitlines()[-1]
        assert said.splitlines()[-1].endswith(f"; delete {state.parent} to start afresh")
        assert state.read_bytes() == content
        assert not files(tmp_path / "a")


@pytest.mark.parametrize("name", [records.ITERATIONS, records.EVALUATIONS])
def test_altered_files_in_progress_are_refused(
    play: Player, tmp_path: Path, unbroken: dict[str, Any], name: str
) -> None:
    codes, said = play([(12, signal.SIGTERM, command(tmp_path))])
    assert codes == [143], said
    (state,) = tmp_path.rglob("resume.safetensors")
    path = state.parent / "seed-1" / name
    good = path.read_bytes()
    altered = good.replace(b"0,64", b"0,65", 1) if name == records.ITERATIONS else good.replace(b"64,0", b"65,0", 1)
    assert altered != good
    path.write_bytes(altered)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [2], said
    assert f"cannot resume: {path} was altered since the state was saved" in said.splitlines()[-1]
    assert path.read_bytes() == altered
    path.write_bytes(good)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert files(tmp_path) == unbroken


def test_a_state_of_an_older_version_goes_on(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    """It has no checksums of its files in progress."""
    codes, said = play([(12, signal.SIGTERM, command(tmp_path))])
    assert codes == [143], said
    (state,) = tmp_path.rglob("resume.safetensors")
    tensors, metadata = checkpoint.load(state)
    del metadata["checksums"]
    checkpoint.save(state, tensors, metadata)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert files(tmp_path) == unbroken


def test_killed_after_its_end(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    """Whatever a process killed after the last publication left in scratch goes with the next command."""
    _, writes = play.play(0, 0, command(tmp_path / "count"))
    codes, said = play([(writes, signal.SIGKILL, command(tmp_path / "runs"))])
    assert codes == [-signal.SIGKILL], said
    assert list((tmp_path / "runs").rglob("*.lock"))
    assert list((tmp_path / "runs").rglob("resume.safetensors"))
    assert files(tmp_path / "runs") == unbroken
    codes, said = play([(0, 0, command(tmp_path / "runs"))])
    assert codes == [0], said
    assert "already finished, nothing to do" in said
    assert not list((tmp_path / "runs" / "scratch").rglob("*"))
    assert files(tmp_path / "runs") == unbroken


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_fills_up_costs_nothing(play: Player, tmp_path: Path, unbroken: dict[str, Any]) -> None:
    codes, said = play([(12, signal.SIGTERM, command(tmp_path))])
    assert codes == [143], said
    (state,) = tmp_path.rglob("resume.safetensors")
    before = state.read_bytes()
    state.with_name(".resume.safetensors.partial").symlink_to("/dev/full")
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [2], said
    assert said.splitlines()[-1].endswith("resume.safetensors: the disk is full")
    assert state.read_bytes() == before
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert files(tmp_path) == unbroken


def test_packed_while_it_trains(
    play: Player, tmp_path: Path, unbroken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another machine goes on from; the run itself goes on as well."""
    domain, task, sharing, algorithm = CELL.split("/")
    group = {"domain": domain, "tasks": [task], "sharing": [sharing], "algorithms": [algorithm]}
    table = {"kind": "table", "cells": [group]}
    document = {"title": "Own", "seeds": "0-1", "overrides": [{"cells": CELL, "set": SETTINGS}]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**document, "artefacts": {"table-own": table}}))
    suite = config.load_suite(str(tmp_path / "own.yaml"))
    here, there = tmp_path / "here", tmp_path / "there"
    play.begin(20, signal.SIGSTOP, command(here))  # in the middle of a save: rows are there, their state is not
    trainer = wait_for_stopped(here)
    monkeypatch.setattr(layout, "suite_root", lambda name: here)
    try:
        lines = packing.pack(tmp_path / "own.tar", [suite], [], states=True, saved=True).lines
        (log,) = here.rglob(f"seed-0/{records.ITERATIONS}")
        rows = log.read_text().splitlines()[1:]
    finally:
        os.kill(trainer, signal.SIGCONT)
        code, _ = play.end()
    assert lines[1:] == [f"{CELL} seeds 0-1 is still in training: its last saved state, after 128 of 384 steps"]
    assert len(rows) == 3
    assert code == 0
    assert files(here) == unbroken
    monkeypatch.setattr(layout, "suite_root", lambda name: there)
    outcome = packing.unpack([tmp_path / "own.tar"], suite)
    assert outcome.problems == []
    assert outcome.lines[1:] == [f"taken: the resume state of {CELL} seeds 0-1"]
    codes, said = play([(0, 0, command(there))])
    assert codes == [0], said
    assert "goes on after iteration 2" in said
    assert files(there) == unbroken


def wait_for_stopped(out: Path) -> int:
    """The process that trains there, once it has stopped itself."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for lock in out.rglob("seed-0.lock"):
            if written := lock.read_bytes():
                process = int(json.loads(written)["pid"])
                if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    return process
        time.sleep(0.02)
    raise AssertionError("it did not come so far")
