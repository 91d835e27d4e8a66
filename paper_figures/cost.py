"""Where the time goes, per cell: rollout, update, evaluation; then time and memory as multiples of MAPPO's, ours and
the paper's."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from fp3o.config import Cell
from fp3o.statistics.cost import Cost, cells_of, ratios, read, times
from fp3o.statistics.published import cell_title
from paper_figures.drawing import SMALL, SOFT, WIDTH, Request, save

PARTS = (("rollout", "#0072B2", ""), ("update", "#E69F00", "////"), ("evaluation", "#BBBBBB", "...."))


def draw(request: Request) -> None:
    """A line per cell of the suite's cost table, measured or not."""
    costs = {cost.cell: cost for cost in read(request.numbers)}
    cells = list(dict.fromkeys([*cells_of(request.data.suite), *costs]))
    places = {cell: place for place, cell in enumerate(cells)}
    size = (WIDTH, 0.9 + 0.145 * max(3, len(cells)))
    figure, (left, *others) = plt.subplots(
        1, 3, figsize=size, sharey=True, layout="constrained", width_ratios=(1.2 if costs else 0.4, 1, 1)
    )
    _bars(left, costs, places)
    seconds = {cell: cost.seconds.value for cell, cost in costs.items()}
    relative = {cell: one.iteration.value for cell, one in times(list(costs.values())).items()}
    compared = {
        "time (MAPPO = 1)": ratios(cells, seconds, "wallclock", relative),
        "memory (MAPPO = 1)": ratios(cells, {cell: cost.memory for cell, cost in costs.items()}, "memory"),
    }
    for axes, (title, rows) in zip(others, compared.items(), strict=True):
        for row in rows:
            if row.published_ratio is not None:
                axes.plot(row.published_ratio, places[row.cell], "D", color="black", markersize=4, fillstyle="none")
            if row.ours_ratio is not None:
                axes.plot(row.ours_ratio, places[row.cell], "o", color="#D55E00", markersize=4)
        axes.axvline(1, color="black", linewidth=0.6)
        axes.set_xlabel(title)
    (ours,) = others[0].plot([], [], "o", color="#D55E00", markersize=4)
    (theirs,) = others[0].plot([], [], "D", color="black", markersize=4, fillstyle="none")
    left.set_yticks(range(len(cells)), [cell_title(Cell.of(cell)) for cell in cells], fontsize=SMALL)
    left.set_ylim(max(1, len(cells)) - 0.5, -0.5)
    left.set_xlabel("seconds per iteration")
    handles = {name: patch for patch, name in zip(*left.get_legend_handles_labels(), strict=True)}
    handles |= {"ours": ours, "paper": theirs}
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncol=len(handles))
    columns = ("rollout", "update", "evaluation", "memory")
    lines = [(c.cell, *(f"{getattr(c, name):.6g}" for name in columns), c.host) for c in costs.values()]
    header = ("cell", "rollout_s", "update_s", "evaluation_s", "memory_mib", "host")
    note = "one seed alone; ratios of time without evaluation; memory of the process, on a GPU where there is one"
    save(figure, request.out, header, lines, note=note)


def _bars(axes: Axes, costs: dict[str, Cost], places: dict[str, int]) -> None:
    """Seconds of an iteration, stacked."""
    if not costs:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", fontsize=SMALL, color=SOFT)
        axes.set_xticks([])
        return
    rows = [places[cell] for cell in costs]
    start = np.zeros(len(costs))
    for name, hue, hatch in PARTS:
        seconds = np.array([getattr(cost, name) for cost in costs.values()])
        axes.barh(rows, seconds, left=start, color=hue, hatch=hatch, edgecolor="white", linewidth=0, label=name)
        start = start + seconds
