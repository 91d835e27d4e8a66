"""Tables of what the code says of itself: counted from the code, held against the paper's, departures marked."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from fp3o import config
from fp3o.algorithms import ALGORITHMS
from fp3o.envs.smac.scenarios import SCENARIOS, Group
from fp3o.errors import UserError
from fp3o.statistics import facts, published
from fp3o.statistics.facts import Sheet, Value

COMMITTED = Path(__file__).parents[2] / "results" / "paper" / "tables"
ARTEFACTS = [artefact for artefact in config.load_suite("paper").artefacts if artefact.kind == "facts"]


def fields(sheet: Sheet) -> dict[str, tuple[Value, ...]]:
    return {row[0].ours: row[1:] for row in sheet.rows}


def orders(cell: str) -> list[tuple[int, str]]:
    return [(turn.order, turn.kind) for turn in facts.actor_turns(cell)]


def test_the_committed_tables_are_what_the_code_says(tmp_path: Path) -> None:
    facts.main(["--suite", "paper", "--out", str(tmp_path)])
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 3 * len(ARTEFACTS) == 18
    assert {name: (COMMITTED / name).read_bytes() for name in written} == written


def test_where_we_depart_from_the_papers_tables() -> None:
    """A value of tasks.yaml or a scenario that drifts from the paper's shows up here."""
    found = {departure for artefact in ARTEFACTS for departure in facts.build(artefact).departures}
    assert found == {"training threads, Value", "ppo epochs, Value"}


def test_every_row_of_the_paper_is_compared() -> None:
    compared = sum(value.paper is not None for a in ARTEFACTS for row in facts.build(a).rows for value in row)
    assert len(published.facts("hyperparameters")) == 26 + 26 + 6 * 5 + 6 * 5 + 2 * 3
    assert compared == len(published.facts("hyperparameters")) + 3 * 6 + 3 * 6  # maps × 3, algorithms × 3


def test_a_scenario_that_departs_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    short = replace(SCENARIOS["5m_vs_6m"], allies=(Group("marine", 4, 9, 16), Group("zealot", 1, 9, 16)))
    monkeypatch.setitem(SCENARIOS, "5m_vs_6m", short)
    sheet = facts.units()
    assert sheet.departures == ["5m_vs_6m, Allies", "5m_vs_6m, Agents"]
    allies, _, agents = fields(sheet)["5m_vs_6m"]
    assert (allies.text, agents.text) == ("4 Marines + 1 Zealots † (paper: 5 Marines)", "HE † (paper: HO)")
    row = next(row for row in csv.DictReader(facts.to_csv(sheet).splitlines()) if row["Scenario"] == "5m_vs_6m")
    assert (row["Allies (paper)"], row["Departs"]) == ("5 Marines", "Allies; Agents")


def test_the_order_is_counted_in_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns of HAPPO one by one; and an algorithm under another's name does not pass for it."""
    assert orders("mamujoco/halfcheetah-6x1/none/happo") == [(i, "fixed ratios") for i in (1, 2, 3, 4, 5)]
    assert orders("mamujoco/halfcheetah-6x1/none/fp3o") == [(1, ""), (5, "fixed ratios")]
    assert orders("mamujoco/halfcheetah-6x1/none/fp3o-clipping-only") == [(1, ""), *[(5, "current ratios")] * 5]
    monkeypatch.setitem(ALGORITHMS, "happo", replace(ALGORITHMS["coppo"], title="HAPPO"))
    assert facts.instability().departures == ["HAPPO, Order", "HAPPO, Smallest"]


def test_writings_of_the_same_number() -> None:
    assert not Value("1e-05", "1e-5").departs
    assert not Value("10e6", "10000000").departs
    assert Value("10e6", "8e6").departs
    assert not Value("anything").departs


def test_an_unknown_table_is_named() -> None:
    artefact = replace(ARTEFACTS[0], paper="table_of_contents")
    with pytest.raises(UserError, match="table_of_contents"):
        facts.build(artefact)
