"""Ours against the paper's, all cells at once: one point per cell."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.config import Cell, algorithm_title
from fp3o.statistics.scorecard import compared_cells
from paper_figures.drawing import Request, colour, mark_missing, save


def draw(request: Request) -> None:
    """Published against ours on the diagonal, one panel per domain."""
    entries = compared_cells(request.data)
    domains = list(dict.fromkeys(Cell.of(entry.cell).domain for entry in entries)) or ["none"]
    figure, panels = plt.subplots(
        1, len(domains), figsize=(3.4 * len(domains), 3.2), squeeze=False, layout="constrained"
    )
    rows = []
    for axes, domain in zip(panels[0], domains, strict=True):
        for entry in entries:
            found = entry.comparison
            if found is None or not entry.cell.startswith(f"{domain}/"):
                continue
            label = Cell.of(entry.cell).label
            axes.errorbar(
                found.published.value,
                found.ours.centre,
                xerr=found.published.spread,
                yerr=found.ours.spread,
                fmt="o",
                markersize=3.5,
                linewidth=0.7,
                color=colour(label),
                label=algorithm_title(label),
            )
            numbers = (found.published.value, found.published.spread or 0.0, found.ours.centre, found.ours.spread)
            rows.append((entry.cell, *(f"{value:.6g}" for value in numbers), found.ours.n))
        if not entries:
            mark_missing(axes, "nothing to compare yet")
            continue
        low, high = (f(*axes.get_xlim(), *axes.get_ylim()) for f in (min, max))
        axes.plot([low, high], [low, high], color="black", linewidth=0.7)
        axes.set_title(domain)
        axes.set_xlabel("published")
        axes.set_ylabel("ours")
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(handles.values(), handles.keys(), loc="upper left")
    save(figure, request.out, ("cell", "published", "published_spread", "ours", "spread", "n"), rows)
