"""Scores over the number of epochs that policies are trained on each rollout: is it the algorithm, or the updates?"""

from __future__ import annotations

from typing import Any

from fp3o.config import Cell, Row, algorithm_title, resolve
from fp3o.statistics.curves import METRIC_NAMES
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import CellRuns, scoring_of
from paper_figures.drawing import Request, colour, empty, joint_legend, marker, panels, save, score_with_interval

HEADER = ("cell", "epochs", "n", "score", "low", "high")
ACROSS = 3  # panels in a line
APART = 0.04  # between the marks of two algorithms, as a share of the axis


def draw(request: Request) -> None:
    """A panel per task and sharing of which two cells or more were run, a line per algorithm, a dot per seed."""
    places: dict[Row, list[CellRuns]] = {}
    for cell in request.cells:
        places.setdefault(Cell.of(cell.cell).row, []).append(cell)
    run = {row: cells for row, cells in places.items() if sum(bool(cell.runs) for cell in cells) > 1}
    drawn = list((run or dict(list(places.items())[:1])).items())
    lines = [[bool(run)] * len(drawn[start : start + ACROSS]) for start in range(0, len(drawn), ACROSS)]
    figure, grid = panels(lines, title_lines=2)
    flat = [panel for line in grid for panel in line]
    rows: list[tuple[str, ...]] = []
    for panel, (row, cells) in zip(flat, drawn, strict=True):
        panel.set_title(row_title(row).replace(", ", "\n"))
        by_algorithm: dict[str, list[tuple[int, CellRuns]]] = {}
        for cell in cells:
            if cell.runs:
                by_algorithm.setdefault(Cell.of(cell.cell).algorithm, []).append((epochs_of(cell.cell), cell))
        if not by_algorithm:
            empty(panel, cells)
            continue
        ticks = sorted({epochs for points in by_algorithm.values() for epochs, _ in points})
        for place, (algorithm, points) in enumerate(by_algorithm.items()):
            points.sort(key=lambda point: point[0])
            style: dict[str, Any] = {"color": colour(algorithm), "marker": marker(algorithm)}
            shift = APART * (ticks[-1] - ticks[0]) * (place - (len(by_algorithm) - 1) / 2)
            across, centres, bars = [], [], []
            for epochs, cell in points:
                centre, low, high = score_with_interval(cell)
                seeds = cell.scores()
                panel.plot([epochs + shift] * len(seeds), seeds, **style, linestyle="", markersize=2, alpha=0.35)
                across.append(epochs + shift)
                centres.append(centre)
                bars.append((max(0.0, centre - low), max(0.0, high - centre)))
                numbers = (f"{number:.6g}" for number in (centre, low, high))
                rows.append((cell.cell, str(epochs), str(len(seeds)), *numbers))
            most = max(len(cell.scores()) for _, cell in points)
            label = f"{algorithm_title(algorithm)} (n = {most})"
            panel.errorbar(
                across, centres, list(zip(*bars, strict=True)), **style, markersize=4, capsize=2, label=label
            )
        panel.margins(x=0.15)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.set_xlabel("epochs per rollout")
        panel.set_ylabel(METRIC_NAMES[scoring_of(row.domain).metric])
    joint_legend(figure, flat)
    save(figure, request.out, HEADER, rows, request.cells, "bar: 95 % interval over seeds; small: seeds")


def epochs_of(cell: str) -> int:
    """Passes over a rollout in which policies are trained: of FP3O in its two steps together."""
    settings = resolve(Cell.parse(cell)).settings
    return int(settings.epochs) + int(getattr(settings, "epochs_dependent", 0))
