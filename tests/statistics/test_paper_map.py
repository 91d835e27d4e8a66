"""docs/paper-map.md is what suite, manifest and scorecard say, and leaves nothing of the paper out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fp3o import config
from fp3o.statistics import paper_map, published
from fp3o.statistics.claims import every_claim

ROOT = Path(__file__).parents[2]
NOTHING: dict[str, list[str]] = {"claims": []}


def test_the_document_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    paper_map.main(["--out", str(tmp_path / "map.md")])
    assert (tmp_path / "map.md").read_text() == (ROOT / "docs" / "paper-map.md").read_text(), (
        "python -m fp3o.statistics.paper_map --out docs/paper-map.md"
    )


def test_nothing_of_the_suite_or_the_ledger_is_left_out() -> None:
    labels = set(published.paper()["items"])
    assert len(labels) == 12 + 13  # tables and figures of the paper
    assert {artefact.paper for artefact in config.load_suite("paper").artefacts} - {""} <= labels
    assert {claim.source for claim in every_claim()} <= {"ours", *published.paper()["sections"]} | labels
    assert {entry.label for name in published.TABLES for entry in published.table(name)} <= labels
    names = {row["label"] for name in ("instability", "units", "hyperparameters") for row in published.facts(name)}
    assert names <= labels


def test_the_state_counts_complete_cells() -> None:
    """All seeds of one cell and four of another: one of 16 cells; a run of other settings does not count."""
    suite = config.load_suite("paper")
    first, second, third = (cell.id for cell in suite.artefact("table-mpe").cells[:3])
    runs = [
        {"cell": cell, "digest": suite.run(cell)[0].digest, "seed": seed}
        for cell in (first, second)
        for seed in range(5)
    ]
    runs += [{"cell": third, "digest": "0" * 10, "seed": seed} for seed in range(5)]

    def state(count: int) -> str:
        text = paper_map.document(suite, {"runs": dict(enumerate(runs[:count]))}, NOTHING, {})
        (line,) = re.findall(r"`table_appendix_MPE` .* \| (.*) \|", text)
        return str(line)

    assert [state(count) for count in (4, 9, 15)] == ["not run", "1 of 16 cells", "2 of 16 cells"]


def test_costs_count_as_measured() -> None:
    suite = config.load_suite("paper")
    cells = [cell.id for cell in suite.artefact("table-cost").cells]
    text = paper_map.document(suite, {"runs": {}}, NOTHING, cells[:7])
    assert text.count(f"7 of {len(cells)} cells") == 3  # time, memory, and the figure that reads them
    assert json.dumps(text).count("complete |") == 6 + 3  # tables and drawings that need no runs
