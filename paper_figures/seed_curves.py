"""Every seed by itself, one panel per algorithm: which seeds learn and which stay where they began."""

from __future__ import annotations

from fp3o.config import Cell, algorithm_title
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import DASHES, PALETTE, Request, empty, is_early, joint_legend, label_axes, panels, save


def draw(request: Request) -> None:
    """One colour and dash per seed, the same in all panels; a seed that ends at a win rate of 0 has a cross."""
    cells = request.filled(request.cells)
    filled = [[any(len(run.curve.value) for run in cell.runs) for cell in cells]]
    figure, grid = panels(filled)
    rows = []
    for axes, cell in zip(grid[0], cells, strict=True):
        name = Cell.of(cell.cell)
        lines = [algorithm_title(name.label), row_title(name.row)]
        wins = scoring_of(cell.cell).metric == "win_rate"
        stuck = 0
        for run in cell.runs:
            steps, values = run.curve.env_steps / 1e6, run.curve.value
            if not len(values):
                continue
            dead = wins and values[-1] == 0
            stuck += bool(dead)
            hue = PALETTE[run.seed % len(PALETTE)]
            text = f"seed {run.seed}"
            axes.plot(steps, values, color=hue, linestyle=DASHES[run.seed % len(DASHES)], linewidth=0.9, label=text)
            axes.plot(steps[-1:], values[-1:], "x" if dead else ".", color=hue, clip_on=False, zorder=3)
            rows += [
                (cell.cell, run.seed, f"{step:.0f}", f"{value:.6g}")
                for step, value in zip(run.curve.env_steps, values, strict=True)
            ]
        if not axes.lines:
            empty(axes, [cell])
        elif wins:
            axes.set_ylim(-3, 103)
            lines[0] += f": {stuck} of {len(cell.runs)} seeds end at 0"
            lines += ["a tenth of the steps"] if is_early(cell) else []
        axes.set_title("\n".join(lines))
    label_axes(grid, filled, [[scoring_of(cell.cell).metric for cell in cells]])
    joint_legend(figure, grid[0])
    note = "line: one seed; cross: it ends at a win rate of 0; no smoothing" if rows else ""
    save(figure, request.out, ("cell", "seed", "env_steps", "value"), rows, cells, note)
