"""Scores over the values of a setting, from a suite's grid: a panel per task and sharing, a line per other setting."""

from __future__ import annotations

from collections.abc import Sequence

from fp3o.config import SHARINGS, Cell, Row, algorithm_title, variant_settings
from fp3o.fields import Scalar, shown
from fp3o.statistics.curves import METRIC_NAMES
from fp3o.statistics.scores import CellRuns, scoring_of
from paper_figures.drawing import (
    DASHES,
    Request,
    colour,
    empty,
    joint_legend,
    marker,
    panels,
    save,
    score_with_interval,
)

HEADER = ("cell", "setting", "value", "n", "score", "low", "high")
ACROSS = 3  # panels in a line


def draw(request: Request) -> None:
    """Across: the first setting with several values; lines: the algorithms, and the values of the others."""
    places: dict[Row, list[CellRuns]] = {}
    for cell in request.cells:
        places.setdefault(Cell.of(cell.cell).row, []).append(cell)
    setting = swept(request.cells)
    run = [any(cell.runs for cell in cells) for cells in places.values()]
    figure, grid = panels([run[start : start + ACROSS] for start in range(0, len(run), ACROSS)])
    flat = [panel for line in grid for panel in line]
    rows: list[tuple[str, ...]] = []
    for panel, (row, cells) in zip(flat, places.items(), strict=True):
        points_of = {cell.cell: point_of(cell, cells) for cell in cells}
        values = sorted({point[setting] for point in points_of.values() if setting in point}, key=_order)
        lines: dict[tuple[str, str], list[tuple[int, CellRuns]]] = {}
        for cell in cells:
            point = points_of[cell.cell]
            if setting in point and cell.scores():
                others = ", ".join(f"{name} {value}" for name, value in point.items() if name != setting)
                key = (Cell.of(cell.cell).algorithm, others)
                lines.setdefault(key, []).append((values.index(point[setting]), cell))
        styles: dict[str, int] = {}
        for (algorithm, others), points in lines.items():
            points.sort(key=lambda point: point[0])
            style = styles[algorithm] = styles.get(algorithm, -1) + 1
            found = [score_with_interval(cell) for _, cell in points]
            most = max(len(cell.scores()) for _, cell in points)
            below = [max(0.0, centre - low) for centre, low, _ in found]
            above = [max(0.0, high - centre) for centre, _, high in found]
            panel.errorbar(
                [place for place, _ in points],
                [centre for centre, _, _ in found],
                [below, above],
                color=colour(algorithm),
                linestyle=DASHES[style % len(DASHES)],
                marker=marker(algorithm),
                markersize=3,
                capsize=2,
                label=f"{algorithm_title(algorithm)}{f', {others}' if others else ''} (n = {most})",
            )
            for (_, cell), numbers in zip(points, found, strict=True):
                count, value = str(len(cell.scores())), str(points_of[cell.cell][setting])
                rows.append((cell.cell, setting, value, count, *(f"{number:.6g}" for number in numbers)))
        panel.set_title(f"{row.task}, {SHARINGS[row.sharing].name}")
        if not lines:
            empty(panel, cells)
            continue
        panel.set_xticks(range(len(values)), [str(value) for value in values])
        panel.set_xlabel(setting.replace("_", " "))
        panel.set_ylabel(METRIC_NAMES[scoring_of(row.domain).metric])
    joint_legend(figure, flat)
    save(figure, request.out, HEADER, rows, request.cells, "bar: 95 % interval over seeds")


def point_of(cell: CellRuns, others: Sequence[CellRuns] = ()) -> dict[str, Scalar]:
    """The settings that the cell's variant stands for. A cell without one stands for the values of its runs, of what
    other cells of its algorithm vary: a grid's point with the task's own values is the cell without the grid."""
    name = Cell.of(cell.cell)
    if name.variant or not cell.runs:
        return dict(variant_settings(name.algorithm, name.variant) or {}) if name.variant else {}
    varied = [key for other in others if Cell.of(other.cell).algorithm == name.algorithm for key in point_of(other)]
    document = cell.runs[0].document
    given = {**document["settings"], **document["options"]}
    return {key: shown(given[key]) for key in dict.fromkeys(varied) if key in given}


def swept(cells: list[CellRuns]) -> str:
    """The first setting that has several values; the first at all where none has."""
    seen: dict[str, set[Scalar]] = {}
    for cell in cells:
        for name, value in point_of(cell).items():
            seen.setdefault(name, set()).add(value)
    return next((name for name, values in seen.items() if len(values) > 1), next(iter(seen), ""))


def _order(value: Scalar) -> tuple[float, str]:
    """Numbers by size, then texts."""
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), str(value)
