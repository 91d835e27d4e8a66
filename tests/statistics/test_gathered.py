"""Claims across suites: one engine per task, and cells at a tenth of the budget that follow from other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.statistics import gathered
from fp3o.statistics.claims import ledger
from fp3o.statistics.suites import SuiteRuns


def results(root: Path, suite: str) -> Path:
    return root / "results" / suite / "runs"


def paper(root: Path) -> SuiteRuns:
    return SuiteRuns(config.load_suite("paper"), results(root, "paper"))


def test_a_task_comes_from_one_suite_as_a_whole(tmp_path: Path, write_run: Any) -> None:
    """From the one with most runs of it, of equals from the suite itself. 5m_vs_6m was run by the other alone."""
    for seed in range(2):
        write_run(results(tmp_path, "paper"), "smac/3s5z/full/fp3o", seed, 90.0, suite="paper")
        for task in ("3s5z", "5m_vs_6m"):
            for label in ("fp3o", "mappo"):
                other = results(tmp_path, "smac-revision-2")
                write_run(other, f"smac/{task}/full/{label}", seed, 50.0, suite="smac-revision-2")
    joined = gathered.whole(paper(tmp_path))
    assert joined.cells["smac/3s5z/full/fp3o"].scores() == [50.0, 50.0]
    assert joined.cells["smac/3s5z/full/mappo"].scores() == [50.0, 50.0]
    assert joined.cells["smac/5m_vs_6m/full/mappo"].scores() == [50.0, 50.0]
    assert not paper(tmp_path).cells["smac/5m_vs_6m/full/mappo"].runs

    for seed in range(2):
        write_run(results(tmp_path, "paper"), "smac/3s5z/none/fp3o", seed, 90.0, suite="paper")
    joined = gathered.whole(paper(tmp_path))
    assert joined.cells["smac/3s5z/full/fp3o"].scores() == pytest.approx([90.6, 90.6], abs=0.1)
    assert joined.cells["smac/3s5z/full/mappo"].scores() == []  # those runs are of another engine


def test_cells_that_are_never_compared_may_come_from_two_suites(tmp_path: Path, write_run: Any) -> None:
    """The matching degree on 2c_vs_64zg was measured with the old engine; more was run with the new one since."""
    for label in ("fp3o", "mappo", "happo"):
        write_run(results(tmp_path, "paper"), f"smac/2c_vs_64zg/full/{label}", 0, 90.0, suite="paper")
    for label in ("fp3o-rollout-100", "fp3o-rollout-200"):
        other = results(tmp_path, "smac-revision-2")
        write_run(other, f"smac/2c_vs_64zg/full/{label}", 0, 50.0, suite="smac-revision-2")
    joined = gathered.whole(paper(tmp_path))
    assert joined.cells["smac/2c_vs_64zg/full/fp3o-rollout-100"].scores() == [50.0]
    assert joined.cells["smac/2c_vs_64zg/full/fp3o"].scores() == pytest.approx([90.6], abs=0.1)
    groups = gathered.shown_together(config.load_suite("paper"))
    assert "smac/2c_vs_64zg/none/mappo-10-epochs" in groups["smac/2c_vs_64zg/full/coppo"]
    assert {cell.rsplit("-", 1)[0] for cell in groups["smac/2c_vs_64zg/full/fp3o-rollout-100"]} == {
        f"smac/2c_vs_64zg/{sharing}/fp3o-rollout" for sharing in ("full", "partial", "none")
    }


def test_a_tenth_of_a_full_run_is_a_preview(tmp_path: Path, write_run: Any) -> None:
    """The curve rises to 4000 over half of training: its first tenth is what a preview would have shown."""
    cell = "mamujoco/halfcheetah-6x1/full/fp3o"
    for seed in range(2):
        write_run(results(tmp_path, "paper"), cell, seed, 4000.0, suite="paper", evaluations=40)
    data = paper(tmp_path)
    early = gathered.tenth(data)
    assert early is not None
    found = early.cells[cell]
    assert found.derived == "the first 1000000 steps of full runs"
    assert max(found.scores()) < 1000
    assert not found.deviations
    assert gathered.derived_cells(data)["preview"] == {cell: found.derived}


def test_the_independent_step_alone_is_mappo(tmp_path: Path, write_run: Any) -> None:
    root = results(tmp_path, "preview")
    for seed in range(2):
        write_run(root, "mamujoco/hopper-3x1/none/mappo", seed, 1000.0 + seed, suite="preview")
    early = gathered.tenth(paper(tmp_path))
    assert early is not None
    twin = early.cells["mamujoco/hopper-3x1/none/fp3o-independent"]
    assert (twin.scores(), twin.derived) == ([1000.0, 1001.0], "runs of mamujoco/hopper-3x1/none/mappo")
    assert not list(root.glob("*/*/*/fp3o-independent"))


def test_claims_at_a_tenth_have_a_column_of_their_own(tmp_path: Path, write_run: Any, scores_around: Any) -> None:
    root = results(tmp_path, "preview")
    for label, centre in (("fp3o", 3000), ("mappo-10-epochs", 1000)):
        for seed, score in enumerate(scores_around(centre, 60)):
            write_run(root, f"mamujoco/halfcheetah-6x1/full/{label}", seed, score, suite="preview")
    data = paper(tmp_path)
    early = gathered.tenth(data)
    assert early is not None
    at_a_tenth = {claim.name: finding for claim, finding in ledger(early)}
    assert (at_a_tenth["C16"].found, at_a_tenth["C16"].evidence[:45]) == (
        1,
        "FP3O over MAPPO with 10 epochs: P = 1.00 [0.6",
    )
    assert {claim.name: finding.verdict for claim, finding in ledger(gathered.whole(data))}["C16"] == "not run"
