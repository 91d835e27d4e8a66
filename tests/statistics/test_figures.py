"""Every figure of the paper suite: three files, the plotted numbers beside the picture, the same bytes again."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fp3o import config
from fp3o.errors import UserError
from fp3o.report.line_styles import DASHES, dash
from fp3o.report.page import figures_of, page
from fp3o.statistics import cost
from fp3o.statistics.suites import SuiteRuns
from paper_figures import __main__ as one_figure
from paper_figures.drawing import COLUMN, WIDTH, colour, empty, label_axes, note_missing, panels

ARTEFACTS = [artefact for artefact in config.load_suite("paper").artefacts if artefact.kind == "figure"]
FIGURES = [artefact.name for artefact in ARTEFACTS]
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
        f"{CHEETAH}/fp3o,no,1.9 2.1,2.9 3.1,0.5,,,900,cpu",
        f"{CHEETAH}/mappo,no,1.9 2.1,0.9 1.1,0.5,,,900,cpu",
    ]
    (root.parent / "cost.csv").write_text("\n".join(lines) + "\n")
    return root


def on_one_line(axes: Axes) -> str:
    return axes.get_title().replace("\n", ", ")


class Drawn:
    """Figures of these runs, each drawn once."""

    def __init__(self, runs: Path, out: Path) -> None:
        self.runs, self.out = runs, out
        self.figures: dict[str, Figure] = {}
        """As they were saved last."""

    def draw(self, name: str, out: Path) -> None:
        one_figure.main(["--suite", "paper", "--runs", str(self.runs), "--artefact", name, "--out", str(out)])

    def __call__(self, name: str) -> Path:
        """Path without suffix."""
        if name not in self.figures:
            savefig = Figure.savefig

            def watched(figure: Figure, *arguments: Any, **options: Any) -> None:
                self.figures[name] = figure
                savefig(figure, *arguments, **options)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Figure, "savefig", watched)
                self.draw(name, self.out)
        return self.out / name

    def caption(self, name: str) -> str:
        self(name)
        return " ".join(" ".join(text.get_text() for text in self.figures[name].texts).split())

    def panel(self, name: str, title: str) -> Axes:
        """The panel whose title begins like this, on one line or several."""
        self(name)
        (found,) = (axes for axes in self.figures[name].axes if on_one_line(axes).startswith(title.replace("\n", ", ")))
        return found

    def rows(self, name: str) -> list[dict[str, str]]:
        return rows_of(self(name).with_suffix(".csv"))


@pytest.fixture(scope="module")
def drawn(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return Drawn(runs, tmp_path_factory.mktemp("drawn"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def png_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the time: a PDF has its fonts cut to the letters it shows."""
    savefig = Figure.savefig

    def without_pdf(figure: Figure, path: Path, **options: Any) -> None:
        if Path(path).suffix != ".pdf":
            savefig(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", without_pdf)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(name: str, drawn: Drawn) -> None:
    path = drawn(name)
    pdf = path.with_suffix(".pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/TrueType" in pdf or b"/Type0" in pdf  # text is text …
    assert b"/Type3" not in pdf  # … and no outlines of letters
    assert drawn.figures[name].get_figwidth() in (WIDTH, COLUMN)  # of a two-column paper
    assert len(drawn.figures[name].legends) <= 1
    assert not any(axes.get_legend() for axes in drawn.figures[name].axes)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert path.with_suffix(".csv").is_file()


@pytest.mark.parametrize(
    ("name", "battles"),
    [("figure-smac", True), ("figure-stability", True), ("figure-happo-kl", True), ("figure-mamujoco", False)],
)
def test_figures_of_battles_name_their_engine(name: str, battles: bool, drawn: Drawn, tmp_path: Path) -> None:
    shutil.copy(drawn(name).with_suffix(".png"), tmp_path)
    assert ("battles: embedded engine, not StarCraft II" in drawn.caption(name)) == battles
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
    # No column says what the condition decided: it is taken to have said go, so the constraint holds where they agree.
    assert (found["100"]["constant"], found["100"]["kappa"], found["100"]["seeds"]) == ("75", "0", "1")


def test_divergence_by_turn(drawn: Drawn) -> None:
    happo = [row for row in drawn.rows("figure-happo-kl") if row["cell"].endswith("/happo")]
    assert [row["turn"] for row in happo] == [str(turn) for turn in range(1, 9)]
    assert all(row["values"] == str(3 * 40) for row in happo)
    assert float(happo[7]["mean"]) == pytest.approx(0.08 + 1e-4 * 20.5)


# --- What the paper draws without runs ----------------------------------------------------------------------------


def test_the_pipelines_are_the_algorithms_own_turns(drawn: Drawn) -> None:
    """FP3O: all at once, then each with all others' ratios. HAPPO: one after the other, with those before it."""
    found = {(row["algorithm"], row["turn"], row["agent"]): row["ratios_of"] for row in drawn.rows("figure-pipelines")}
    for agent in range(1, 6):
        others = [str(other) for other in range(1, 6) if other != agent]
        assert found.pop(("FP3O", "1", str(agent))) == ""
        assert found.pop(("FP3O", "2", str(agent))) == " ".join(others)
        assert found.pop(("HAPPO", str(agent), str(agent))) == " ".join(others[: agent - 1])
    assert not found


def test_the_networks_are_the_owner_vectors(drawn: Drawn) -> None:
    found = {(row["sharing"], row["agent"]): (row["trunk"], row["head"]) for row in drawn.rows("figure-sharing")}
    assert [found["full", agent] for agent in "123"] == [("1", "1")] * 3
    assert [found["partial", agent] for agent in "123"] == [("1", agent) for agent in "123"]
    assert [found["none", agent] for agent in "123"] == [(agent, agent) for agent in "123"]


def test_the_robots_parts_are_the_partitions(drawn: Drawn) -> None:
    rows = drawn.rows("figure-agents")
    agents = {task: {row["agent"] for row in rows if row["task"] == task} for task in {row["task"] for row in rows}}
    assert {task: len(found) for task, found in agents.items()} == {
        **{"reacher-2x1": 2, "ant-2x4": 2, "walker2d-2x3": 2},
        **{"hopper-3x1": 3, "halfcheetah-6x1": 6, "swimmer-8x2": 8},
    }
    # Who drives, not who watches: agents' actions meet the actuators in the model's order.
    legs = {row["joint"]: row["agent"] for row in rows if row["task"] == "halfcheetah-6x1"}
    assert legs == {"bthigh": "1", "bshin": "2", "bfoot": "3", "fthigh": "4", "fshin": "5", "ffoot": "6"}
    ant = {row["joint"]: (row["agent"], int(row["actuator"])) for row in rows if row["task"] == "ant-2x4"}
    assert {name: agent for name, (agent, _) in ant.items()} == {
        name: "1" if actuator < 4 else "2" for name, (_, actuator) in ant.items()
    }
    # A number on every driven part that is no ball: all but the fingertip.
    texts = [text.get_text() for text in drawn.panel("figure-agents", "2-Agent Reacher").texts]
    assert sorted(texts) == ["1", "2"]


# --- What a reader must be able to see ------------------------------------------------------------------------------


def test_what_was_not_run_is_small_and_has_the_papers_value(drawn: Drawn) -> None:
    run = drawn.panel("figure-mamujoco", "6-Agent HalfCheetah [6×1], full sharing")
    other = drawn.panel("figure-mamujoco", "2-Agent Reacher [2×1], full sharing")
    assert other.get_position().height < 0.4 * run.get_position().height
    assert "FP3O −32.7 ± 5.8" in other.texts[0].get_text()
    beside = drawn.panel("figure-mamujoco", "6-Agent HalfCheetah [6×1], partial sharing")
    assert "FP3O 4879.3 ± 845.1" in beside.texts[0].get_text()


@pytest.mark.parametrize("suite", ["paper", "preview"])
def test_where_the_plan_departs_from_the_paper_its_value_is_left_out(suite: str, tmp_path: Path) -> None:
    """Not run at a tenth of the steps: the published value is no value of that."""
    cells = SuiteRuns(config.load_suite(suite), tmp_path).cells
    figure, axes = plt.subplots()
    empty(axes, [cells[f"{CHEETAH}/fp3o"]])
    plt.close(figure)
    assert axes.texts[0].get_text() == ("not run; paper:\nFP3O 4128.3 ± 366.9" if suite == "paper" else "not run")


@pytest.mark.parametrize(("end", "at_the_top"), [(0.0, True), (95.0, False)])
def test_what_was_not_run_is_named_where_no_curve_ends(end: float, at_the_top: bool, tmp_path: Path) -> None:
    cells = SuiteRuns(config.load_suite("preview"), tmp_path).cells
    figure, axes = plt.subplots()
    axes.plot([0.0, 1.0], [50.0, end])
    axes.set_ylim(-3, 103)
    note_missing(axes, [cells[f"smac/corridor/full/{name}"] for name in ("happo", "ippo")])
    (text,) = axes.texts
    box = text.get_window_extent().transformed(axes.transAxes.inverted())
    plt.close(figure)
    assert text.get_text() == "not run: HAPPO, IPPO"
    assert box.y0 > 0.9 if at_the_top else box.y1 < 0.1
    assert box.x1 < 1.0


def test_steps_stand_under_the_lowest_panel_with_data(drawn: Drawn) -> None:
    """HalfCheetah is last but one."""
    drawn("figure-mamujoco")
    labelled = [on_one_line(axes) for axes in drawn.figures["figure-mamujoco"].axes if axes.get_xlabel()]
    assert labelled == ["6-Agent HalfCheetah [6×1], full sharing"]


def test_every_metric_is_named() -> None:
    """Beside the first panel with data, and again where another metric begins."""
    figure, grid = panels([[False, True, True, True]])
    label_axes(grid, [[False, True, True, True]], [["return", "return", "win_rate", "win_rate"]])
    assert [axes.get_ylabel() for axes in grid[0]] == ["", "return", "win rate (%)", ""]
    plt.close(figure)


def test_the_range_leaves_the_start_out(drawn: Drawn) -> None:
    """From 0 to 2700 and more within half of training."""
    low, high = drawn.panel("figure-mamujoco", "6-Agent HalfCheetah [6×1], full sharing").get_ylim()
    assert 500 < low < 2700
    assert 4130 < high < 4400
    assert drawn.panel("figure-smac", "3s5z, full sharing").get_ylim() == (-3, 103)


@pytest.mark.usefixtures("png_alone")
def test_published_values_far_away_are_named_at_the_edge(tmp_path: Path, write_run: Any) -> None:
    for seed in range(3):
        write_run(tmp_path / "runs", f"{CHEETAH}/fp3o", seed, 1000.0 + seed)
    far = Drawn(tmp_path / "runs", tmp_path)
    panel = far.panel("figure-mamujoco", "6-Agent HalfCheetah [6×1], full sharing")
    assert panel.get_ylim()[1] < 2000
    assert "↑ paper: FP3O 4128.3" in [text.get_text() for text in panel.texts]


def test_two_seeds_are_two_lines_and_no_band(drawn: Drawn) -> None:
    panel = drawn.panel("figure-smac", "6h vs. 8z, partial sharing")
    assert len(panel.collections) == 1  # the bar of the published spread
    rising = [np.asarray(line.get_ydata()) for line in panel.lines]
    assert [values[-1] for values in rising if len(values) > 2] == [0.0, 100.0]
    last = [row for row in drawn.rows("figure-smac") if row["cell"] == "smac/6h_vs_8z/partial/mappo"][-1]
    assert (last["low"], last["high"]) == ("0", "100")
    assert "with fewer than 3 seeds thin lines: single runs" in drawn.caption("figure-smac")


def test_seeds_have_a_legend_and_those_at_zero_a_cross(drawn: Drawn) -> None:
    panel = drawn.panel("figure-convergence", "MAPPO: 1 of 2 seeds end at 0\n6h vs. 8z, partial sharing")
    (legend,) = drawn.figures["figure-convergence"].legends
    assert [text.get_text() for text in legend.get_texts()] == ["seed 0", "seed 1"]
    assert [line.get_marker() for line in panel.lines][1::2] == ["x", "."]


@pytest.mark.usefixtures("png_alone")
def test_the_difference_is_of_the_statistic_that_is_drawn(tmp_path: Path, write_run: Any) -> None:
    """Win rates whose medians agree and whose means do not."""
    for label, values in (("fp3o", (100.0, 100.0, 0.0)), ("fp3o-random-split", (100.0, 100.0, 50.0))):
        for seed, value in enumerate(values):
            write_run(tmp_path / "runs", f"smac/3s5z/full/{label}", seed, value, suite="paper")
    title = Drawn(tmp_path / "runs", tmp_path).panel("figure-split", "3s5z, full sharing").get_title()
    assert title == "3s5z, full sharing\nΔ 0 [−50, 100], 56 %"


@pytest.mark.parametrize("name", FIGURES)
def test_no_title_is_a_cells_name(name: str, drawn: Drawn) -> None:
    drawn(name)
    axes = drawn.figures[name].axes
    texts = [panel.get_title() for panel in axes]
    texts += [text.get_text() for panel in axes for text in panel.get_yticklabels()]
    assert not any("/" in text or "_vs_" in text or "halfcheetah-" in text for text in texts)


@pytest.mark.parametrize(
    "name", ["figure-mamujoco", "figure-stability", "figure-split", "figure-happo-kl", "figure-matching-degree", "cost"]
)
def test_captions_say_what_lines_are(name: str, drawn: Drawn) -> None:
    assert any(word in drawn.caption(name) for word in ("line:", "violins:", "one seed alone"))


def test_an_algorithm_looks_the_same_everywhere(drawn: Drawn) -> None:
    names = ("figure-mamujoco", "figure-smac", "reproduction-profiles", "figure-stability")
    for name in names:
        drawn(name)
    lines = [line for name in names for axes in drawn.figures[name].axes for line in axes.lines]
    looks = {(line.get_color(), line.get_marker()) for line in lines if str(line.get_label()).startswith("HAPPO")}
    assert looks == {("#0072B2", "s")}


def test_same_bytes_again(drawn: Drawn, tmp_path: Path) -> None:
    first = drawn("figure-split")
    drawn.draw("figure-split", tmp_path)
    for suffix in (".pdf", ".png", ".csv"):
        assert first.with_suffix(suffix).read_bytes() == (tmp_path / "figure-split").with_suffix(suffix).read_bytes()


def test_reproduction_figures(drawn: Drawn) -> None:
    forest = {row["cell"]: row for row in drawn.rows("reproduction-forest")}
    assert forest[f"{CHEETAH}/fp3o"]["verdict"] == "undecided"
    assert float(forest[f"{CHEETAH}/mappo"]["difference"]) == pytest.approx((3000 - 3170.5) / 116.6, rel=1e-3)
    profile = [row for row in drawn.rows("reproduction-profiles") if row["algorithm"] == "fp3o"]
    assert float(profile[0]["fraction_above"]) == 1.0


@pytest.mark.usefixtures("png_alone")
def test_figures_without_any_run(tmp_path: Path) -> None:
    """Nothing run yet is a state every kind of figure can show."""
    (tmp_path / "none").mkdir()
    (tmp_path / "cost.csv").write_text(",".join(cost.COLUMNS) + "\n")
    for name in {artefact.script: artefact.name for artefact in ARTEFACTS if not artefact.states_facts}.values():
        one_figure.main(
            ["--suite", "paper", "--runs", str(tmp_path / "none"), "--artefact", name, "--out", str(tmp_path / "drawn")]
        )
        assert not rows_of(tmp_path / "drawn" / f"{name}.csv")


def test_cost_figure(drawn: Drawn) -> None:
    rows = drawn.rows("cost")
    assert [float(rows[0][name]) for name in ("rollout_s", "update_s", "evaluation_s")] == [2.0, 3.0, 0.5]
    assert rows[0]["memory_mib"] == "900"
    titles = [axes.get_xlabel() for axes in drawn.figures["cost"].axes]
    assert titles == ["seconds per iteration", "time (MAPPO = 1)", "memory (MAPPO = 1)"]


def test_a_script_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = config.load_suite("smoke")
    wrong = dataclasses.replace(
        suite, artefacts=tuple(dataclasses.replace(artefact, script="cruves") for artefact in suite.artefacts)
    )
    monkeypatch.setattr(config, "load_suite", lambda name: wrong)
    figure = next(artefact.name for artefact in suite.artefacts if artefact.kind == "figure")
    with pytest.raises(UserError, match=r"script 'cruves'.*learning_curves"):
        one_figure.main(["--suite", "smoke", "--artefact", figure, "--runs", str(tmp_path), "--out", str(tmp_path)])


# --- Where the full budget was not run ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory, write_run: Any) -> Drawn:
    """Runs of a tenth of the steps alone, beside an empty folder of full ones."""
    root = tmp_path_factory.mktemp("early")
    (root / "paper" / "runs").mkdir(parents=True)
    for seed in range(3):
        for label, centre in (("fp3o", 900.0), ("fp3o-independent", 700.0), ("mappo-10-epochs", 950.0)):
            cell = f"mamujoco/hopper-3x1/full/{label}"
            write_run(root / "preview" / "runs", cell, seed, centre + seed, suite="preview")
        won = (0.0, 0.0, 75.0)[seed]
        write_run(root / "preview" / "runs", "smac/5m_vs_6m/full/fp3o", seed, won, suite="preview")
    return Drawn(root / "paper" / "runs", root / "drawn")


def test_the_previews_curve_stands_in_for_a_cell_that_was_not_run(early: Drawn) -> None:
    panel = early.panel("figure-mamujoco", "3-Agent Hopper [3×1], full sharing")
    (line,) = panel.lines
    assert line.get_label() == "FP3O, a tenth of the steps"
    assert line.get_linewidth() < 1
    assert line.is_dashed()
    assert not panel.collections  # no band
    assert {row["budget"] for row in early.rows("figure-mamujoco")} == {"a tenth"}
    assert {row["published"] for row in early.rows("figure-mamujoco")} == {""}
    assert "thin, dashed, without band: a tenth of the steps" in early.caption("figure-mamujoco")


def test_a_seed_that_wins_is_not_hidden_by_the_median(early: Drawn) -> None:
    panel = early.panel("figure-smac", "5m vs. 6m, full sharing")
    assert sorted(float(np.asarray(line.get_ydata())[-1]) for line in panel.lines) == [0.0, 75.0]
    assert "seeds that end more than 10 points above the upper quartile" in early.caption("figure-smac")


def test_the_ablation_has_the_control_of_equal_updates(early: Drawn) -> None:
    panel = early.panel("figure-ablation", "3-Agent Hopper [3×1], full sharing")
    names = [str(line.get_label()).partition(",")[0] for line in panel.lines]
    assert names == ["FP3O", "FP3O (independent)", "MAPPO (10 epochs)"]
    assert "Δ −200" in panel.get_title()  # of the variant and FP3O
    dashes = {name: line.get_linestyle() for name, line in zip(names, panel.lines, strict=True)}
    hollow = {name: line.get_markerfacecolor() == "white" for name, line in zip(names, panel.lines, strict=True)}
    assert len(dashes) == 3
    assert hollow == {"FP3O": False, "FP3O (independent)": True, "MAPPO (10 epochs)": True}


def test_a_colour_per_algorithm_and_a_dash_per_variant() -> None:
    labels = [f"{name}-{variant}" for name in ("fp3o", "mappo") for variant in DASHES]
    assert {colour(label) for label in labels} == {colour("fp3o"), colour("mappo")}
    assert len({dash(f"fp3o-{variant}") for variant in DASHES}) == len(DASHES)
    assert all(dash(f"fp3o-{variant}") == dash(f"mappo-{variant}") for variant in DASHES)
    assert dash("fp3o") == ()
    assert dash("fp3o-something-of-ones-own") == dash("happo-something-of-ones-own") != ()


def test_the_scatter_is_scaled_per_task(drawn: Drawn) -> None:
    drawn("reproduction-scatter")
    (axes, *_) = drawn.figures["reproduction-scatter"].axes
    assert max(abs(value) for value in axes.get_xlim()) < 2
    assert float(drawn.rows("reproduction-scatter")[0]["published"]) > 2000  # the file has the scores themselves


def test_the_figure_of_kl_is_logarithmic_with_the_papers_circle_as_a_line(drawn: Drawn) -> None:
    drawn("figure-happo-kl")
    figure = drawn.figures["figure-happo-kl"]
    assert all(axes.name == "rectilinear" for axes in figure.axes)
    ticks = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert ticks == ["$10^{-2}$", "$10^{-1}$"]  # logarithmic, over the powers the data have
    (ring,) = (line for line in figure.axes[0].lines if line.get_linestyle() == ":")
    assert 10 ** float(np.asarray(ring.get_ydata())[0]) == pytest.approx(0.04)


def test_scores_over_epochs_are_the_runs_scores(drawn: Drawn) -> None:
    rows = {row["cell"]: row for row in drawn.rows("dose-response")}
    assert rows
    data = SuiteRuns(config.load_suite("paper"), drawn.runs)
    epochs = {"fp3o": "10", "fp3o-3-2": "5", "mappo": "5", "mappo-10-epochs": "10"}
    for name, row in rows.items():
        summary = data.cells[name].summary()
        assert summary is not None
        assert float(row["score"]) == pytest.approx(summary.centre, rel=1e-5)
        if name.startswith("mamujoco/"):
            assert row["epochs"] == epochs[config.Cell.of(name).label]
