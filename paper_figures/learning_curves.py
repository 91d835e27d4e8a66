"""Learning curves: one panel per task (down) and sharing (across), one line per algorithm."""

from __future__ import annotations

from fp3o.config import Cell, Row
from fp3o.statistics.curves import band
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import (
    CURVE_HEADER,
    TALL,
    Request,
    caption,
    draw_curve,
    joint_legend,
    label_axes,
    note_missing,
    panels,
    revision,
    save,
    show_late,
)


def draw(request: Request) -> None:
    """Rows are tasks, columns sharings; with a single sharing the tasks are laid out in a grid of up to four across."""
    cells = request.filled(request.cells)
    places = list(dict.fromkeys(Cell.of(cell.cell).row for cell in cells))
    tasks = list(dict.fromkeys(place[:2] for place in places))
    sharings = list(dict.fromkeys(place.sharing for place in places))
    several = len(sharings) > 1
    if several:
        layout = [[Row(*task, sharing) for sharing in sharings] for task in tasks]
    else:
        layout = [[Row(*task, sharings[0]) for task in tasks[start : start + 4]] for start in range(0, len(tasks), 4)]
    of_row = {place: [cell for cell in cells if Cell.of(cell.cell).row == place] for line in layout for place in line}
    filled = [[any(band(cell) for cell in of_row[place]) for place in line] for line in layout]
    figure, grid = panels(
        filled, TALL if len(of_row) > 1 else 1.7, title_lines=2 if several or any(map(revision, of_row.values())) else 1
    )
    rows = []
    for line, places_of_line in zip(grid, layout, strict=True):
        for axes, place in zip(line, places_of_line, strict=True):
            here = of_row[place]
            title = row_title(place).replace(", ", "\n") if several else row_title(place)
            axes.set_title(title + (", " if several else "\n") * bool(revision(here)) + revision(here))
            axes.set_visible(bool(here))
            if here:
                rows += [row for cell in here for row in draw_curve(axes, cell)]
                show_late(axes, here)
                note_missing(axes, here)
    label_axes(grid, filled, [[scoring_of(place.domain).metric for place in line] for line in layout])
    joint_legend(figure, [axes for line in grid for axes in line])
    save(figure, request.out, CURVE_HEADER, rows, cells, caption(cells))
