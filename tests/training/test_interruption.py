"""Interrupted = uninterrupted: after kill -9 anywhere, Ctrl-C or SIGTERM the files are those of an unbroken run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fp3o.runs import checkpoint, records

CELL = "matrix/two-step/partial/fp3o"
ITERATIONS = 6
SHORT = ("--set", f"total_steps={ITERATIONS * 64}", "--set", "rollout_length=16", "--set", "rollout_threads=4")
SHORT += ("--set", "evaluation_interval=2", "--set", "evaluation_episodes=3", "--set", "final_episodes=5")

# Imports once, then plays each attempt in a forked child: what a command line says would cost seconds of imports each.
# An attempt is [kill, arguments]: SIGKILL at the kill-th time data is forced to disk (in the middle of a checkpoint,
# of a CSV file or of publishing), at a signal "INT"/"TERM" sent at that time, or never (0).
DRIVER = """
import json, os, signal, sys
from fp3o import cli
from fp3o.training import loop
loop.SECONDS_BETWEEN_SAVES = 0.0
real = os.fsync

def attempt(kill, number, arguments):
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
    cli.main(arguments)

for kill, number, arguments in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        try:
            attempt(kill, number, arguments)
        except SystemExit as left:
            os._exit(left.code or 0)
        finally:
            os._exit(99)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def play(attempts: list[tuple[int, int, list[str]]]) -> tuple[list[int], str]:
    """Exit codes of the attempts, and what they said."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(attempts)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in done.stdout.split()], done.stderr


def command(out: Path, *more: str, seeds: str = "0-1") -> list[str]:
    return ["train", CELL, "--seeds", seeds, "--out", str(out), "--device", "cpu", "--path", "eager", *SHORT, *more]


def results(out: Path) -> dict[str, Any]:
    """Every published file; of run.json only what must repeat."""
    found: dict[str, Any] = {}
    for path in sorted((out / CELL).rglob("seed-*/*")):
        name = str(path.relative_to(out))
        if path.name == records.RUN:
            found[name] = records.without_volatile(records.read_run(path))
            del found[name]["git"]  # Somebody may commit while the tests run.
        else:
            found[name] = path.read_bytes()
    return found


# Reads /proc to know which file is being forced to disk.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("unbroken")
    codes, said = play([(0, 0, command(out))])
    assert codes == [0], said
    found = results(out)
    assert len(found) == 2 * 5
    assert not list((out / "scratch").rglob("*.*"))
    return found


def test_killed_again_and_again(tmp_path: Path, unbroken: dict[str, Any]) -> None:
    # Each attempt dies a little later into its life than it takes to save once (a save forces nine things to disk:
    # four CSV files and the checkpoint with its folder, after two probes), so all stages are met.
    kills = [2, 9, 13, 5, 17, 10, 12, 23, 11, 31, 14]
    codes, said = play([(kill, signal.SIGKILL, command(tmp_path)) for kill in kills])
    assert codes.count(-signal.SIGKILL) >= 8, (codes, said)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert results(tmp_path) == unbroken
    resumes = [records.read_run(path)["volatile"]["resumes"] for path in tmp_path.rglob(records.RUN)]
    assert max(resumes) >= 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop(tmp_path: Path, unbroken: dict[str, Any], number: signal.Signals, code: int) -> None:
    codes, said = play([(12, number, command(tmp_path)), (12, number, command(tmp_path)), (0, 0, command(tmp_path))])
    assert codes == [code, code, 0], said
    assert "the same command resumes it" in said
    assert f"resume with: fp3o train {CELL}" in said
    assert results(tmp_path) == unbroken


def test_the_same_command_twice_gives_the_same(tmp_path: Path, unbroken: dict[str, Any]) -> None:
    codes, said = play([(0, 0, command(tmp_path / "again")), (0, 0, command(tmp_path / "again"))])
    assert codes == [0, 0], said
    assert "already finished, nothing to do" in said
    assert results(tmp_path / "again") == unbroken


def test_a_stack_is_its_single_runs(tmp_path: Path, unbroken: dict[str, Any]) -> None:
    codes, said = play([(0, 0, command(tmp_path, seeds="1")), (0, 0, command(tmp_path, seeds="0"))])
    assert codes == [0, 0], said
    assert results(tmp_path) == unbroken


def test_foreign_and_damaged_states_are_refused(tmp_path: Path) -> None:
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
        assert not results(tmp_path / "a")


@pytest.mark.parametrize("name", [records.ITERATIONS, records.EVALUATIONS])
def test_altered_files_in_progress_are_refused(tmp_path: Path, unbroken: dict[str, Any], name: str) -> None:
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
    assert results(tmp_path) == unbroken


def test_a_state_of_an_older_version_goes_on(tmp_path: Path, unbroken: dict[str, Any]) -> None:
    """It has no checksums of its files in progress."""
    codes, said = play([(12, signal.SIGTERM, command(tmp_path))])
    assert codes == [143], said
    (state,) = tmp_path.rglob("resume.safetensors")
    tensors, metadata = checkpoint.load(state)
    del metadata["checksums"]
    checkpoint.save(state, tensors, metadata)
    codes, said = play([(0, 0, command(tmp_path))])
    assert codes == [0], said
    assert results(tmp_path) == unbroken


def test_killed_after_its_end(tmp_path: Path, unbroken: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a process killed after the last publication left in scratch goes with the next command."""
    codes, said = play([(last_write(tmp_path / "count"), signal.SIGKILL, command(tmp_path / "runs"))])
    assert codes == [-signal.SIGKILL], said
    assert list((tmp_path / "runs").rglob("*.lock"))
    assert list((tmp_path / "runs").rglob("resume.safetensors"))
    assert results(tmp_path / "runs") == unbroken
    codes, said = play([(0, 0, command(tmp_path / "runs"))])
    assert codes == [0], said
    assert "already finished, nothing to do" in said
    assert not list((tmp_path / "runs" / "scratch").rglob("*"))
    assert results(tmp_path / "runs") == unbroken


def last_write(out: Path) -> int:
    """How often an unbroken run forces something to disk."""
    script = DRIVER.replace("    cli.main(arguments)", "    try: cli.main(arguments)\n    finally: os._exit(count)")
    attempt = json.dumps([(0, 0, command(out))])
    done = subprocess.run([sys.executable, "-c", script, attempt], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_fills_up_costs_nothing(tmp_path: Path, unbroken: dict[str, Any]) -> None:
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
    assert results(tmp_path) == unbroken
