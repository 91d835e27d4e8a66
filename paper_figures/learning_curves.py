"""Learning curves: one panel per task (down) and sharing (across), one line per algorithm."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.config import SHARINGS, Cell, Row
from fp3o.statistics.published import scores
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import (
    CURVE_HEADER,
    METRIC_NAMES,
    Request,
    caption,
    draw_curve,
    joint_legend,
    note_missing,
    save,
)


def draw(request: Request) -> None:
    """Rows are tasks, columns sharings; with a single sharing the tasks are laid out in a grid of up to four across."""
    cells = request.cells
    places = list(dict.fromkeys(Cell.of(cell.cell).row for cell in cells))
    tasks = list(dict.fromkeys(place[:2] for place in places))
    sharings = list(dict.fromkeys(place[2] for place in places))
    if len(sharings) > 1:
        grid = [[Row(*task, sharing) for sharing in sharings] for task in tasks]
    else:
        grid = [[Row(*task, sharings[0]) for task in tasks[start : start + 4]] for start in range(0, len(tasks), 4)]
    down, across = len(grid), max(len(line) for line in grid)
    figure, panels = plt.subplots(down, across, figsize=(3.1 * across, 2.0 * down), squeeze=False, layout="constrained")
    titles = {Cell.of(entry.cell).row[:2]: entry.title for entry in scores().values()}
    rows = []
    for y in range(down):
        for x in range(across):
            axes = panels[y][x]
            if x >= len(grid[y]):
                axes.set_visible(False)
                continue
            place = grid[y][x]
            here = [cell for cell in cells if Cell.of(cell.cell).row == place]
            drawn = [row for cell in here for row in draw_curve(axes, cell)]
            rows += drawn
            axes.set_title(f"{titles.get(place[:2], place[1])}, {SHARINGS[place[2]].name}")
            note_missing(axes, here)
            if not drawn:
                continue
            if scoring_of(place[0]).metric == "win_rate":
                axes.set_ylim(-2, 102)
            if x == 0:
                axes.set_ylabel(METRIC_NAMES[scoring_of(place[0]).metric])
            if y == down - 1:
                axes.set_xlabel("environment steps (millions)")
    joint_legend(figure, panels.flat)
    figure.supxlabel(caption(cells), fontsize=7, color="#666666")
    save(figure, request.out, CURVE_HEADER, rows, request.cells)
