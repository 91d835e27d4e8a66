"""Tables say what they hold: missing cells, missing seeds, diverged seeds, engines, verdicts; same bytes every time."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.errors import UserError
from fp3o.statistics import published
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables import __main__ as write_tables
from fp3o.statistics.tables.build import build, marks
from fp3o.statistics.tables.digits import fixed
from fp3o.statistics.tables.model import Table
from fp3o.statistics.tables.writers import to_csv, to_latex, to_markdown

CHEETAH = "mamujoco/halfcheetah-6x1/full"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """The HalfCheetah row with all its controls, Reacher with holes, and the MPE table's first row."""
    root = tmp_path_factory.mktemp("runs")
    for algorithm, centre in (
        ("fp3o", 4130),
        ("happo", 4060),
        ("mappo", 1200),
        ("ippo", 2700),
        ("mappo-10-epochs", 4200),
    ):
        for seed, score in enumerate(scores_around(centre, 60)):
            write_run(root, f"{CHEETAH}/{algorithm}", seed, score)
    for seed in range(4):
        write_run(root, "mamujoco/reacher-2x1/full/fp3o", seed, -32.0 - seed)
    diverged = {"status": "diverged", "diverged": {"iteration": 3, "quantity": "loss"}}
    for seed in range(5):
        write_run(root, "mamujoco/reacher-2x1/full/happo", seed, -33.0 - seed, changes=diverged if seed == 2 else None)
    for seed in range(5):
        write_run(root, "mpe/simple-reference/full/fp3o", seed, -9.0, final=[-4.0 - seed, -6.0])
    return root


@pytest.fixture(scope="module")
def data(runs: Path) -> SuiteRuns:
    return SuiteRuns(config.load_suite("paper"), runs)


def table_of(data: SuiteRuns, name: str) -> Table:
    return build(data, data.suite.artefact(name))


def lines_of(table: Table) -> dict[str, dict[str, str]]:
    rows = csv.DictReader(io.StringIO(to_csv(table)))
    return {f"{row['domain']}/{row['task']}/{row['sharing']}/{row['algorithm']}": row for row in rows}


def test_rows_and_columns_are_the_papers_plus_the_control(data: SuiteRuns) -> None:
    table = table_of(data, "table-mamujoco")
    assert table.columns == ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")
    assert table.controls == ("mappo-10-epochs",)
    keys = [tuple(row.entries[0].cell.split("/")[:3]) for row in table.rows]
    assert keys == list(dict.fromkeys(tuple(entry.cell.split("/")[:3]) for entry in published.table("mamujoco")))
    assert "MAPPO (10 epochs) — ours" in to_markdown(table)
    assert table_of(data, "table-mpe").columns == ("fp3o", "happo", "mappo", "a2po")


def test_rows_that_the_approximation_table_repeats_keep_difficulty_and_agents(data: SuiteRuns) -> None:
    for name, artefact in (("mamujoco", "table-mamujoco"), ("smac", "table-smac")):
        printed = {entry.cell.rsplit("/", 1)[0]: (entry.difficulty, entry.agents) for entry in published.table(name)}
        rows = build(data, data.suite.artefact(artefact)).rows
        assert {row.entries[0].cell.rsplit("/", 1)[0]: (row.difficulty, row.agents) for row in rows} == printed
        assert all(agents for _, agents in printed.values())


def test_difficulty_and_agents_stand_in_markdown_where_the_paper_has_them(data: SuiteRuns) -> None:
    def lines(name: str) -> list[list[str]]:
        return [line.strip("| ").split(" | ") for line in to_markdown(table_of(data, name)).splitlines()]

    smac, mamujoco, mpe = lines("table-smac"), lines("table-mamujoco"), lines("table-mpe")
    assert smac[2][:3] == ["Sharing", "Task", "Difficulty"]
    assert [smac[2][-1], mamujoco[2][-1]] == ["Agent", "Agent"]
    assert any(line[:3] + line[-1:] == ["full", "3s5z", "Hard", "HE"] for line in smac)
    assert mamujoco[2][2] == "FP3O"  # its tasks are not rated
    assert "Agent" not in mpe[2]


def test_a_caption_is_text_in_markdown(data: SuiteRuns) -> None:
    table = replace(table_of(data, "table-mpe"), caption="<script>alert(1)</script> and p < .05")
    assert "<" not in to_markdown(table).splitlines()[0]
    assert "&lt;script>alert(1)&lt;/script> and p &lt; .05" in to_markdown(table)


def test_verdicts_and_marks(data: SuiteRuns) -> None:
    lines = lines_of(table_of(data, "table-mamujoco"))
    assert lines[f"{CHEETAH}/fp3o"]["verdict"] == "undecided"  # The published ± alone is wider than the margin.
    assert lines[f"{CHEETAH}/happo"]["verdict"] == "consistent"
    assert lines[f"{CHEETAH}/mappo"]["verdict"] == "differs (ours lower)"
    assert lines[f"{CHEETAH}/mappo-10-epochs"]["verdict"] == ""
    assert [lines[f"{CHEETAH}/{a}"]["mark"] for a in ("fp3o", "happo", "mappo", "ippo", "mappo-10-epochs")] == [
        *("bold", "underline", "", "", "")
    ]
    assert float(lines[f"{CHEETAH}/fp3o"]["ours"]) == pytest.approx(4130, abs=0.1)
    assert (lines[f"{CHEETAH}/fp3o"]["n"], lines[f"{CHEETAH}/fp3o"]["published"]) == ("5", "4128.3")


def test_a_row_with_a_hole_is_not_ranked_and_says_what_is_missing(data: SuiteRuns) -> None:
    table = table_of(data, "table-mamujoco")
    lines = lines_of(table)
    assert lines["mamujoco/reacher-2x1/full/mappo"]["verdict"] == "not run"
    assert lines["mamujoco/reacher-2x1/full/mappo"]["ours"] == ""
    assert lines["mamujoco/reacher-2x1/full/fp3o"]["mark"] == ""
    text = to_markdown(table)
    assert "-33.5 ± 1.3 (n = 4/5)<br>paper -32.7 ± 5.8<br>" in text
    assert "-35.0 ± 1.6 (n = 5, 1 diverged)" in text
    assert "not run<br>paper -45.4 ± 11.3" in text
    assert "Seeds missing: mamujoco/reacher-2x1/full/fp3o (n = 4/5)." in text
    assert "Diverged seeds, scored by their last evaluations: mamujoco/reacher-2x1/full/happo (1)." in text
    assert "7 of 90 cells run." in text
    assert r"-33.5\tiny{$\pm$1.3}\,\tiny{(n = 4/5)}" in to_latex(table)


def test_lost_episodes_are_counted_once_per_process(tmp_path: Path, write_run: Any) -> None:
    """Seeds trained side by side share their environments, and so the count."""
    for seed, stack in ((0, [0, 1]), (1, [0, 1]), (2, [2]), (3, [3])):
        lost = {} if seed == 3 else {"lost_episodes": 7 if seed == 2 else 4}
        changes = {"volatile": {"stacked_seeds": stack, **lost}}
        write_run(tmp_path, f"{CHEETAH}/fp3o", seed, 4000.0 + seed, changes=changes)
    write_run(tmp_path, f"{CHEETAH}/mappo", 0, 4000.0)
    table = table_of(SuiteRuns(config.load_suite("paper"), tmp_path), "table-mamujoco")
    said = "Episodes lost to failures of the environment, which was built anew: "
    assert f"- {said}{CHEETAH}/fp3o (11).\n" in to_markdown(table)
    assert said in to_latex(table)


def test_mpe_is_scored_per_agent_on_the_final_episodes(data: SuiteRuns) -> None:
    entry = lines_of(table_of(data, "table-mpe"))["mpe/simple-reference/full/fp3o"]
    assert float(entry["ours"]) == pytest.approx(-6.0)  # seeds at −5 … −7, not the −9 of the evaluations
    assert float(entry["episode_spread"]) > 0


def test_the_engine_is_named_and_never_mixed(data: SuiteRuns, tmp_path: Path, write_run: Any) -> None:
    assert "mamujoco: simulated by the mamujoco engine, revision" in to_markdown(table_of(data, "table-mamujoco"))
    write_run(tmp_path, "smac/3s5z/full/fp3o", 0, 90.0, suite="paper")
    table = table_of(SuiteRuns(data.suite, tmp_path), "table-smac")
    assert "simulated by the embedded engine, revision" in to_markdown(table)
    assert "embedded engine is not StarCraft II" in to_latex(table)
    changed = {"environment": {"engine": "starcraft2"}}
    write_run(tmp_path, "smac/3s5z/full/mappo", 0, 90.0, suite="paper", changes=changed)
    with pytest.raises(UserError, match="would mix engines"):
        table_of(SuiteRuns(data.suite, tmp_path), "table-smac")


def test_a_small_budget_is_not_compared_with_the_paper(tmp_path: Path, write_run: Any) -> None:
    cell = "mpe/simple-speaker-listener/none/fp3o"
    write_run(tmp_path, cell, 0, -20.0, suite="quick")
    quick = config.load_suite("quick")
    text = to_markdown(table_of(SuiteRuns(quick, tmp_path), "table-mpe"))
    assert re.search(r"\(n = 1/2\)<br>paper -\d+\.\d ± \d+\.\d<br>not compared", text)
    steps = config.resolve(config.Cell.parse(cell), suite=quick).settings.total_steps
    assert f"total_steps 2000000 → {steps} (suite quick)" in text


def test_ties_and_seconds() -> None:
    assert marks([100.0, 96.9, 100.0, 96.9]) == ["bold", "", "bold", ""]
    assert marks([90.6, 53.1, 87.5, 87.5]) == ["bold", "", "underline", "underline"]
    assert marks([1.04, 1.0, 0.5]) == ["bold", "bold", ""]  # equal as printed
    assert fixed(-0.04) == "0.0"


def test_same_bytes_again(runs: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_tables.main(["--suite", "paper", "--runs", str(runs), "--out", str(tmp_path / name)])
    first = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    second = {path.name: path.read_bytes() for path in (tmp_path / "second").iterdir()}
    assert first == second
    assert {f"table-mamujoco.{suffix}" for suffix in ("csv", "md", "tex")} <= set(first)
    assert len(first) == 3 * sum(artefact.kind == "table" for artefact in config.load_suite("paper").artefacts)


@pytest.mark.parametrize("name", ["table-mamujoco", "table-smac", "table-mpe", "table-approximation"])
def test_latex_is_balanced(data: SuiteRuns, name: str) -> None:
    """Braces close, every row has as many columns as the table, and nothing non-ASCII or unescaped is left."""
    text = to_latex(table_of(data, name))
    assert text.count("{") == text.count("}")
    rows = [line.split("{Full Param. Sharing}")[-1] for line in text.splitlines() if line.endswith(r"\\")]
    assert len({row.count("&") for row in rows}) == 1
    assert text.isascii()
    assert "%" not in text.replace(r"\%", "")
