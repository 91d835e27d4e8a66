"""Orders of algorithms under variants of the engine: exact tests, verdicts, the table, the report."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import scipy

from fp3o import config
from fp3o.errors import UserError
from fp3o.report import sheets
from fp3o.statistics import orders, own_suites
from fp3o.statistics.rank_tests import rank_sum
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.build import build

SUITE = """
title: Variants
seeds: 0-4
budget: 0.2
artefacts:
  orders: {kind: orders, caption: Orders, cells: all}
  plain:
    kind: table
    cells:
      - &maps {domain: smac, tasks: [3s5z, 5m_vs_6m], sharing: [full], algorithms: [fp3o, mappo, mappo-10-epochs]}
  near:
    kind: table
    cells:
      - {<<: *maps, grid: {help_radius: [2]}}
  far:
    kind: table
    cells:
      - {<<: *maps, grid: {help_radius: [8]}}
"""
HIGH, LOW = (90.625, 93.75, 96.875, 100.0, 87.5), (50.0, 46.875, 53.125, 40.625, 56.25)
# By task and suffix, the seeds' scores of FP3O, MAPPO and MAPPO with 10 epochs; 5m_vs_6m far away was not run.
SCORES = {
    ("3s5z", ""): (HIGH, LOW, HIGH),
    ("3s5z", "-help_radius-2"): (HIGH[::-1], LOW[::-1], LOW),
    ("3s5z", "-help_radius-8"): (HIGH[1:] + HIGH[:1], LOW[1:] + LOW[:1], tuple(100.0 for _ in HIGH)),
    ("5m_vs_6m", ""): ((0.0,) * 5, (0.0,) * 5, (0.0,) * 5),
    ("5m_vs_6m", "-help_radius-2"): ((0.0,) * 5, (0.0,) * 5, (0.0,) * 5),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_run: Any) -> SuiteRuns:
    folder = tmp_path_factory.mktemp("orders")
    path = folder / "variants.yaml"
    path.write_text(SUITE)
    for (task, suffix), scores in SCORES.items():
        for label, seeds in zip(("fp3o", "mappo", "mappo-10-epochs"), scores, strict=True):
            for seed, score in enumerate(seeds):
                write_run(folder / "runs", f"smac/{task}/full/{label}{suffix}", seed, score, suite=str(path))
    return SuiteRuns(config.load_suite(str(path)), folder / "runs")


@pytest.fixture(scope="module")
def found(data: SuiteRuns) -> dict[tuple[str, str, str], orders.Comparison]:
    every = orders.comparisons(data, data.suite.artefact("orders"))
    return {(one.row.task, *one.labels): one for one in every}


@pytest.mark.parametrize("other", [(3, 4, 5, 6, 7), (10, 11, 12, 13, 14), (1.5, 2.5, 3.5, 4.5, 0.5)])
def test_the_exact_test_is_scipys(other: tuple[float, ...]) -> None:
    """Which is exact without ties; with ties ours is the same count over all ways to deal."""
    one = (1, 2, 3.25, 4.25, 5.25)
    expected = scipy.stats.mannwhitneyu(one, other, method="exact").pvalue
    assert rank_sum([(one, other)]).p == pytest.approx(expected)


def test_ties_are_no_evidence() -> None:
    assert rank_sum([([0] * 5, [0] * 5)]).p == 1
    assert rank_sum([([1] * 5, [0] * 5)]).p == pytest.approx(2 / 252)


def test_an_algorithm_is_the_same_in_every_variant(found: dict[Any, orders.Comparison]) -> None:
    assert len(found) == 6
    assert list(found["3s5z", "fp3o", "mappo"].orders) == ["as it is", "help_radius 2", "help_radius 8"]


def test_a_variant_that_changes_nothing_is_not_counted(found: dict[Any, orders.Comparison]) -> None:
    """The scores of 5m_vs_6m are all the same, and so are the files written for them."""
    assert list(found["5m_vs_6m", "fp3o", "mappo"].orders) == ["as it is"]


def test_verdicts(found: dict[Any, orders.Comparison]) -> None:
    assert found["3s5z", "fp3o", "mappo"].verdict == "ahead in all"
    assert found["3s5z", "fp3o", "mappo-10-epochs"].verdict == "depends on the engine"
    assert found["3s5z", "mappo", "mappo-10-epochs"].verdict == "behind in 1 of 2"
    assert found["5m_vs_6m", "fp3o", "mappo"].verdict == "floor: nobody wins"


def test_the_table(data: SuiteRuns, found: dict[Any, orders.Comparison], tmp_path: Path) -> None:
    arguments = ["--suite", data.suite.argument, "--runs", str(data.root), "--out", str(tmp_path)]
    orders.main([*arguments, "--artefact", "orders"])
    text = (tmp_path / "orders.md").read_text()
    assert "| 3s5z, full | FP3O over MAPPO | 93.8 – 50.0 | 1.00, 0.008 | 2 of 2 | 0 of 2 | 3 of 3 |" in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "orders.csv").read_text())))
    assert len(rows) == sum(len(one.orders) for one in found.values()) == 12
    assert {row["variant"] for row in rows} == {"as it is", "help_radius 2", "help_radius 8"}
    assert r"\label{reproduced_orders}" in (tmp_path / "orders.tex").read_text()
    (sheet,) = sheets.orders(data)
    assert len(sheet.rows) == 6


def test_other_tables_do_not_mix_variants(data: SuiteRuns) -> None:
    for labels, _ in own_suites.groups(data):
        assert len({label.partition("help_radius")[2] for label in labels}) == 1
    mixed = config.Artefact("mixed", "table", data.suite.artefact("orders").cells, (0,))
    with pytest.raises(UserError, match="would mix engines"):
        build(data, mixed)
