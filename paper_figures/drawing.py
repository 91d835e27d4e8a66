"""What all figures share: colours, curves over seeds, saving, arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fp3o.config import Artefact, Cell, algorithm_colour, algorithm_title
from fp3o.statistics.curves import band
from fp3o.statistics.published import scores
from fp3o.statistics.scores import CellRuns, battles_by, scoring_of
from fp3o.statistics.suites import SuiteRuns, csv_text, load, parser, write

plt.style.use(Path(__file__).parent / "style.mplstyle")

METRIC_NAMES = {"return": "return", "return_per_agent": "return per agent", "win_rate": "win rate (%)"}


def colour(label: str) -> str:
    """Variants have their algorithm's colour, darkened; lines tell them apart by their dashes too."""
    base = algorithm_colour(label)
    if "-" not in label:
        return base
    red, green, blue = mpl.colors.to_rgb(base)
    return mpl.colors.to_hex((0.55 * red, 0.55 * green, 0.55 * blue))


def dashes(label: str) -> str:
    return "--" if "-" in label else "-"


CURVE_HEADER = ("cell", "env_steps", "n", "centre", "low", "high", "published")


def draw_curve(axes: Axes, cell: CellRuns, name: str | None = None) -> list[tuple[str, ...]]:
    """One cell's curve, the published value as a dotted line; returns the plotted data."""
    found = band(cell)
    if found is None:
        return []
    label = Cell.of(cell.cell).label
    steps = found.env_steps / 1e6
    text = f"{name or algorithm_title(label)} (n = {found.n.max()})"
    axes.plot(steps, found.centre, color=colour(label), linestyle=dashes(label), label=text)
    axes.fill_between(steps, found.low, found.high, color=colour(label), alpha=0.18, linewidth=0)
    published = scores().get(cell.cell) if not cell.deviations else None
    if published is not None:
        axes.axhline(published.value, color=colour(label), linestyle=":", linewidth=1)
        # The published spread as a bar at the right, one beside the other.
        place = steps[-1] * (1.03 + 0.02 * len(axes.containers))
        axes.errorbar(place, published.value, published.spread, color=colour(label), linewidth=2.5, alpha=0.5)
    last = f"{published.value}" if published is not None else ""
    return [
        (cell.cell, f"{step:.0f}", f"{n}", *(f"{value:.6g}" for value in (centre, low, high)), last)
        for step, centre, low, high, n in zip(*found, strict=True)
    ]


def caption(cells: Sequence[CellRuns]) -> str:
    """What line and band are."""
    if scoring_of(cells[0].cell).statistic == "median":
        text = "line: median over seeds; band: quartiles"
    else:
        text = "line: mean over seeds; band: 95 % t interval"
    shown = any(cell.cell in scores() and cell.runs and not cell.deviations for cell in cells)
    return text + ("; dotted and bar: published value ± spread; no smoothing" if shown else "; no smoothing")


def mark_missing(axes: Axes, text: str = "not run") -> None:
    """A panel without data says so."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="#999999")
    axes.set_xticks([])
    axes.set_yticks([])


def note_missing(axes: Axes, cells: Iterable[CellRuns]) -> None:
    """Names the algorithms of a panel that were not run; the whole panel where none was."""
    missing = [Cell.of(cell.cell).title for cell in cells if band(cell) is None]
    if not axes.lines:
        mark_missing(axes)
    elif missing:
        text = f"not run: {', '.join(missing)}"
        axes.text(0.98, 0.03, text, transform=axes.transAxes, ha="right", fontsize=6, color="#888888")


def joint_legend(figure: Figure, panels: Iterable[Axes], columns: int = 6) -> None:
    """One legend above all panels; the same algorithm in several panels appears once, with its largest n."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            name, _, count = text.rpartition(" (n = ")
            if name not in handles or int(count[:-1]) > handles[name][1]:
                handles[name] = (handle, int(count[:-1]))
    if handles:
        figure.legend(
            [handle for handle, _ in handles.values()],
            [f"{name} (n = {count})" for name, (_, count) in handles.items()],
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncol=min(columns, len(handles)),
        )


def save(
    figure: Figure,
    out: Path,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    cells: Sequence[CellRuns] = (),
) -> None:
    """<out>.pdf, .png and .csv, with no date or program name inside, so that the same runs give the same files.

    Below the figure: which engine fought the battles of these cells, if there are any.
    """
    if engine := battles_by(cells):
        figure.text(0.5, 0.0, f"battles: {engine}", ha="center", va="top", fontsize=7, color="#666666")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out.with_suffix(".pdf"), metadata={"CreationDate": None, "Producer": None, "Creator": None})
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
