"""The short form of benchmarks/faults: a few kills of a small training, a small grid; and that they would notice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "faults" / "kills.py"


def test_a_few_kills_of_a_training() -> None:
    # Moments of this seed: after 51 %, 27 % and 19 % of the whole command's time, all of them in one round.
    command = [sys.executable, str(BENCHMARK), "--kills", "3", "--what", "training", "--seed", "44"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["held"] is True
    assert found["training"]["kills"] >= 3
    assert (found["training"]["differing"], found["training"]["lost"]) == (0, 0)


def test_it_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that disappears and one whose bytes change are counted."""
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    import kills  # type: ignore[import-not-found]  # found by the line above

    class Careless(kills.Training):
        """Ends at once; what it leaves is worse every time one looks."""

        looks = 0

        def start(self, place: Path) -> int:
            return subprocess.Popen([sys.executable, "-c", "pass"]).pid

        def results(self, place: Path) -> dict[Path, kills.Files]:
            self.looks += 1
            whole = {Path("a"): {"x": b"1"}, Path("b"): {"x": b"2"}}
            return whole if self.looks == 1 else {Path("a"): {"x": b"other"}}

    class Moments(random.Random):
        def uniform(self, low: float, high: float) -> float:
            return -1.0  # Killed before it can end.

    found = kills.measure(Careless(tmp_path), 1, Moments(0))
    assert (found["kills"], found["lost"], found["differing"]) == (1, 1, 1)


def test_a_small_grid_is_read(tmp_path: Path) -> None:
    """Its runs are made by hand, so they must pass every check that runs are read with."""
    command = [sys.executable, str(BENCHMARK.with_name("growth.py")), "--runs", "100", "--what", "verify", "table"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, _ = map(json.loads, done.stdout.splitlines())
    assert found["runs"] == 100
    assert min(found[what][unit] for what in ("verify", "table") for unit in ("seconds", "mib")) > 0


def test_growth_beyond_linear_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    import growth  # type: ignore[import-not-found]  # found by the line above

    sizes = (1000, 5000, 20_000)
    found = [{"runs": n, "table": {"seconds": 1e-6 * n**2, "mib": 50 + n / 1000}} for n in sizes]
    powers = growth.exponents(found)["table"]
    assert powers["seconds"] == pytest.approx(2)
    assert powers["mib"] < 1 < growth.LINEAR < 2
