"""benchmarks/speed/beside.py: what it counts, one small measurement, and that it leaves no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.speed import beside
from fp3o.errors import UserError

BENCHMARK = Path(beside.__file__)


def test_the_window_begins_with_the_last_and_ends_with_the_slowest() -> None:
    early, late = [0.0, 2.0, 4.0, 6.0, 8.0], [3.0, 4.0, 5.0, 6.0]
    # From 3 to 7: the early process does two iterations, which takes it half of one, a whole one and half of another.
    assert beside.window([early, [*late, 7.0]], 2) == (4.0, [2.0, 4.0])
    assert beside.window([early, late], 2) is None  # nobody knows yet what the late one does until 7
    assert beside.window([early[:-1], [*late, 7.0]], 2) is None
    assert beside.window([early, []], 2) is None


def test_rates_are_those_of_the_window() -> None:
    found = beside.rates(beside.Window(4.0, [2.0, 4.0, 5.0]), 100)
    assert found == {"least": 50, "median": 100, "most": 125, "all together": 275}


@pytest.mark.parametrize(
    ("asked", "device", "targets"),
    [
        (beside.Asked(), "cuda", {"least": 4000}),
        (beside.Asked(device="cuda"), "cuda", {"least": 4000}),
        (beside.Asked(), "cpu", {}),
        (beside.Asked(cells=11), "cuda", {}),
        (beside.Asked(cell="smac/3s5z/full/mappo"), "cuda", {}),
    ],
)
def test_the_target_is_of_the_default_with_a_gpu(
    asked: beside.Asked, device: str, targets: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = beside.Window(1000.0, [25.0, 26.0])
    monkeypatch.setattr(beside, "observe", lambda asked, folder: ({"path": {"device": device}}, slow))
    found = beside.measure(asked)
    assert (found["targets"], found["missed"]) == (targets, list(targets))


def test_a_small_measurement() -> None:
    cell = "matrix/two-step/full/mappo"
    numbers = ["--cells", "2", "--threads", "1", "--seeds", "1", "--iterations", "2"]
    command = [sys.executable, str(BENCHMARK), cell, *numbers, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    rate = found["steps_per_second_and_seed"]
    assert 0 < rate["least"] <= rate["median"] <= rate["most"] < rate["all together"]
    assert (found["cell"], found["cells"], found["path"]["mode"]) == (cell, 2, "eager")
    assert (found["targets"], found["missed"]) == ({}, [])


def test_a_process_that_dies_ends_all_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    stop = beside.stop

    def remember(processes: list[subprocess.Popen[str]]) -> None:
        started.extend(processes)
        stop(processes)

    def command(asked: beside.Asked, folder: Path) -> list[str]:
        dies = folder.name == "1"
        return [sys.executable, "-c", "import sys; sys.exit('no room')" if dies else "import time; time.sleep(600)"]

    monkeypatch.setattr(beside, "stop", remember)
    monkeypatch.setattr(beside, "command", command)
    with pytest.raises(UserError, match=r"^process 2 of 3 ended too soon, with exit code 1: no room$"):
        beside.observe(beside.Asked(cells=3), tmp_path)
    assert len(started) == 3
    assert all(process.returncode is not None for process in started)


def test_what_cannot_be_measured_is_named() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK), "--cells", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("error: --cells 0: allowed: 1 or more\n")
