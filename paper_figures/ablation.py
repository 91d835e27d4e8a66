"""Two versions of FP3O side by side: curves, and the difference of their final scores with its interval."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.config import SHARINGS, Cell
from fp3o.statistics.intervals import summarise, welch
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import (
    CURVE_HEADER,
    METRIC_NAMES,
    Request,
    draw_curve,
    joint_legend,
    note_missing,
    save,
)


def draw(request: Request) -> None:
    """One panel per task and sharing; under the title the second minus the first, 95 % Welch interval."""
    cells = request.cells
    places = list(dict.fromkeys(Cell.of(cell.cell).row for cell in cells))
    across = min(3, len(places))
    down = -(-len(places) // across)
    figure, panels = plt.subplots(down, across, figsize=(3.1 * across, 2.2 * down), squeeze=False, layout="constrained")
    rows = []
    for axes, place in zip(panels.flat, places, strict=False):
        here = [cell for cell in cells if Cell.of(cell.cell).row == place]
        drawn = [row for cell in here for row in draw_curve(axes, cell)]
        rows += drawn
        title = f"{place[1]}, {SHARINGS[place[2]].name}"
        scores = [cell.scores() for cell in here]
        if len(scores) == 2 and all(len(values) > 1 for values in scores):
            found = welch(summarise(scores[1], "mean"), summarise(scores[0], "mean"))
            other = here[1].cell.partition("fp3o-")[2].replace("-", " ")
            title += f"\n{other} − FP3O: {found.difference:.4g} [{found.low:.4g}, {found.high:.4g}]"
        axes.set_title(title)
        note_missing(axes, here)
        if not drawn:
            continue
        axes.set_xlabel("environment steps (millions)")
        axes.set_ylabel(METRIC_NAMES[scoring_of(place[0]).metric])
    for axes in list(panels.flat)[len(places) :]:
        axes.set_visible(False)
    joint_legend(figure, panels.flat)
    save(figure, request.out, CURVE_HEADER, rows, request.cells)
