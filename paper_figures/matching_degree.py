"""How often FP3O's condition agrees with the constraint it replaces, by rollout size and sharing."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import SHARINGS, Cell
from fp3o.statistics.claims import matching
from fp3o.statistics.intervals import wilson
from paper_figures.drawing import Request, mark_missing, save


def draw(request: Request) -> None:
    """Grouped bars with Wilson intervals, one panel per task."""
    cells = request.cells
    tasks = list(dict.fromkeys(Cell.of(cell.cell).task for cell in cells))
    figure, panels = plt.subplots(1, len(tasks), figsize=(3.6 * len(tasks), 2.4), squeeze=False, layout="constrained")
    rows = []
    for axes, task in zip(panels[0], tasks, strict=True):
        here = [cell for cell in cells if Cell.of(cell.cell).task == task]
        sharings = list(dict.fromkeys(Cell.of(cell.cell).sharing for cell in here))
        sizes = sorted({int(cell.cell.rpartition("-")[2]) for cell in here})
        drawn = False
        for cell in here:
            sharing, size = Cell.of(cell.cell).sharing, int(cell.cell.rpartition("-")[2])
            agree, total = matching(cell)
            if total == 0:
                continue
            share, (low, high, _) = agree / total, wilson(agree, total)
            width = 0.8 / len(sharings)
            place = sizes.index(size) + (sharings.index(sharing) - (len(sharings) - 1) / 2) * width
            error = np.array([[max(0.0, share - low)], [max(0.0, high - share)]]) * 100
            name = SHARINGS[sharing].name
            known = axes.get_legend_handles_labels()[1]
            axes.bar(
                place,
                share * 100,
                width * 0.92,
                color=SHARINGS[sharing].colour,
                yerr=error,
                error_kw={"linewidth": 0.8, "capsize": 1.5},
                label=None if name in known else name,
            )
            drawn = True
            rows.append((cell.cell, size, agree, total, *(f"{100 * value:.4g}" for value in (share, low, high))))
        axes.set_title(task, y=1.0)
        if not drawn:
            mark_missing(axes)
            continue
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_xlabel("rollout size (steps × agents)")
        axes.set_ylabel("matching degree (%)")
        axes.set_ylim(0, 105)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), ncol=3)
    save(figure, request.out, ("cell", "size", "agree", "iterations", "percent", "low", "high"), rows, request.cells)
