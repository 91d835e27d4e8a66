"""Which choice flips a verdict is found; a verdict that nothing flips holds under all."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.cli import main as fp3o
from fp3o.statistics import gathered, robustness
from fp3o.statistics.choices import Choices
from fp3o.statistics.suites import SuiteRuns

SUITE = """
title: Mine
seeds: 0-4
margins: [{cells: "*", margin: 0.5}]
artefacts:
  table-mine:
    kind: table
    baseline: mappo
    cells: [{domain: matrix, tasks: [climbing], sharing: [full], algorithms: [mappo, happo, ippo]}]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_run: Any) -> SuiteRuns:
    """HAPPO leads by 4 in four seeds and by 1 in the last; IPPO leads by far in all."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.yaml").write_text(SUITE)
    suite = str(folder / "mine.yaml")
    base = (1.0, 2.0, 3.0, 4.0, 5.0)
    for label, more in (
        ("mappo", (0.0,) * 5),
        ("happo", (4.0, 4.2, 4.1, 3.9, -3.0)),
        ("ippo", (9.0, 9.1, 9.2, 9.0, 8.9)),
    ):
        for seed, score in enumerate(base):
            write_run(
                folder / "results/mine/runs", f"matrix/climbing/full/{label}", seed, score + more[seed], suite=suite
            )
    return SuiteRuns(config.load_suite(suite), folder / "results/mine/runs")


def test_the_choice_that_flips_a_verdict_is_named(data: SuiteRuns) -> None:
    rows = {row.name.rpartition("/")[2]: row for row in robustness.robustness(data)}
    assert set(rows) == {"happo", "ippo"}
    assert (rows["ippo"].usual, rows["ippo"].share, rows["ippo"].flips) == ("better", 1.0, {})
    shaky = rows["happo"]
    assert (shaky.usual, shaky.flips) == ("undecided", {"better": ["without seed 4"]})
    assert shaky.holds == len(shaky.others) - 1 == len(robustness.CHOICES) - 1
    first, _ = robustness.table(list(rows.values())).rows
    assert first[1].endswith("happo")
    assert first[5] == "better: without seed 4"
    assert robustness.notes(list(rows.values()))[0].startswith("2 verdicts, 1 of them decided; 1 of these hold")
    (line,) = list(csv.DictReader(io.StringIO(robustness.to_csv([shaky]))))
    assert (line["usual"], line["share"], line["without seed 4"], line["test: t"]) == (
        *("undecided", "0.938", "better", "undecided"),
    )


def test_a_choice_changes_scores_and_leaves_the_runs_alone(data: SuiteRuns) -> None:
    cell = "matrix/climbing/full/mappo"
    assert robustness.under(data, Choices(without=1)).cells[cell].scores() == [1.0, 3.0, 4.0, 5.0]
    other = robustness.under(data, Choices(reduction="best", statistic="median")).cells[cell]
    assert (other.scoring.reduction, other.scoring.statistic) == ("best", "median")
    assert data.cells[cell].scoring.statistic == "mean"


def test_the_command_and_the_files(
    data: SuiteRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data.root.parents[2])
    with pytest.raises(SystemExit) as ended:
        fp3o(["robustness", "--suite", "mine.yaml"])
    assert not ended.value.code
    text = capsys.readouterr().out
    assert "matrix/climbing/full/happo against mappo: undecided in 15 of 16\n    better: without seed 4\n" in text
    assert "ippo" not in text
    robustness.main(["--suite", "mine.yaml", "--runs", str(data.root), "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"robustness.csv", "robustness.md"}
    assert (
        "| baseline | matrix/climbing/full/ippo | against mappo | better | 16 of 16 | – |"
        in (tmp_path / "robustness.md").read_text()
    )


def test_variants_of_the_engine_are_choices(tmp_path: Path, write_run: Any) -> None:
    """In the suite that has them, for each cell; for claims of the paper, by that suite's cells alone."""
    roots = {name: tmp_path / name / "runs" for name in ("paper", "smac-variants")}
    ahead = {"fp3o": 90.0, "happo": 40.0, "mappo": 45.0, "ippo": 30.0, "mappo-10-epochs": 20.0}
    for suite, ending in (("paper", ""), ("smac-variants", ""), ("smac-variants", "-help_radius-2")):
        for label, score in ahead.items():
            if suite == "paper" and label == "mappo-10-epochs":
                continue
            level = score if not ending else 100 - score
            for seed in range(5):
                for task in ("3s5z", "5m_vs_6m"):
                    write_run(roots[suite], f"smac/{task}/full/{label}{ending}", seed, level + seed, suite=suite)
    data = {name: SuiteRuns(config.load_suite(name), root) for name, root in roots.items()}
    rows = {row.name: row for row in robustness.robustness(data["smac-variants"])}
    cell = rows["smac/3s5z/full/mappo"]
    assert (cell.usual, cell.others["engine: help_radius 2"]) == ("worse", "better")
    assert not any(choice.startswith("engine") for choice in rows["smac/3s5z/full/mappo-help_radius-2"].others)
    there = gathered.variants(data["paper"])
    assert set(there) >= {"smac-variants: as it is", "smac-variants: help_radius 2"}
    scores = [
        there[f"smac-variants: {name}"].cells["smac/3s5z/full/fp3o"].scores() for name in ("as it is", "help_radius 2")
    ]
    assert scores[0][0] > 80 > 20 > scores[1][0]
    assert not there["smac-variants: as it is"].cells["smac/6h_vs_8z/full/fp3o"].runs
    (claim,) = (row for row in robustness.robustness(data["paper"]) if row.name == "C2")
    found = [claim.others[f"smac-variants: {name}"] for name in ("as it is", "help_radius 2")]
    assert found == ["supported", "contradicted"]
