"""Every seed by itself, one panel per algorithm: which seeds learn and which stay where they began."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.config import SHARINGS, Cell, algorithm_title
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import METRIC_NAMES, Request, colour, mark_missing, save


def draw(request: Request) -> None:
    """Thin lines; a seed that ends at a win rate of 0 is grey and marked."""
    cells = request.cells
    figure, panels = plt.subplots(
        1, len(cells), figsize=(2.9 * len(cells), 2.2), squeeze=False, sharey=True, layout="constrained"
    )
    rows = []
    for axes, cell in zip(panels[0], cells, strict=True):
        _, task, sharing, label = Cell.of(cell.cell).parts
        axes.set_title(f"{algorithm_title(label)}: {task}, {SHARINGS[sharing].name}")
        metric = scoring_of(cell.cell).metric
        stuck = 0
        for run in cell.runs:
            steps, values = run.curve.env_steps / 1e6, run.curve.value
            if not len(values):
                continue
            dead = metric == "win_rate" and values[-1] == 0
            stuck += bool(dead)
            axes.plot(steps, values, color="#888888" if dead else colour(label), linewidth=0.9, alpha=0.9)
            axes.plot(steps[-1:], values[-1:], "x" if dead else ".", color="#333333" if dead else colour(label))
            rows += [
                (cell.cell, run.seed, f"{step:.0f}", f"{value:.6g}")
                for step, value in zip(run.curve.env_steps, values, strict=True)
            ]
        if not cell.runs:
            mark_missing(axes)
            continue
        if metric == "win_rate":
            axes.set_ylim(-3, 103)
            axes.text(0.02, 0.95, f"{stuck} of {len(cell.runs)} seeds end at 0", transform=axes.transAxes, va="top")
        axes.set_xlabel("environment steps (millions)")
    panels[0][0].set_ylabel(METRIC_NAMES[scoring_of(cells[0].cell).metric])
    save(figure, request.out, ("cell", "seed", "env_steps", "value"), rows, request.cells)
