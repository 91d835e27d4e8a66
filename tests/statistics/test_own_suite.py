"""A suite of a user's own: its tables, figures and report compare its algorithms with one another."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from fp3o import config
from fp3o.errors import UserError
from fp3o.report import __main__ as report
from fp3o.statistics import paired, scorecard
from fp3o.statistics.scores import CellRuns, Curve, Planned, Run
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.build import build, judge
from fp3o.statistics.tables.digits import decimals
from fp3o.statistics.tables.writers import to_csv, to_latex, to_markdown
from paper_figures import __main__ as one_figure

SUITE = """
title: Mine
seeds: 0-3
overrides: [{cells: "*", set: {evaluation_episodes: 32}}]
margins: [{cells: "pettingzoo/simple-spread/*", margin: 0.002}]
artefacts:
  table-mine:
    kind: table
    caption: Three against MAPPO
    baseline: mappo
    cells:
      - {domain: pettingzoo, tasks: [simple-spread, pursuit], sharing: [full], algorithms: [mappo, happo, ippo]}
  table-sweep:
    kind: table
    cells: &sweep
      - domain: matrix
        tasks: [climbing]
        sharing: [full]
        algorithms: [mappo]
        grid: {clip: [0.1, 0.2], epochs: [1, 5]}
  figure-sweep: {kind: figure, script: sweep, cells: *sweep}
  figure-own: {kind: figure, script: drawn.py, cells: *sweep}
"""
DRAWN = """
import matplotlib.pyplot as plt
from paper_figures.drawing import save

def draw(request):
    figure, _ = plt.subplots()
    save(figure, request.out, ("cell",), [(cell.cell,) for cell in request.cells])
"""
# By task and algorithm, the seeds' scores: differences of a ten-thousandth, far below one printed decimal.
SCORES = {
    ("simple-spread", "mappo"): (0.0205, 0.0206, 0.0204, 0.0205),
    ("simple-spread", "happo"): (0.0262, 0.0264, 0.0261, 0.0263),
    ("simple-spread", "ippo"): (0.0217, 0.0203, 0.0212, 0.0196),
    ("pursuit", "mappo"): (50.0, 60.0, 40.0, 55.0),
    ("pursuit", "happo"): (40.0, 51.0, 29.0, 46.0),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, write_run: Any) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.yaml").write_text(SUITE)
    (folder / "drawn.py").write_text(DRAWN)
    suite = str(folder / "mine.yaml")
    for (task, algorithm), scores in SCORES.items():
        for seed, score in enumerate(scores):
            engine = {"environment": {"engine": f"pettingzoo {task}"}}
            write_run(folder / "runs", f"pettingzoo/{task}/full/{algorithm}", seed, score, suite=suite, changes=engine)
    points = {"-clip-0.1-epochs-1": 0.5, "-clip-0.1-epochs-5": 0.7, "-clip-0.2-epochs-1": 0.9, "": 0.3}
    for variant, score in points.items():  # the last one is the cell's own: clip 0.2, 5 epochs
        for seed in range(4):
            write_run(folder / "runs", f"matrix/climbing/full/mappo{variant}", seed, score + 0.01 * seed, suite=suite)
    return folder


@pytest.fixture(scope="module")
def data(root: Path) -> SuiteRuns:
    return SuiteRuns(config.load_suite(str(root / "mine.yaml")), root / "runs")


def test_two_environments_stand_in_one_table_and_never_in_one_row(
    data: SuiteRuns, tmp_path: Path, write_run: Any
) -> None:
    text = to_markdown(build(data, data.suite.artefact("table-mine")))
    assert "the pettingzoo simple-spread engine, revision 1 (simple-spread); the pettingzoo pursuit engine" in text
    for algorithm, engine in (("mappo", "one"), ("happo", "two")):
        changes = {"environment": {"engine": engine}}
        cell = f"pettingzoo/pursuit/full/{algorithm}"
        write_run(tmp_path, cell, 0, 1.0, suite=data.suite.argument, changes=changes)
    with pytest.raises(UserError, match="table-mine, row pettingzoo/pursuit/full would mix engines: the one engine"):
        build(SuiteRuns(data.suite, tmp_path), data.suite.artefact("table-mine"))


def test_small_returns_are_ranked_and_printed_with_their_digits(data: SuiteRuns) -> None:
    table = build(data, data.suite.artefact("table-mine"))
    small, large = table.rows
    assert [(entry.bold, entry.underline) for entry in small.entries] == [(False, False), (True, False), (False, True)]
    line = to_markdown(table).splitlines()[4]
    assert "0.0205 ± 0.0001 (n = 4)" in line
    assert "**0.0262** ± 0.0001 (n = 4)<br>+0.0057 [0.0057, 0.0058] better" in line
    assert "<u>0.0207</u> ± 0.0009 (n = 4)<br>+0.0002 [-0.0013, 0.0017] equivalent" in line  # within the suite's margin
    assert [entry.bold for entry in large.entries] == [False, False, False]  # one was not run
    assert "51.2 ± 8.5" in to_markdown(table)
    assert r"\textbf{0.0262}\tiny{$\pm$0.0001}" in to_latex(table)
    assert [decimals("matrix", [value]) for value in (0.0205, 0.94, 7.5, 94.2, 4000.0, 0.0)] == [4, 3, 2, 1, 1, 1]
    assert decimals("mpe", [0.5]) == 1  # as in the paper


def test_the_baseline_is_compared_seed_by_seed(data: SuiteRuns) -> None:
    table = build(data, data.suite.artefact("table-mine"))
    rows = {(row["task"], row["algorithm"]): row for row in csv.DictReader(io.StringIO(to_csv(table)))}
    lost = rows["pursuit", "happo"]
    test = scipy.stats.ttest_rel(SCORES["pursuit", "happo"], SCORES["pursuit", "mappo"])
    low, high = test.confidence_interval(0.95)
    # Seeds differ by ±8, the pairs by ±0.8: only the pairing finds the difference.
    assert (lost["paired_n"], lost["paired_difference"], lost["paired_verdict"]) == ("4", "-9.750", "worse")
    assert [float(lost["paired_low"]), float(lost["paired_high"])] == pytest.approx([low, high], abs=1e-3)
    assert rows["pursuit", "mappo"]["paired_verdict"] == rows["pursuit", "ippo"]["paired_verdict"] == ""
    assert against({0: 1.0}, {1: 2.0}) is None
    alone = against({0: 1.0, 1: 3.0}, {1: 2.0})
    assert alone is not None
    assert (alone.n, alone.difference, alone.verdict) == (1, 1.0, "undecided")
    first = against(dict(enumerate((3.0, 5.0, 4.0))), dict(enumerate((1.0, 1.0, 1.0))))
    assert first is not None
    others = {str(place): first._replace(p=1.0) for place in range(3)}
    assert (first.verdict, judge({"first": first, **others})["first"].verdict) == ("better", "undecided")
    assert judge({"first": first}, planned=4)["first"].verdict == "undecided"  # three more were planned


def against(
    ours: dict[int, float], baseline: dict[int, float], margin: float | None = None, domain: str = "matrix"
) -> paired.Paired | None:
    """Cells with these scores by seed."""

    def cell(scores: dict[int, float]) -> CellRuns:
        curve = {seed: Curve(np.zeros(1), np.array([score])) for seed, score in scores.items()}
        runs = tuple(Run(seed, Path(), {}, found) for seed, found in curve.items())
        return CellRuns(Planned(f"{domain}/a/full/mappo", "", tuple(scores)), runs)

    return paired.against_baseline(cell(ours), cell(baseline), margin)


def test_a_margin_is_no_spread_of_the_data() -> None:
    """3.1 ± 41.5 against 0.0 ± 44.4 is no equivalence, and five seeds that win nothing are the floor."""
    wide = against(
        dict(enumerate((3.1, 0.0, 98.0, 3.1, 3.1))), dict(enumerate((0.0, 99.0, 0.0, 3.1, 0.0))), 10.0, "smac"
    )
    assert wide is not None
    assert wide.verdict == "undecided"
    nobody = against(dict.fromkeys(range(5), 0.0), {**dict.fromkeys(range(4), 0.0), 4: 100 / 32}, 10.0, "smac")
    assert nobody is not None
    assert nobody.verdict == "floor"
    even = dict(enumerate((1.0, 2.0, 3.0, 4.0, 5.0)))
    shifted = {seed: score + 0.01 * (-1) ** seed for seed, score in even.items()}
    assert [pair.verdict for margin in (None, 0.05) if (pair := against(even, shifted, margin))] == [
        "undecided",
        "equivalent",
    ]


def test_returns_are_tested_by_both_sides_of_the_paired_t_test() -> None:
    ours, baseline = (3.0, 5.0, 4.0, 2.5, 6.0), (1.0, 4.5, 1.5, 2.0, 5.0)
    pair = against(dict(enumerate(ours)), dict(enumerate(baseline)))
    assert pair is not None
    assert pair.p == pytest.approx(float(scipy.stats.ttest_rel(ours, baseline).pvalue))


def test_win_rates_are_tested_by_exact_ranks() -> None:
    pair = against(dict(enumerate((50.0, 60, 70, 80, 90))), dict(enumerate((0.0, 10, 20, 30, 40))), 10.0, "smac")
    assert pair is not None
    assert pair.p == pytest.approx(2 / 252)


def test_two_seeds_decide_nothing() -> None:
    """However well they agree."""
    for gain in (0.0, 0.06):
        pair = against({0: 0.5 + gain, 1: 0.7 + gain}, {0: 0.5, 1: 0.7}, 0.1)
        assert pair is not None
        assert pair.difference == pytest.approx(gain)
        assert (pair.n, pair.verdict) == (2, "undecided")


def test_runs_too_short_for_ten_evaluations_are_named(tmp_path: Path, data: SuiteRuns, write_run: Any) -> None:
    table = data.suite.artefact("table-mine")
    assert "later half" not in to_markdown(build(data, table))
    for algorithm, evaluations in (("mappo", 11), ("happo", 11), ("ippo", 20)):
        cell = f"pettingzoo/pursuit/full/{algorithm}"
        write_run(tmp_path, cell, 0, 1.0, suite=data.suite.argument, evaluations=evaluations)
    text = to_markdown(build(SuiteRuns(data.suite, tmp_path), table))
    assert "- pettingzoo: shorter runs are scored by their later half, 5 of 11 evaluations.\n" in text


def test_runs_of_other_budgets_are_not_compared(tmp_path: Path, write_run: Any) -> None:
    suite = tmp_path / "budgets.yaml"
    suite.write_text(
        "title: Budgets\nseeds: 0-1\noverrides: [{cells: '*/ippo', set: {total_steps: 8000}}]\nartefacts:\n"
        "  table-budgets: {kind: table, cells: [{domain: matrix, tasks: [climbing], sharing: [full], "
        "algorithms: [mappo, happo, ippo]}]}\n"
    )
    for label in ("mappo", "happo", "ippo"):
        for seed in range(2):
            write_run(tmp_path / "runs", f"matrix/climbing/full/{label}", seed, 0.5, suite=str(suite))
    card = scorecard.scorecard(SuiteRuns(config.load_suite(str(suite)), tmp_path / "runs"))
    assert [list(found["pooled"]) for found in card["between_algorithms"]] == [["mappo", "happo"]]


def test_the_scorecard_compares_its_own_algorithms(data: SuiteRuns) -> None:
    card = json.loads(scorecard.to_json(scorecard.scorecard(data)))
    assert card["claims"] == []
    spread, pursuit, sweep = card["between_algorithms"]
    assert spread["rows"] == ["pettingzoo/simple-spread/full"]
    assert spread["pooled"]["happo"]["interquartile_mean"]["value"] > 0.9
    chances = {(pair["better"], pair["than"]): pair["value"] for pair in spread["probability_of_improvement"]}
    assert (chances["mappo", "happo"], chances["happo", "ippo"]) == (0.0, 1.0)
    assert list(pursuit["pooled"]) == ["mappo", "happo"]
    assert len(sweep["pooled"]) == 4


def test_the_report_has_no_claims_of_the_paper_and_the_sweep_is_drawn(root: Path) -> None:
    common = ["--suite", str(root / "mine.yaml"), "--runs", str(root / "runs")]
    for name in ("figure-sweep", "figure-own"):
        one_figure.main([*common, "--artefact", name, "--out", str(root / "figures")])
    rows = (root / "figures" / "figure-sweep.csv").read_text().splitlines()
    assert rows[0] == "cell,setting,value,n,score,low,high"
    assert [row.split(",")[1:5] for row in rows[1:]] == [
        ["clip", "0.1", "4", "0.515"],
        ["clip", "0.2", "4", "0.915"],
        ["clip", "0.1", "4", "0.715"],
        ["clip", "0.2", "4", "0.315"],
    ]
    assert len((root / "figures" / "figure-own.csv").read_text().splitlines()) == 5
    report.main([*common, "--out", str(root / "index.html")])
    page = (root / "index.html").read_text()
    assert "Claims" not in page
    assert "HAPPO over IPPO" in page
    assert "MAPPO (clip 0.1 epochs 5)" in page
    assert "+0.0057 [0.0057, 0.0058] better" in page
    assert 'id="figure-sweep"' in page
