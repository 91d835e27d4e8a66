"""Every figure of the paper suite: three files, the plotted numbers beside the picture, the same bytes again."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from fp3o import config
from fp3o.errors import UserError
from fp3o.report.page import figures_of, page
from fp3o.statistics import cost
from fp3o.statistics.suites import SuiteRuns
from paper_figures import __main__ as one_figure

FIGURES = [artefact.name for artefact in config.load_suite("paper").artefacts if artefact.kind == "figure"]
CHEETAH = "mamujoco/halfcheetah-6x1/full"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, write_run: Any, scores_around: Any) -> Path:
    """A few cells for every kind of figure, the rest missing."""
    root = tmp_path_factory.mktemp("results") / "runs"
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
    # Of the suite's other files a figure may read one: cost, which no run holds.
    lines = [
        ",".join(cost.COLUMNS),
        f"{CHEETAH}/fp3o,10,2,3,0.5,4.9,5.1,,,900,cpu",
        f"{CHEETAH}/mappo,10,2,1,0.5,2.9,3.1,,,900,cpu",
    ]
    (root.parent / "cost.csv").write_text("\n".join(lines) + "\n")
    return root


class Drawn:
    """Figures of these runs, each drawn once."""

    def __init__(self, runs: Path, out: Path) -> None:
        self.runs, self.out = runs, out
        self.texts: dict[str, list[str]] = {}
        """What stands outside the axes, by figure."""

    def draw(self, name: str, out: Path) -> None:
        one_figure.main(["--suite", "paper", "--runs", str(self.runs), "--artefact", name, "--out", str(out)])

    def __call__(self, name: str) -> Path:
        """Path without suffix."""
        if name not in self.texts:
            texts, savefig = self.texts.setdefault(name, []), Figure.savefig

            def watched(figure: Figure, *arguments: Any, **options: Any) -> None:
                texts.extend(text.get_text() for text in figure.texts)
                savefig(figure, *arguments, **options)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Figure, "savefig", watched)
                self.draw(name, self.out)
        return self.out / name

    def rows(self, name: str) -> list[dict[str, str]]:
        return rows_of(self(name).with_suffix(".csv"))


@pytest.fixture(scope="module")
def drawn(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return Drawn(runs, tmp_path_factory.mktemp("drawn"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(name: str, drawn: Drawn) -> None:
    path = drawn(name)
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert path.with_suffix(".csv").is_file()


@pytest.mark.parametrize(
    ("name", "battles"),
    [("figure-smac", True), ("figure-stability", True), ("figure-happo-kl", True), ("figure-mamujoco", False)],
)
def test_figures_of_battles_name_their_engine(name: str, battles: bool, drawn: Drawn, tmp_path: Path) -> None:
    shutil.copy(drawn(name).with_suffix(".png"), tmp_path)
    assert ("battles: embedded engine, not StarCraft II" in drawn.texts[name]) == battles
    data = SuiteRuns(config.load_suite("paper"), drawn.runs)
    (figure,) = figures_of(data, tmp_path)
    assert ("(embedded engine, not StarCraft II)" in figure.caption) == battles


@pytest.mark.parametrize("suite", config.suite_names())
def test_a_report_of_nothing_says_so(suite: str, tmp_path: Path) -> None:
    """Cells that are only timed have no runs to ask for their engine."""
    text = page(SuiteRuns(config.load_suite(suite), tmp_path), tmp_path)
    assert "Nothing yet." in text
    assert "<figure" not in text
    assert "Not drawn: " in text


def test_curves_show_what_the_runs_hold(drawn: Drawn) -> None:
    last = [row for row in drawn.rows("figure-mamujoco") if row["cell"] == f"{CHEETAH}/fp3o"][-1]
    half = 2.7764451 * 60 / 5**0.5  # Student's t with five seeds
    assert float(last["centre"]) == pytest.approx(4130, abs=0.1)
    assert float(last["high"]) - float(last["centre"]) == pytest.approx(half, rel=1e-3)
    assert (last["n"], last["published"]) == ("5", "4128.3")


def test_win_rates_are_medians_with_quartiles(drawn: Drawn) -> None:
    last = [row for row in drawn.rows("figure-smac") if row["cell"] == "smac/3s5z/full/happo"][-1]
    assert [float(last[name]) for name in ("low", "centre", "high")] == [62.5, 75.0, 87.5]


def test_matching_degree_counts_iterations(drawn: Drawn) -> None:
    found = {row["size"]: row for row in drawn.rows("figure-matching-degree")}
    assert (found["100"]["agree"], found["100"]["iterations"], found["100"]["percent"]) == ("30", "40", "75")
    assert found["1000"]["percent"] == "100"


def test_divergence_by_turn(drawn: Drawn) -> None:
    happo = [row for row in drawn.rows("figure-happo-kl") if row["cell"].endswith("/happo")]
    assert [row["turn"] for row in happo] == [str(turn) for turn in range(1, 9)]
    assert all(row["values"] == str(3 * 40) for row in happo)
    assert float(happo[7]["mean"]) == pytest.approx(0.08 + 1e-4 * 20.5)


def test_same_bytes_again(drawn: Drawn, tmp_path: Path) -> None:
    first = drawn("figure-split")
    drawn.draw("figure-split", tmp_path)
    for suffix in (".pdf", ".png", ".csv"):
        assert first.with_suffix(suffix).read_bytes() == (tmp_path / "figure-split").with_suffix(suffix).read_bytes()


def test_reproduction_figures(drawn: Drawn) -> None:
    forest = {row["cell"]: row for row in drawn.rows("reproduction-forest")}
    assert forest[f"{CHEETAH}/fp3o"]["verdict"] == "consistent"
    assert float(forest[f"{CHEETAH}/mappo"]["difference"]) == pytest.approx((3000 - 3170.5) / 116.6, rel=1e-3)
    profile = [row for row in drawn.rows("reproduction-profiles") if row["algorithm"] == "fp3o"]
    assert float(profile[0]["fraction_above"]) == 1.0


def test_figures_without_any_run(tmp_path: Path) -> None:
    """Nothing run yet is a state every figure can show."""
    (tmp_path / "none").mkdir()
    (tmp_path / "cost.csv").write_text(",".join(cost.COLUMNS) + "\n")
    for name in FIGURES:
        one_figure.main(
            ["--suite", "paper", "--runs", str(tmp_path / "none"), "--artefact", name, "--out", str(tmp_path / "drawn")]
        )
        assert len(rows_of(tmp_path / "drawn" / f"{name}.csv")) == 0


def test_cost_figure(drawn: Drawn) -> None:
    rows = drawn.rows("cost")
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
