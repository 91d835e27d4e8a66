"""Every figure of the paper suite: three files, the plotted numbers beside the picture, the same bytes again."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from fp3o import config
from fp3o.errors import UserError
from fp3o.report.page import figures_part
from fp3o.statistics import cost
from fp3o.statistics.suites import SuiteRuns
from paper_figures import __main__ as one_figure
from paper_figures import cost as cost_figure
from paper_figures import reproduction

FIGURES = [artefact.name for artefact in config.load_suite("paper").artefacts if artefact.kind == "figure"]
CHEETAH = "mamujoco/halfcheetah-6x1/full"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """A few cells for every kind of figure, the rest missing."""
    root = tmp_path_factory.mktemp("runs")
    for label, centre in (
        ("fp3o", 4130),
        ("mappo", 3000),
        ("happo", 4000),
        ("ippo", 2700),
        ("fp3o-random-split", 4100),
    ):
        for seed, score in enumerate(scores_around(centre, 60)):
            write_run(root, f"{CHEETAH}/{label}", seed, score)
    divergence: dict[str, Any] = {f"kl_turn{j}": (lambda i, j=j: 0.01 * j + 1e-4 * i) for j in range(1, 9)}
    for label in ("happo", "fp3o", "a2po", "mappo", "fp3o-double-clip"):
        for seed, score in enumerate((50.0, 75.0, 100.0)):
            columns = divergence if label == "happo" else {"kl_turn1_agent0": lambda i: 0.01}
            write_run(root, f"smac/3s5z/full/{label}", seed, score, suite="paper", columns=columns)
    for seed in range(2):
        write_run(root, "smac/6h_vs_8z/partial/mappo", seed, 100.0 * seed, suite="paper")
    for size in (100, 1000):
        columns = {"match": lambda i, size=size: float(i % 4 != 0 or size > 500)}
        write_run(root, f"mamujoco/reacher-2x1/none/fp3o-rollout-{size}", 0, -40.0, suite="paper", columns=columns)
    return root


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(name: str, runs: Path, tmp_path: Path) -> None:
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", name, "--out", str(tmp_path)])
    assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.csv").is_file()


@pytest.mark.parametrize(
    ("name", "battles"),
    [("figure-smac", True), ("figure-stability", True), ("figure-happo-kl", True), ("figure-mamujoco", False)],
)
def test_figures_of_battles_name_their_engine(
    name: str, battles: bool, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    savefig = Figure.savefig

    def watched(self: Figure, *arguments: Any, **options: Any) -> None:
        texts.extend(text.get_text() for text in self.texts)
        savefig(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", watched)
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", name, "--out", str(tmp_path)])
    assert ("battles: embedded engine, not StarCraft II" in texts) == battles
    data = SuiteRuns(config.load_suite("paper"), runs)
    page = "".join(str(part) for part in figures_part(data, tmp_path))
    assert ("(embedded engine, not StarCraft II)" in page) == battles


@pytest.mark.parametrize("suite", config.suite_names())
def test_a_report_of_nothing_says_so(suite: str, tmp_path: Path) -> None:
    """Cells that are only timed have no runs to ask for their engine."""
    page = "".join(str(part) for part in figures_part(SuiteRuns(config.load_suite(suite), tmp_path), tmp_path))
    assert "No figure drawn yet." in page


def test_curves_show_what_the_runs_hold(runs: Path, tmp_path: Path) -> None:
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", "figure-mamujoco", "--out", str(tmp_path)])
    last = [row for row in rows_of(tmp_path / "figure-mamujoco.csv") if row["cell"] == f"{CHEETAH}/fp3o"][-1]
    half = 2.7764451 * 60 / 5**0.5  # Student's t with five seeds
    assert float(last["centre"]) == pytest.approx(4130, abs=0.1)
    assert float(last["high"]) - float(last["centre"]) == pytest.approx(half, rel=1e-3)
    assert (last["n"], last["published"]) == ("5", "4128.3")


def test_win_rates_are_medians_with_quartiles(runs: Path, tmp_path: Path) -> None:
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", "figure-smac", "--out", str(tmp_path)])
    last = [row for row in rows_of(tmp_path / "figure-smac.csv") if row["cell"] == "smac/3s5z/full/happo"][-1]
    assert [float(last[name]) for name in ("low", "centre", "high")] == [62.5, 75.0, 87.5]


def test_matching_degree_counts_iterations(runs: Path, tmp_path: Path) -> None:
    name = "figure-matching-degree"
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", name, "--out", str(tmp_path)])
    found = {row["size"]: row for row in rows_of(tmp_path / f"{name}.csv")}
    assert (found["100"]["agree"], found["100"]["iterations"], found["100"]["percent"]) == ("30", "40", "75")
    assert found["1000"]["percent"] == "100"


def test_divergence_by_turn(runs: Path, tmp_path: Path) -> None:
    name = "figure-happo-kl"
    one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", name, "--out", str(tmp_path)])
    happo = [row for row in rows_of(tmp_path / f"{name}.csv") if row["cell"].endswith("/happo")]
    assert [row["turn"] for row in happo] == [str(turn) for turn in range(1, 9)]
    assert all(row["values"] == str(3 * 40) for row in happo)
    assert float(happo[7]["mean"]) == pytest.approx(0.08 + 1e-4 * 20.5)


def test_same_bytes_again(runs: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        out = str(tmp_path / name)
        one_figure.main(["--suite", "paper", "--runs", str(runs), "--artefact", "figure-split", "--out", out])
    for suffix in ("pdf", "png", "csv"):
        files = [(tmp_path / name / f"figure-split.{suffix}").read_bytes() for name in ("first", "second")]
        assert files[0] == files[1]


def test_reproduction_figures(runs: Path, tmp_path: Path) -> None:
    reproduction.main(["--suite", "paper", "--runs", str(runs), "--out", str(tmp_path)])
    forest = {row["cell"]: row for row in rows_of(tmp_path / "reproduction-forest.csv")}
    assert forest[f"{CHEETAH}/fp3o"]["verdict"] == "consistent"
    assert float(forest[f"{CHEETAH}/mappo"]["difference"]) == pytest.approx((3000 - 3170.5) / 116.6, rel=1e-3)
    profile = [row for row in rows_of(tmp_path / "reproduction-profiles.csv") if row["algorithm"] == "fp3o"]
    assert float(profile[0]["fraction_above"]) == 1.0
    assert all((tmp_path / f"reproduction-{name}.png").is_file() for name in ("forest", "scatter", "profiles"))


def test_figures_without_any_run(tmp_path: Path) -> None:
    """Nothing run yet is a state every figure can show."""
    (tmp_path / "none").mkdir()
    for name in FIGURES:
        one_figure.main(
            ["--suite", "paper", "--runs", str(tmp_path / "none"), "--artefact", name, "--out", str(tmp_path)]
        )
    reproduction.main(["--suite", "paper", "--runs", str(tmp_path / "none"), "--out", str(tmp_path)])
    assert len(rows_of(tmp_path / "figure-mamujoco.csv")) == 0


def test_cost_figure(tmp_path: Path) -> None:
    lines = [",".join(cost.COLUMNS), f"{CHEETAH}/fp3o,10,20,30,5,,900,cpu", f"{CHEETAH}/mappo,10,20,10,5,,900,cpu"]
    (tmp_path / "cost.csv").write_text("\n".join(lines) + "\n")
    cost_figure.main(["--cost", str(tmp_path / "cost.csv"), "--out", str(tmp_path / "figures")])
    rows = rows_of(tmp_path / "figures" / "cost.csv")
    assert [float(rows[0][name]) for name in ("rollout_s", "update_s", "evaluation_s")] == [2.0, 3.0, 0.5]


def test_a_script_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = config.load_suite("smoke")
    wrong = dataclasses.replace(
        suite, artefacts=tuple(dataclasses.replace(artefact, script="cruves") for artefact in suite.artefacts)
    )
    monkeypatch.setattr(config, "load_suite", lambda name: wrong)
    figure = next(artefact.name for artefact in suite.artefacts if artefact.kind == "figure")
    with pytest.raises(UserError, match=r"script 'cruves'.*learning_curves"):
        one_figure.main(["--suite", "smoke", "--artefact", figure, "--runs", str(tmp_path), "--out", str(tmp_path)])
