"""How much seeds differ while they train: curves, and their standard deviation."""

from __future__ import annotations

import numpy as np

from fp3o.config import Cell
from fp3o.statistics.curves import METRIC_NAMES
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import (
    FEWEST_SEEDS,
    Request,
    caption,
    draw_curve,
    empty,
    joint_legend,
    line_style,
    note_missing,
    panels,
    save,
    show_late,
)

NOTE = "right: standard deviation over seeds, of five runs known to about a factor of two"


def draw(request: Request) -> None:
    """Left the learning curves, right the deviation over seeds."""
    cells = request.filled(request.cells)
    figure, ((left, right),) = panels([[any(cell.runs for cell in cells)] * 2], tall=1.6)
    rows = []
    for cell in cells:
        draw_curve(left, cell)
        length = min((len(run.curve.value) for run in cell.runs), default=0)
        if len(cell.runs) < FEWEST_SEEDS or length == 0:
            continue
        style = line_style(Cell.of(cell.cell).label, length)
        curves = np.stack([run.curve.value[:length] for run in cell.runs])  # [seeds, E]
        steps = cell.runs[0].curve.env_steps[:length]
        spread = curves.std(0, ddof=1)
        right.plot(steps / 1e6, spread, **style)
        rows += [
            (cell.cell, f"{step:.0f}", len(curves), f"{value:.6g}") for step, value in zip(steps, spread, strict=True)
        ]
    left.set_title(row_title(Cell.of(cells[0].cell).row))
    right.set_title("deviation over seeds")
    show_late(left, cells)
    note_missing(left, cells)
    if not right.lines:
        empty(right, text=f"no cell with {FEWEST_SEEDS} seeds")
    metric = METRIC_NAMES[scoring_of(cells[0].cell).metric]
    for axes, title in ((left, metric), (right, f"standard deviation, {metric}")):
        if axes.lines:
            axes.set_ylabel(title)
            axes.set_xlabel("environment steps (millions)")
    joint_legend(figure, [left])
    header = ("cell", "env_steps", "n", "deviation")
    save(figure, request.out, header, rows, cells, f"left: {caption(cells)}; {NOTE}" if left.lines else "")
