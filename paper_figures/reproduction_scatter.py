"""Ours against the paper's, all cells at once: one point per cell."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from fp3o.config import Cell, algorithm_title
from fp3o.config.domains import DOMAINS
from fp3o.statistics.compare import Comparison
from fp3o.statistics.scorecard import compared_cells
from paper_figures.drawing import COLUMN, WIDTH, Request, colour, empty, joint_legend, marker, save


def draw(request: Request) -> None:
    """Published against ours on the diagonal, one panel per domain."""
    found = [(Cell.of(entry.cell), entry.comparison) for entry in compared_cells(request.data) if entry.comparison]
    domains = list(dict.fromkeys(cell.domain for cell, _ in found)) or [""]
    width = COLUMN if len(domains) == 1 else WIDTH
    size = (width, (width / len(domains) if len(domains) > 1 else 2.4) + 0.3 if found else 0.9)
    figure, (panels,) = plt.subplots(1, len(domains), figsize=size, squeeze=False, layout="constrained")
    rows = []
    for axes, domain in zip(panels, domains, strict=True):
        here = [(cell, comparison) for cell, comparison in found if cell.domain == domain]
        if not here:
            empty(axes, text="nothing to compare yet")
            continue
        for cell, comparison in here:
            _point(axes, cell.label, comparison)
            ours, theirs = comparison.ours, comparison.published
            numbers = (theirs.value, theirs.spread or 0.0, ours.centre, ours.spread)
            rows.append((cell.id, *(f"{value:.6g}" for value in numbers), ours.n))
        # By the points: published bars may be many times as long as they are apart.
        values = [value for _, comparison in here for value in (comparison.published.value, comparison.ours.centre)]
        low, high = min(values), max(values)
        room = 0.08 * (high - low or 1.0)
        axes.plot([low - room, high + room], [low - room, high + room], color="black", linewidth=0.6)
        axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room), xlabel="published", ylabel="ours")
        axes.set_title(DOMAINS[domain].title)
    joint_legend(figure, panels)
    note = "point: a cell, with the standard deviations of both; line: equal" if rows else ""
    save(figure, request.out, ("cell", "published", "published_spread", "ours", "spread", "n"), rows, note=note)


def _point(axes: Axes, label: str, found: Comparison) -> None:
    axes.errorbar(
        found.published.value,
        found.ours.centre,
        xerr=found.published.spread,
        yerr=found.ours.spread,
        fmt=marker(label),
        markersize=3.5,
        linewidth=0.5,
        color=colour(label),
        label=algorithm_title(label),
    )
