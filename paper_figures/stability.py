"""How much seeds differ while they train: curves, and their standard deviation with a bootstrap band."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import Cell, algorithm_title
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import METRIC_NAMES, Request, colour, dashes, draw_curve, joint_legend, mark_missing, save

REPLICATES = 500


def draw(request: Request) -> None:
    """Left the learning curves, right the deviation over seeds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.6), layout="constrained")
    generator = np.random.default_rng(0)
    rows = []
    for cell in request.cells:
        draw_curve(left, cell)
        length = min((len(run.curve.value) for run in cell.runs), default=0)
        if len(cell.runs) < 2 or length == 0:
            continue
        label = Cell.of(cell.cell).label
        curves = np.stack([run.curve.value[:length] for run in cell.runs])  # [seeds, E]
        steps = cell.runs[0].curve.env_steps[:length]
        spread = curves.std(0, ddof=1)
        redrawn = curves[generator.integers(0, len(curves), (REPLICATES, len(curves)))].std(1, ddof=1)
        low, high = np.quantile(redrawn, [0.05, 0.95], axis=0)
        right.plot(steps / 1e6, spread, color=colour(label), linestyle=dashes(label), label=algorithm_title(label))
        right.fill_between(steps / 1e6, low, high, color=colour(label), alpha=0.15, linewidth=0)
        rows += [
            (cell.cell, f"{step:.0f}", len(curves), *(f"{value:.6g}" for value in values))
            for step, *values in zip(steps, spread, low, high, strict=True)
        ]
    name = METRIC_NAMES[scoring_of(request.cells[0].cell).metric]
    for axes, title in ((left, name), (right, "deviation over seeds")):
        axes.set_ylabel(title)
        axes.set_xlabel("environment steps (millions)")
        if not axes.lines:
            mark_missing(axes)
    if scoring_of(request.cells[0].cell).metric == "win_rate" and left.lines:
        left.set_ylim(-2, 102)
    joint_legend(figure, [left])
    save(figure, request.out, ("cell", "env_steps", "n", "deviation", "low", "high"), rows, request.cells)
