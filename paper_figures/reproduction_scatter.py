"""Ours against the paper's, all cells at once: one point per cell."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from fp3o.config import Cell, algorithm_title
from fp3o.config.domains import DOMAINS
from fp3o.statistics.compare import Comparison
from fp3o.statistics.scorecard import compared_cells, scale
from paper_figures.drawing import COLUMN, WIDTH, Request, colour, empty, face, joint_legend, marker, save


def draw(request: Request) -> None:
    """Published against ours on the diagonal, one panel per domain; scaled per task, so that none is squashed."""
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
            _point(axes, cell, comparison)
            ours, theirs = comparison.ours, comparison.published
            numbers = (theirs.value, theirs.spread or 0.0, ours.centre, ours.spread)
            rows.append((cell.id, *(f"{value:.6g}" for value in numbers), ours.n))
        # By the points: published bars may be many times as long as they are apart.
        values = [
            scaled(cell, value)
            for cell, comparison in here
            for value in (comparison.published.value, comparison.ours.centre)
        ]
        low, high = min(values), max(values)
        room = 0.08 * (high - low or 1.0)
        axes.plot([low - room, high + room], [low - room, high + room], color="black", linewidth=0.6)
        axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room))
        axes.set(xlabel="published, scaled", ylabel="ours, scaled")
        axes.set_title(DOMAINS[domain].title)
    joint_legend(figure, panels)
    note = (
        "point: a cell, with the standard deviations of both; line: equal; scaled: 0 and 1 are the paper's worst and "
        "best value on the task, of win rates 0 and 100 %"
    )
    note = note if rows else ""
    save(figure, request.out, ("cell", "published", "published_spread", "ours", "spread", "n"), rows, note=note)


def scaled(cell: Cell, value: float) -> float:
    low, high = scale(cell.domain, cell.task)
    return (value - low) / (high - low)


def _point(axes: Axes, cell: Cell, found: Comparison) -> None:
    low, high = scale(cell.domain, cell.task)
    axes.errorbar(
        scaled(cell, found.published.value),
        scaled(cell, found.ours.centre),
        xerr=None if found.published.spread is None else found.published.spread / (high - low),
        yerr=found.ours.spread / (high - low),
        fmt=marker(cell.label),
        markersize=3.5,
        linewidth=0.5,
        color=colour(cell.label),
        markerfacecolor=face(cell.label),
        label=algorithm_title(cell.label),
    )
