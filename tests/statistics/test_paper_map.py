"""docs/paper-map.md says how much of each table and figure was run, and leaves nothing of the paper out."""

from __future__ import annotations

from fp3o import config
from fp3o.report.paper_map import PaperMap
from fp3o.runs.layout import RunId
from fp3o.statistics import published
from fp3o.statistics.claims import every_claim


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
    runs = [RunId(cell, suite.run(cell)[0].digest, seed) for cell in (first, second) for seed in range(5)]
    runs += [RunId(third, "0" * 10, seed) for seed in range(5)]

    def state(count: int) -> str:
        return PaperMap(suite, runs[:count], ()).state(suite.artefact("table-mpe"))

    assert [state(count) for count in (4, 9, 15)] == ["not run", "1 of 16 cells", "2 of 16 cells"]


def test_costs_count_as_measured() -> None:
    suite = config.load_suite("paper")
    cells = [cell.id for cell in suite.artefact("table-cost").cells]
    known = PaperMap(suite, (), cells[:7])
    states = [known.state(one) for label in (*published.paper()["items"], "") for one in known.of(label)]
    assert states.count(f"7 of {len(cells)} cells") == 3  # time, memory, and the figure that reads them
    assert states.count("complete") == 6 + 3  # tables and drawings that need no runs
