"""The runs in the store give the committed tables and scorecard, to the last digit, on whatever machine this is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fp3o import config
from fp3o.statistics import scorecard
from fp3o.statistics.tables import __main__ as write_tables

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "results" / "paper"


@pytest.fixture(scope="module")
def runs(pulled: Path) -> Path:
    return pulled / "results" / "paper" / "runs"


def test_tables(runs: Path, tmp_path: Path) -> None:
    write_tables.main(["--suite", "paper", "--runs", str(runs), "--out", str(tmp_path)])
    names = {artefact.name for artefact in config.load_suite("paper").artefacts if artefact.kind == "table"}
    committed = {p.name: p.read_bytes() for p in (COMMITTED / "tables").iterdir() if p.stem in names}
    assert {"table-mpe.md", "table-mamujoco.tex"} <= committed.keys()
    assert {name: (tmp_path / name).read_bytes() for name in committed} == committed


def test_scorecard(runs: Path, tmp_path: Path) -> None:
    """But for the count of cells planned, which grows before their runs do."""
    cost = str(COMMITTED / "cost.csv")
    out = tmp_path / "scorecard.json"
    scorecard.main(["--suite", "paper", "--runs", str(runs), "--out", str(out), "--cost", cost])
    found, committed = (json.loads(path.read_text()) for path in (out, COMMITTED / "scorecard.json"))
    assert found.keys() == committed.keys()
    numbers = [{k: v for k, v in card.items() if not k.startswith("coverage")} for card in (found, committed)]
    assert numbers[0] == numbers[1]


def test_the_page_on_the_workflow_counts_them(pulled: Path) -> None:
    names = ("paper", "preview", "smac-revision-2", "smac-revision-2-preview", "smac-variants")
    counts = [len(json.loads((ROOT / "results" / name / "manifest.json").read_text())["runs"]) for name in names]
    paper, preview, two, two_preview, variants = counts
    store = sum(path.stat().st_size for path in (ROOT / "artifacts").rglob("*") if path.is_file())
    told = (
        f"The {sum(counts):,} shipped runs (paper {paper}, preview {preview:,}, the battle engine's revision 2 {two} "
        f"and {two_preview}, its variants {variants}) take {store / 1e6:.0f} of the 200 MB"
    )
    assert store < 200e6
    page = (ROOT / "docs" / "workflow.md").read_text()
    assert told in page
    logs = [path.stat().st_size / 1e3 for path in pulled.glob("results/paper/runs/**/iterations.csv.xz")]
    assert f"({min(logs):.0f} to {max(logs):.0f} kB per run" in page
