"""What all figures share: sizes, colours and marks, curves over seeds, panels, legend, caption, saving, arguments."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fp3o.config import Artefact, Cell, algorithm_colour, algorithm_title
from fp3o.report.line_styles import dash
from fp3o.statistics import gathered
from fp3o.statistics.curves import METRIC_NAMES, START, Band, band
from fp3o.statistics.intervals import interval_of
from fp3o.statistics.published import Published, scores
from fp3o.statistics.scores import CellRuns, Run, battles_by, scoring_of
from fp3o.statistics.suites import SuiteRuns, csv_text, load, parser, write

plt.style.use(Path(__file__).parent / "style.mplstyle")

# Inches: the text of a two-column paper, and one of its columns. Nothing is scaled when it is put there.
WIDTH, COLUMN = 6.75, 3.25
TALL, SHORT = 1.3, 0.3  # Of a panel with curves, and of one without.
SMALL, SOFT = 5.5, "#666666"  # Size in points and colour of notes.
FEWEST_SEEDS = 3
"""With fewer, single runs are drawn: the interval of two is tens of times as wide as they are apart."""
# With the colour, so that figures can be read in grey; the same everywhere.
MARKERS = {"fp3o": "o", "happo": "s", "mappo": "^", "ippo": "D", "a2po": "v", "coppo": "P"}
# Of seeds and of other things that are no algorithms: Okabe and Ito's again, from dark to light, and dashes.
PALETTE = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
DASHES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)))


def colour(label: str) -> str:
    """Of the label's algorithm; its variants have it too, and are told apart by their dashes."""
    return algorithm_colour(label)


def dashes(label: str) -> str | tuple[float, tuple[float, ...]]:
    """Of the label's variant."""
    return (0.0, dash(label)) if dash(label) else "-"


def marker(label: str) -> str:
    """Of the label's algorithm."""
    return MARKERS.get(label.partition("-")[0], "X")


def face(label: str) -> str:
    """The fill of a mark: a variant's is hollow."""
    return "white" if dash(label) else colour(label)


def line_style(label: str, points: int) -> dict[str, Any]:
    """Colour, dashes and some five marks along a line, each algorithm's at other places than the next one's; hollow
    marks are a variant's."""
    order = list(MARKERS)
    algorithm = label.partition("-")[0]
    place = order.index(algorithm) if algorithm in order else len(order)
    stride = max(1, points // 5)
    return {
        "color": colour(label),
        "linestyle": dashes(label),
        "marker": marker(label),
        "markerfacecolor": face(label),
        "markevery": (place * stride // (len(order) + 1), stride),
    }


# --- Curves ---------------------------------------------------------------------------------------------------------

CURVE_HEADER = ("cell", "env_steps", "n", "centre", "low", "high", "published", "budget")
EARLY_DASHES = (0.0, (2.0, 1.0))
HIDDEN = 10.0
"""Points of win rate by which a seed must end above the upper quartile to be drawn by itself."""


def draw_curve(axes: Axes, cell: CellRuns, name: str | None = None) -> list[tuple[str, ...]]:
    """One cell's curve, the published value as a dotted line; returns the plotted data.

    Of fewer than three seeds every run is drawn, and low and high are the extremes. Runs at a tenth of the steps, which
    stand in for a cell that was not run, are thin and dashed and have no band.
    """
    found = band(cell)
    if found is None:
        return []
    label = Cell.of(cell.cell).label
    steps, most = found.env_steps / 1e6, int(found.n.max())
    text = f"{name or algorithm_title(label)} (n = {most})"
    style = line_style(label, len(steps))
    if is_early(cell):
        style |= {"linestyle": dashes(label) if dash(label) else EARLY_DASHES, "linewidth": 0.7, "markersize": 2}
        axes.plot(steps, found.centre, **style, label=f"{name or algorithm_title(label)}, a tenth of the steps")
    elif most < FEWEST_SEEDS:
        found = _extremes(cell, found)
        for place, run in enumerate(run for run in cell.runs if len(run.curve.value)):
            axes.plot(run.curve.env_steps / 1e6, run.curve.value, **style, linewidth=0.8, label="" if place else text)
    else:
        axes.plot(steps, found.centre, **style, label=text)
        axes.fill_between(steps, found.low, found.high, color=style["color"], alpha=0.18, linewidth=0)
    for run in hidden_seeds(cell):
        axes.plot(run.curve.env_steps / 1e6, run.curve.value, color=style["color"], linewidth=0.35, alpha=0.8)
    published = published_of(cell)
    if published is not None:
        axes.axhline(published.value, color=style["color"], linestyle=":", linewidth=0.9)
        # The published spread as a bar at the right, one beside the other.
        place = steps[-1] * (1.03 + 0.025 * len(axes.containers))
        axes.errorbar(place, published.value, published.spread, color=style["color"], linewidth=2, alpha=0.5)
    last, budget = f"{published.value}" if published is not None else "", "a tenth" if is_early(cell) else "full"
    return [
        (cell.cell, f"{step:.0f}", f"{n}", *(f"{value:.6g}" for value in (centre, low, high)), last, budget)
        for step, centre, low, high, n in zip(*found, strict=True)
    ]


def score_with_interval(cell: CellRuns) -> tuple[float, float, float]:
    """Score and its 95 % interval; of a single seed the score alone."""
    scores, summary = cell.scores(), cell.summary()
    assert summary is not None
    if len(scores) < 2:
        return summary.centre, summary.centre, summary.centre
    low, high, _ = interval_of(scores, scoring_of(cell.cell).statistic)
    return summary.centre, low, high


def is_early(cell: CellRuns) -> bool:
    """Whether its runs are at a tenth of the steps, in the place of full ones."""
    return bool(cell.allowed)


def revision(cells: Sequence[CellRuns]) -> str:
    """For the title of a panel of battles at a tenth of the steps: the engine's revision, as panels may differ in it;
    "" elsewhere."""
    engines = {run.engine for cell in cells if is_early(cell) for run in cell.runs}
    found = sorted({match[0] for engine in engines if (match := re.search(r"revision \d+", engine))})
    return ", ".join(found) if found and cells[0].cell.startswith("smac/") else ""


def hidden_seeds(cell: CellRuns) -> list[Run]:
    """Seeds that win although neither the median nor the quartiles show it."""
    found = band(cell)
    if found is None or scoring_of(cell.cell).metric != "win_rate" or len(cell.runs) < FEWEST_SEEDS:
        return []
    return [run for run in cell.runs if len(run.curve.value) and run.curve.value[-1] > found.high[-1] + HIDDEN]


def published_of(cell: CellRuns) -> Published | None:
    """The paper's value, unless the runs depart from its settings or would."""
    departs = cell.deviations or cell.planned.departs or is_early(cell)
    return None if departs else scores().get(cell.cell)


def _extremes(cell: CellRuns, found: Band) -> Band:
    """The band from the lowest to the highest run."""
    rows = []
    for step in found.env_steps:
        curves = [run.curve for run in cell.runs]
        rows.append([float(c.value[c.env_steps == step][0]) for c in curves if step in c.env_steps])
    return found._replace(low=np.array([min(row) for row in rows]), high=np.array([max(row) for row in rows]))


def show_late(axes: Axes, cells: Sequence[CellRuns]) -> None:
    """The vertical range of what follows the start of training, which from far below would flatten all the rest.

    Published values at most as far away as that range is wide belong to it; others are named at the edge.
    """
    if scoring_of(cells[0].cell).metric == "win_rate":
        axes.set_ylim(-3, 103)
        return
    late: list[NDArray[np.float64]] = []
    for cell in cells:
        found = band(cell)
        if found is not None:
            found = _extremes(cell, found) if found.n.max() < FEWEST_SEEDS else found
            if is_early(cell):  # no band is drawn
                found = found._replace(low=found.centre, high=found.centre)
            kept = found.env_steps >= START * found.env_steps[-1]
            late += [found.low[kept], found.high[kept]]
    if not late:
        return
    low, high = (float(f(np.concatenate(late))) for f in (np.min, np.max))
    reach = (high - low) or 1.0
    published = {Cell.of(c.cell).label: p.value for c in cells if c.runs and (p := published_of(c)) is not None}
    near = [value for value in published.values() if low - reach <= value <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    axes.set_ylim(low - 0.06 * (high - low or 1.0), high + 0.06 * (high - low or 1.0))
    below = [f"{algorithm_title(label)} {value:g}" for label, value in published.items() if value < low]
    above = [f"{algorithm_title(label)} {value:g}" for label, value in published.items() if value > high]
    if below:
        text = f"↓ paper: {', '.join(below)}"
        axes.text(0.01, 0.01, text, transform=axes.transAxes, fontsize=SMALL, color=SOFT)
    if above:
        text = f"↑ paper: {', '.join(above)}"
        axes.text(0.01, 0.99, text, transform=axes.transAxes, fontsize=SMALL, color=SOFT, va="top")


def caption(cells: Sequence[CellRuns]) -> str:
    """What line and band are, and what stands in for cells that were not run."""
    drawn = [cell for cell in cells if cell.runs]
    if not drawn:
        return ""
    early = [cell for cell in drawn if is_early(cell)]
    rules = list(dict.fromkeys(scoring_of(cell.cell).statistic for cell in drawn))
    words = {"median": "median over seeds; band: quartiles", "mean": "mean over seeds; band: 95 % t interval"}
    text = "line: " + " (returns), ".join(words[rule] for rule in sorted(rules))
    text += " (win rates)" if len(rules) > 1 else ""
    if any(hidden_seeds(cell) for cell in drawn):
        text += f"; thinnest: seeds that end more than {HIDDEN:g} points above the upper quartile"
    if early:
        engines = sorted({run.engine.partition(" (")[0] for c in early if c.cell.startswith("smac/") for run in c.runs})
        text += "; thin, dashed, without band: a tenth of the steps, where the full budget was not run"
        text += f" (battles by {' and '.join(engines)})" if engines else ""
    if any(0 < len(cell.runs) < FEWEST_SEEDS for cell in drawn):
        text += f"; with fewer than {FEWEST_SEEDS} seeds thin lines: single runs"
    if any(published_of(cell) is not None for cell in drawn):
        text += "; dotted and bar at the right: published value ± spread"
    if any(scoring_of(cell.cell).metric != "win_rate" for cell in drawn):
        text += f"; the first {100 * START:.0f} % of training may leave the range"
    return text + "; no smoothing"


# --- Panels ---------------------------------------------------------------------------------------------------------


def panels(
    filled: Sequence[Sequence[bool]], tall: float = TALL, title_lines: int = 1
) -> tuple[Figure, list[list[Axes]]]:
    """A grid of panels; where nothing was run rows are low, and one of two columns is narrow. Lines may be of unequal
    length: the rest is hidden."""
    across = max(len(line) for line in filled)
    some = [any(row[x] for row in filled if x < len(row)) for x in range(across)]
    heights = [tall if any(line) else SHORT for line in filled]
    width = COLUMN if across == 1 else WIDTH
    # Titles and numbers of the axes; legend, label and caption.
    around = sum(0.32 if height == tall else 0.2 for height in heights) + (0.75 if any(some) else 0.1)
    around += 0.11 * (title_lines - 1) * len(heights)
    size = (width, sum(heights) + around)
    figure = plt.figure(figsize=size, layout="constrained")
    found = figure.subplots(
        len(filled),
        across,
        squeeze=False,
        height_ratios=heights,
        width_ratios=[1.0 if drawn or not any(some) or across > 2 else 0.6 for drawn in some],
    )
    for line, row in zip(found, filled, strict=True):
        for axes in line[len(row) :]:
            axes.set_visible(False)
    return figure, [list(line[: len(row)]) for line, row in zip(found, filled, strict=True)]


def empty(axes: Axes, cells: Sequence[CellRuns] = (), text: str = "not run") -> None:
    """A panel without data says so, and what the paper has there; small, however high its row is."""
    theirs = [f"{Cell.of(cell.cell).title} {p.text}" for cell in cells if (p := published_of(cell)) is not None]
    if theirs:
        pairs = [" · ".join(theirs[start : start + 2]) for start in range(0, len(theirs), 2)]
        text = "\n".join([f"{text}; paper:", *(pairs if len(theirs) > 2 else theirs)]).replace(" -", " −")
    box = {"boxstyle": "square,pad=0.5", "facecolor": "#f4f4f4", "edgecolor": "none"}
    axes.set_axis_off()
    axes.text(0.5, 0.98, text, transform=axes.transAxes, ha="center", va="top", color=SOFT, fontsize=SMALL, bbox=box)


def note_missing(axes: Axes, cells: Sequence[CellRuns]) -> None:
    """Names the algorithms of a panel that were not run, away from where the others' curves end; the whole panel where
    none was. For a panel whose vertical range is settled."""
    missing = [Cell.of(cell.cell).title for cell in cells if band(cell) is None]
    if not axes.lines:
        empty(axes, cells)
    elif missing:
        text = f"not run: {', '.join(missing)}"
        ends = [np.asarray(line.get_ydata(), float)[-1] for line in axes.lines]
        edge = 0.13 if axes.texts else 0.03  # beside the paper's values there would be no room
        height, side = (1 - edge, "top") if np.mean(ends) < np.mean(axes.get_ylim()) else (edge, "bottom")
        axes.text(0.98, height, text, transform=axes.transAxes, ha="right", va=side, fontsize=SMALL, color=SOFT)


def label_axes(
    grid: Sequence[Sequence[Axes]], filled: Sequence[Sequence[bool]], metrics: Sequence[Sequence[str]]
) -> None:
    """Steps under the lowest panel with data of every column, the metric beside every row's first one and wherever it
    changes."""
    for x in range(max(map(len, filled))):
        drawn = [y for y, row in enumerate(filled) if x < len(row) and row[x]]
        if drawn:
            grid[drawn[-1]][x].set_xlabel("environment steps (millions)")
    for row, axes_of_row, names in zip(filled, grid, metrics, strict=True):
        last = None
        for has_data, axes, metric in zip(row, axes_of_row, names, strict=True):
            if has_data and metric != last:
                axes.set_ylabel(METRIC_NAMES[metric])
                last = metric


def joint_legend(figure: Figure, grid: Iterable[Axes]) -> None:
    """One legend above all panels; what is in several panels appears once, with all its numbers of seeds."""
    handles: dict[str, Any] = {}
    counts: dict[str, set[int]] = {}
    for axes in grid:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            name, _, count = text.partition(" (n = ")
            handles.setdefault(name, handle)
            counts.setdefault(name, set()).update([int(count[:-1])] if count else [])
    texts = [name + _seeds(counts[name]) for name in handles]
    if not handles:
        return
    # Inches of an entry: its handle, and 0.05 per letter. All in one line if they fit, else in equal columns.
    inches = [0.4 + 0.05 * len(text) for text in texts]
    columns = len(texts) if sum(inches) < figure.get_figwidth() else int(figure.get_figwidth() / max(inches))
    figure.legend(list(handles.values()), texts, loc="outside upper center", ncol=max(1, columns))


def _seeds(counts: set[int]) -> str:
    if not counts:
        return ""
    return f" (n = {min(counts)})" if len(counts) == 1 else f" (n = {min(counts)} to {max(counts)})"


# --- Saving ---------------------------------------------------------------------------------------------------------


def save(
    figure: Figure,
    out: Path,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    cells: Sequence[CellRuns] = (),
    note: str = "",
) -> None:
    """<out>.pdf, .png and .csv, with no date or program name inside, so that the same runs give the same files.

    Below the figure: `note`, what its lines and marks are, and which engine fought the battles of these cells.
    """
    engine = battles_by([cell for cell in cells if not is_early(cell)])
    text = "; ".join(filter(None, [note, f"battles: {engine}" if engine else ""]))
    if text:
        lines = textwrap.wrap(text, round(22 * figure.get_figwidth()))
        figure.supxlabel("\n".join(lines), fontsize=SMALL + 0.5, color=SOFT)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out.with_suffix(".pdf"), metadata={"CreationDate": None, "Producer": None, "Creator": None})
    figure.set_layout_engine("none")  # It is laid out; doing so again takes as long as the rest.
    figure.savefig(out.with_suffix(".png"), metadata={"Software": None})
    plt.close(figure)
    write(out.with_suffix(".csv"), csv_text(header, rows))


class Request(NamedTuple):
    """What a figure is asked for."""

    data: SuiteRuns
    artefact: Artefact
    out: Path
    """Without suffix."""

    @property
    def cells(self) -> list[CellRuns]:
        return self.data.of(self.artefact)

    def filled(self, cells: Sequence[CellRuns]) -> list[CellRuns]:
        """These cells; where one was not run, its runs at a tenth of the steps, if those exist. Such runs of one task
        are all of one engine."""
        tenth = gathered.tenth(self.data) if any(band(cell) is None for cell in cells) else None
        if tenth is None:
            return list(cells)
        return [
            tenth.cells[cell.cell] if band(cell) is None and tenth.cells[cell.cell].runs else cell for cell in cells
        ]

    @property
    def numbers(self) -> Path:
        """The CSV file of the table it reads, beside the runs."""
        return self.data.root.parent / self.data.suite.artefact(self.artefact.reads).numbers


def arguments(what: str) -> argparse.ArgumentParser:
    """--suite, --runs, --artefact, --out."""
    found = parser(what, out="folder for <artefact>.{pdf,png,csv}")
    found.add_argument("--artefact", required=True, help="which figure of the suite")
    return found


def request(chosen: argparse.Namespace) -> Request:
    """The figure the arguments name."""
    data = load(chosen)
    return Request(data, data.suite.artefact(chosen.artefact, "figure"), chosen.out / chosen.artefact)
