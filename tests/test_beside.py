"""benchmarks/speed/beside.py: what it counts, one small measurement, and that it leaves no process behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.speed import beside
from fp3o.config import Cell, step_seconds
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
        (beside.Asked((beside.Group(threads=1),)), "cuda", {}),
        (beside.Asked((beside.Group("smac/3s5z/full/mappo"),)), "cuda", {}),
    ],
)
def test_the_target_is_of_the_default_with_a_gpu(
    asked: beside.Asked, device: str, targets: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = beside.Window(1000.0, [25.0, 26.0])
    monkeypatch.setattr(beside, "observe", lambda asked, folder: ({"path": {"device": device}}, slow))
    found = beside.measure(asked)
    assert (found["targets"], found["missed"]) == (targets, list(targets))


def test_of_a_mix_every_cell_has_its_rates_and_all_have_their_work() -> None:
    asked = beside.Asked(
        (beside.Group("smac/3s5z/full/fp3o", 2, 1), beside.Group("mamujoco/hopper-3x1/full/fp3o", 1, 4))
    )
    (battles, hoppers), work = beside.report_groups(asked, beside.Window(2.0, [4.0, 6.0, 3.0]))
    assert battles["steps_per_second_and_seed"]["all together"] == 10 * 8 * 400 / 2
    assert hoppers["steps_per_second_and_seed"]["all together"] == 3 * 4 * 1000 / 2
    costs = [step_seconds(Cell.parse(group.cell)) for group in asked.groups]
    assert work == pytest.approx(5 * (16_000 * costs[0] + 6_000 * costs[1]))


def test_threads_are_named_or_as_snakemake_gives_them() -> None:
    battle, hopper = "smac/3s5z/full/fp3o", "mamujoco/hopper-3x1/full/fp3o"
    named = (beside.group(f"{battle}=3x2"), beside.group(f"{hopper}=1x4"))
    assert beside.arranged(named, 16) == (beside.Group(battle, 3, 2), beside.Group(hopper, 1, 4))
    left = beside.arranged([beside.group(f"{battle}=3"), beside.group(f"{hopper}=2")], 16)
    assert sum(group.processes * group.threads for group in left) == 16
    assert {group.cell: sum(g.processes for g in left if g.cell == group.cell) for group in left} == {
        battle: 3,
        hopper: 2,
    }
    most, least = (max(left, key=lambda group: sign * group.threads) for sign in (1, -1))
    assert (most.cell, least.cell) == (hopper, battle)  # the longer jobs get the most


def test_a_small_measurement() -> None:
    cell = "matrix/two-step/full/mappo"
    command = [sys.executable, str(BENCHMARK), f"{cell}=2x1", "--seeds", "1", "--iterations", "2", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    (group,) = found["groups"]
    rate = group["steps_per_second_and_seed"]
    assert 0 < rate["least"] <= rate["median"] <= rate["most"] < rate["all together"]
    assert (group["cell"], group["processes"], found["path"]["mode"]) == (cell, 2, "eager")
    assert (found["targets"], found["missed"]) == ({}, [])


def test_a_process_that_dies_ends_all_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    stop = beside.stop

    def remember(processes: list[subprocess.Popen[str]]) -> None:
        started.extend(processes)
        stop(processes)

    def command(asked: beside.Asked, group: beside.Group, folder: Path) -> list[str]:
        dies = folder.name == "1"
        return [sys.executable, "-c", "import sys; sys.exit('no room')" if dies else "import time; time.sleep(600)"]

    monkeypatch.setattr(beside, "stop", remember)
    monkeypatch.setattr(beside, "command", command)
    with pytest.raises(UserError, match=r"^process 2 of 3 ended too soon, with exit code 1: no room$"):
        beside.observe(beside.Asked((beside.Group(processes=3),)), tmp_path)
    assert len(started) == 3
    assert all(process.returncode is not None for process in started)


def test_what_cannot_be_measured_is_named() -> None:
    command = [sys.executable, str(BENCHMARK), "smac/3s5z/full/fp3o=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("=0: allowed: CELL=PROCESSES or CELL=PROCESSESxTHREADS, both 1 or more\n")
