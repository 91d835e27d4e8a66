"""Whoever reads a command's output may go away: a training goes on, other commands end quietly or say what is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fp3o.runs import records
from fp3o.runs.interrupt import stopping_signals

CELL = "matrix/climbing/full/mappo"
SHORT = [f"--set={value}" for value in ("rollout_length=16", "rollout_threads=4", "epochs=1")]
TRAIN = [
    sys.executable,
    "-m",
    "fp3o",
    "train",
    CELL,
    "--seeds",
    "0",
    "--device",
    "cpu",
    "--path",
    "eager",
    *SHORT,
    "--set",
]


def finished(folder: Path) -> bool:
    return len(list(folder.rglob(records.RUN))) == 1


def test_a_training_outlives_the_reader_of_its_output(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [*TRAIN, "total_steps=640", "--out", str(tmp_path)],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert finished(tmp_path)
    assert "stdout is lost (Broken pipe); the work goes on without it" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_training_outlives_a_full_disk_below_its_output(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*TRAIN, "total_steps=640", "--out", str(tmp_path)], stdout=full, stderr=full, check=False
        )
    assert done.returncode == 0
    assert finished(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_is_the_purpose_and_cannot_be_written_is_an_error() -> None:
    command = [sys.executable, "-m", "fp3o", "list", "algorithms"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "fp3o: cannot write to stdout: No space left on device\n")


def test_help_ends_quietly_with_its_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        command = [sys.executable, "-m", "fp3o", "train", "--help"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_terminal_saves_as_sigterm_does(tmp_path: Path) -> None:
    command = [*TRAIN, "total_steps=100000000", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:  # progress: an iteration is done
            if "steps/s" in line:
                break
        process.send_signal(signal.SIGHUP)
        _, rest = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGHUP
    assert "SIGHUP: saving after this iteration" in rest
    assert len(list(tmp_path.rglob("resume.safetensors"))) == 1


def test_who_asked_not_to_be_hung_up_is_not() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        for handler, heeded in ((signal.SIG_IGN, False), (signal.SIG_DFL, True)):
            signal.signal(signal.SIGHUP, handler)
            assert (signal.SIGHUP in stopping_signals()) == heeded
    finally:
        signal.signal(signal.SIGHUP, before)
