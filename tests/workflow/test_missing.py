"""What a dry run says about a suite before its plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from stores import publish

from fp3o import config
from fp3o.runs import layout
from fp3o.workflow import guard, missing, resources


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Suite:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(layout, "suite_root", lambda name: Path("results") / name)
    return config.load_suite("smoke")


def test_what_is_here_and_what_is_left(suite: config.Suite) -> None:
    cells = suite.runs()
    first = cells[0][0].cell
    for seed in (0, 1):
        publish(first.id, seed, suite="smoke")
    whole, domains, time = missing.summary(suite, cores=16, gpus=1)
    assert whole == f"suite smoke: of 18 runs of 9 cells 2 here, {18 - 2} to train"
    assert domains.startswith("cells to train: ")
    assert sum(int(word) for word in domains.replace(",", "").split() if word.isdecimal()) == len(cells) - 1
    assert time.startswith("time: about 0:00:0")
    assert "16 cores" in time


def test_with_a_gpu_the_time_is_the_work_over_the_cores(suite: config.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "not_pulled", lambda _: [])
    paper = config.load_suite("paper")
    seconds = sum(resources.work_seconds(plan, len(seeds)) for plan, seeds in paper.runs())
    *_, time = missing.summary(paper, cores=16, gpus=1)
    assert f"about {round(seconds / 16) // 3600}:" in time
    page = (Path(__file__).parents[2] / "docs" / "speed.md").read_text()
    assert f"about {seconds / 16 / 3600:.0f} hours" in page  # what the page says of the whole paper
    assert f"and {seconds / 64 / 3600:.0f} with 64" in page
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert f"some {seconds / 16 / 3600:.0f} hours beside an H200" in readme


def test_without_a_gpu_runs_that_were_timed_are_asked(suite: config.Suite) -> None:
    assert missing.summary(suite, 2, 0)[-1].startswith("time: not known, as no run here was timed without a GPU")
    plan, seeds = suite.runs()[0]
    publish(plan.cell.id, seeds[0], suite="smoke")
    line = missing.summary(suite, 2, 0)[-1]
    assert line.startswith("time: about 0:")
    assert "on 2 cores without a GPU" in line


def test_runs_in_the_store_are_not_counted_as_missing(suite: config.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = [(plan.cell.id, seed) for plan, seeds in suite.runs() for seed in seeds]
    monkeypatch.setattr(guard, "not_pulled", lambda _: saved)
    assert missing.summary(suite, 2, 0) == [
        "suite smoke: of 18 runs of 9 cells 0 here, 18 saved and not pulled (`fp3o pull`), 0 to train"
    ]


def test_it_does_without_torch() -> None:
    """Every call of Snakemake would wait for it."""
    code = (
        "import sys; from fp3o import config; from fp3o.workflow import missing; "
        "missing.summary(config.load_suite('smoke'), 2, 0); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
