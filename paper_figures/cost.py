"""Where the time goes, per cell: rollout, update, evaluation; beside it the ratio to MAPPO, ours and the paper's."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.statistics.cost import ratios, read
from paper_figures.drawing import Request, mark_missing, save

PARTS = (("rollout", "#0072B2"), ("update", "#E69F00"), ("evaluation", "#BBBBBB"))


def draw(request: Request) -> None:
    """Stacked bars of seconds per iteration; ratios as points."""
    costs = read(request.numbers)
    height = 1.2 + 0.22 * max(3, len(costs))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, height), sharey=True, layout="constrained")
    places = np.arange(len(costs))
    start = np.zeros(len(costs))
    for name, hue in PARTS:
        seconds = np.array([getattr(cost, name) for cost in costs])
        left.barh(places, seconds, left=start, color=hue, label=name)
        start = start + seconds
    cells = [cost.cell for cost in costs]
    found = {row.cell: row for row in ratios(cells, costs, lambda cost: cost.seconds, "wallclock")}
    for place, cost in zip(places, costs, strict=True):
        row = found[cost.cell]
        if row.ours_ratio is not None:
            right.plot(row.ours_ratio, place, "o", color="#D55E00", markersize=5)
        if row.published_ratio is not None:
            right.plot(row.published_ratio, place, "D", color="black", markersize=4, fillstyle="none")
    right.plot([], [], "o", color="#D55E00", label="ours")
    right.plot([], [], "D", color="black", fillstyle="none", label="paper")
    right.axvline(1, color="black", linewidth=0.8)
    left.set_yticks(places, [cost.cell for cost in costs], fontsize=6)
    left.set_ylim(max(1, len(costs)) - 0.5, -0.5)
    left.set_xlabel("seconds per iteration")
    right.set_xlabel("time relative to MAPPO")
    for axes in (left, right):
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3)
        if not costs:
            mark_missing(axes)
    rows = [(cost.cell, *(f"{getattr(cost, name):.6g}" for name, _ in PARTS), cost.device) for cost in costs]
    save(figure, request.out, ("cell", "rollout_s", "update_s", "evaluation_s", "device"), rows)
