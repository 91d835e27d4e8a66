"""How often FP3O's condition agrees with the constraint it replaces, by rollout size and sharing."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import SHARINGS, Cell
from fp3o.statistics.intervals import wilson
from fp3o.statistics.matching import matching
from fp3o.statistics.published import task_title
from paper_figures.drawing import SMALL, SOFT, WIDTH, Request, empty, joint_legend, save

HATCHES = {"full": "", "partial": "////", "none": "...."}  # Two of the colours are the same in grey.


def draw(request: Request) -> None:
    """Grouped bars with Wilson intervals, one panel per task."""
    cells = request.cells
    tasks = list(dict.fromkeys(Cell.of(cell.cell).row[:2] for cell in cells))
    found = {cell.cell: matching(cell) for cell in cells}
    filled = [any(found[cell.cell][1] for cell in cells if Cell.of(cell.cell).row[:2] == task) for task in tasks]
    size = (WIDTH, 2.3 if any(filled) else 0.9)
    widths = [1.0 if some else 0.4 for some in filled]
    figure, (panels,) = plt.subplots(
        1, len(tasks), figsize=size, squeeze=False, layout="constrained", width_ratios=widths
    )
    rows = []
    for axes, task, some in zip(panels, tasks, filled, strict=True):
        here = [cell for cell in cells if Cell.of(cell.cell).row[:2] == task]
        sharings = list(dict.fromkeys(Cell.of(cell.cell).sharing for cell in here))
        sizes = sorted({int(cell.cell.rpartition("-")[2]) for cell in here})
        axes.set_title(task_title(*task))
        if not some:
            empty(axes)
            continue
        width = 0.8 / len(sharings)
        for cell in here:
            sharing, size_of_rollout = Cell.of(cell.cell).sharing, int(cell.cell.rpartition("-")[2])
            place = sizes.index(size_of_rollout) + (sharings.index(sharing) - (len(sharings) - 1) / 2) * width
            agree, total = found[cell.cell]
            if total == 0:
                axes.text(place, 1.5, "not run", ha="center", rotation=90, fontsize=SMALL, color=SOFT)
                continue
            share, (low, high, _) = agree / total, wilson(agree, total)
            error = np.array([[max(0.0, share - low)], [max(0.0, high - share)]]) * 100
            axes.bar(
                place,
                share * 100,
                width * 0.92,
                color=SHARINGS[sharing].colour,
                hatch=HATCHES.get(sharing, "xx"),
                edgecolor="white",
                linewidth=0,
                yerr=error,
                error_kw={"linewidth": 0.8, "capsize": 1.5},
                label=SHARINGS[sharing].name,
            )
            rows.append(
                (cell.cell, size_of_rollout, agree, total, *(f"{100 * value:.4g}" for value in (share, low, high)))
            )
        axes.set_xticks(range(len(sizes)), [str(each) for each in sizes])
        axes.set_xlabel("rollout size (steps × agents)")
        axes.set_ylabel("matching degree (%)")
        axes.set(xlim=(-0.6, len(sizes) - 0.4), ylim=(0, 105))
        axes.grid(axis="x", visible=False)
    joint_legend(figure, panels)
    note = "bar: share of all seeds' iterations in which condition and constraint agree; line: 95 % Wilson interval"
    header = ("cell", "size", "agree", "iterations", "percent", "low", "high")
    save(figure, request.out, header, rows, cells, note if rows else "")
