"""Two versions of FP3O side by side: curves, and the difference of their final scores with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from fp3o.config import Cell
from fp3o.statistics.curves import band
from fp3o.statistics.intervals import median_difference, summarise, welch
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import CellRuns, scoring_of
from fp3o.statistics.tables.columns import CONTROL
from paper_figures.drawing import (
    CURVE_HEADER,
    Request,
    caption,
    draw_curve,
    joint_legend,
    label_axes,
    note_missing,
    panels,
    save,
    show_late,
)

NOTE = (
    "Δ: final score of the variant minus FP3O's; of means with its 95 % Welch interval, of medians "
    "with an interval from the order statistics of both and what it covers at least"
)


def draw(request: Request) -> None:
    """One panel per task and sharing, up to three across."""
    cells = request.filled(with_control(request))
    places = list(dict.fromkeys(Cell.of(cell.cell).row for cell in cells))
    layout = [places[start : start + 3] for start in range(0, len(places), 3)]
    of_row = {place: [cell for cell in cells if Cell.of(cell.cell).row == place] for place in places}
    filled = [[any(band(cell) for cell in of_row[place]) for place in line] for line in layout]
    figure, grid = panels(filled)
    rows = []
    for line, places_of_line in zip(grid, layout, strict=True):
        for axes, place in zip(line, places_of_line, strict=True):
            here = of_row[place]
            rows += [row for cell in here for row in draw_curve(axes, cell)]
            axes.set_title("\n".join([row_title(place), *difference(here)]))
            show_late(axes, here)
            note_missing(axes, here)
    label_axes(grid, filled, [[scoring_of(place.domain).metric for place in line] for line in layout])
    joint_legend(figure, [axes for line in grid for axes in line])
    said = [NOTE] if any(difference(here) for here in of_row.values()) else []
    save(figure, request.out, CURVE_HEADER, rows, cells, "; ".join([caption(cells), *said]))


def with_control(request: Request) -> list[CellRuns]:
    """The figure's cells; beside FP3O without its dependent step, which halves its updates, MAPPO with as many as FP3O
    makes: without it, a second step could not be told from more updates."""
    found = []
    for cell in request.cells:
        found.append(cell)
        control = f"{Cell.of(cell.cell).row}/{CONTROL}"
        if Cell.of(cell.cell).label == "fp3o-independent" and control in request.data.cells:
            found.append(request.data.cells[control])
    return found


def difference(cells: Sequence[CellRuns]) -> list[str]:
    """The second cell's score minus the first one's, by the statistic that is drawn; nothing below two seeds each."""
    scores = [cell.scores() for cell in cells[:2]]
    if len(scores) != 2 or any(len(values) < 2 for values in scores):
        return []
    if scoring_of(cells[0].cell).statistic == "median":
        centre, (low, high, coverage) = median_difference(scores[1], scores[0])
        covers = f", {100 * coverage:.0f} %"
    else:
        test = welch(summarise(scores[1], "mean"), summarise(scores[0], "mean"))
        centre, (low, high, _), covers = test.value, test.interval(), ""
    return [f"Δ {centre:.3g} [{low:.3g}, {high:.3g}]{covers}".replace("-", "−")]
