"""How often FP3O's condition agrees with the constraint it replaces, by rollout size and sharing."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import SHARINGS, Cell
from fp3o.statistics.intervals import share_interval
from fp3o.statistics.matching import matching
from fp3o.statistics.published import task_title
from paper_figures.drawing import SMALL, SOFT, WIDTH, Request, empty, joint_legend, save

HATCHES = {"full": "", "partial": "////", "none": "...."}  # Two of the colours are the same in grey.


def draw(request: Request) -> None:
    """Grouped bars with intervals over seeds, one panel per task; a line at what a constant answer scores."""
    cells = request.cells
    tasks = list(dict.fromkeys(Cell.of(cell.cell).row[:2] for cell in cells))
    found = {cell.cell: matching(cell) for cell in cells}
    filled = [any(found[cell.cell] for cell in cells if Cell.of(cell.cell).row[:2] == task) for task in tasks]
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
        lowest = 100.0
        for cell in here:
            sharing, size_of_rollout = Cell.of(cell.cell).sharing, int(cell.cell.rpartition("-")[2])
            place = sizes.index(size_of_rollout) + (sharings.index(sharing) - (len(sharings) - 1) / 2) * width
            seeds = found[cell.cell]
            if not seeds:
                axes.annotate(
                    "not run",
                    (place, 0.02),
                    xycoords=("data", "axes fraction"),
                    ha="center",
                    rotation=90,
                    fontsize=SMALL,
                    color=SOFT,
                )
                continue
            degrees, iterations = [one.degree for one in seeds], sum(one.total for one in seeds)
            share, interval = 100 * float(np.mean(degrees)), share_interval(degrees, iterations)
            low, high = (100 * interval.low, 100 * interval.high) if len(seeds) > 1 else (share, share)
            constant = 100 * float(np.mean([one.constant for one in seeds]))
            kappa = float(np.mean([one.kappa for one in seeds]))
            lowest = min(lowest, low, constant)
            error = np.array([[max(0.0, share - low)], [max(0.0, high - share)]])
            axes.plot([place - width / 2, place + width / 2], [constant] * 2, color="black", linewidth=1.2)
            axes.bar(
                place,
                share,
                width * 0.92,
                color=SHARINGS[sharing].colour,
                hatch=HATCHES.get(sharing, "xx"),
                edgecolor="white",
                linewidth=0,
                yerr=error,
                error_kw={"linewidth": 0.8, "capsize": 1.5},
                label=SHARINGS[sharing].name,
            )
            counts = (sum(one.agree for one in seeds), sum(one.total for one in seeds), len(seeds))
            numbers = (share, low, high, constant, kappa)
            rows.append((cell.cell, size_of_rollout, *counts, *(f"{value:.4g}" for value in numbers)))
        axes.set_xticks(range(len(sizes)), [str(each) for each in sizes])
        axes.set_xlabel("rollout size (steps × agents)")
        axes.set_ylabel("matching degree (%)")
        room = max(0.5, 100 - lowest)  # The axis begins where the data do: degrees are near 100.
        axes.set(xlim=(-0.6, len(sizes) - 0.4), ylim=(max(0.0, lowest - 0.3 * room), 100 + 0.05 * room))
        axes.grid(axis="x", visible=False)
    joint_legend(figure, panels)
    note = (
        "bar: share of iterations in which condition and constraint agree, mean over seeds; line: Wilson's 95 % "
        "interval over seeds; black: what the better constant answer (always or never go) would score; "
        "the axis does not begin at 0"
    )
    header = ("cell", "size", "agree", "iterations", "seeds", "percent", "low", "high", "constant", "kappa")
    save(figure, request.out, header, rows, cells, note if rows else "")
