"""How much seeds differ while they train: curves, and their standard deviation with a bootstrap band."""

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

REPLICATES = 500
NOTE = "right: standard deviation over seeds; band: 5th to 95th percentile of 500 redraws of the seeds"


def draw(request: Request) -> None:
    """Left the learning curves, right the deviation over seeds."""
    cells = request.cells
    figure, ((left, right),) = panels([[any(cell.runs for cell in cells)] * 2], tall=1.6)
    generator = np.random.default_rng(0)
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
        redrawn = curves[generator.integers(0, len(curves), (REPLICATES, len(curves)))].std(1, ddof=1)
        low, high = np.quantile(redrawn, [0.05, 0.95], axis=0)
        right.plot(steps / 1e6, spread, **style)
        right.fill_between(steps / 1e6, low, high, color=style["color"], alpha=0.12, linewidth=0)
        rows += [
            (cell.cell, f"{step:.0f}", len(curves), *(f"{value:.6g}" for value in values))
            for step, *values in zip(steps, spread, low, high, strict=True)
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
    header = ("cell", "env_steps", "n", "deviation", "low", "high")
    save(figure, request.out, header, rows, cells, f"left: {caption(cells)}; {NOTE}" if left.lines else "")
