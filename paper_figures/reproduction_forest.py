"""Ours against the paper's, all cells at once: the difference of every cell with its interval."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.statistics.scorecard import compared_cells
from paper_figures.drawing import Request, mark_missing, save

VERDICT_COLOURS = {"consistent": "#009E73", "undecided": "#999999", "differs": "#D55E00"}


def draw(request: Request) -> None:
    """Ours minus published in published spreads, with the 95 % interval, coloured by verdict."""
    entries = compared_cells(request.data)
    figure, axes = plt.subplots(figsize=(6.4, 1.0 + 0.19 * max(4, len(entries))), layout="constrained")
    rows = []
    shown = [(entry, found) for entry in entries if (found := entry.comparison) is not None and found.published.spread]
    for place, (entry, found) in enumerate(shown):
        unit = found.published.spread or 1.0
        point, low, high = (value / unit for value in (found.difference, found.low, found.high))
        hue = VERDICT_COLOURS[found.verdict]
        axes.plot([low, high], [place, place], color=hue, linewidth=1.2)
        axes.plot(point, place, "o", color=hue, markersize=4)
        rows.append((entry.cell, found.ours.n, *(f"{value:.5g}" for value in (point, low, high)), found.words))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvspan(-1, 1, color="#eeeeee", zorder=0)
    axes.set_yticks(range(len(shown)), [f"{entry.cell} (n = {found.ours.n})" for entry, found in shown], fontsize=6)
    axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
    axes.set_xlabel("ours − published, in published standard deviations; line: 95 % Welch interval; grey: ± 1")
    for name, hue in VERDICT_COLOURS.items():
        axes.plot([], [], "o", color=hue, label=name, markersize=4)
    if shown:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3)
    else:
        mark_missing(axes, "no cell run with the paper's settings yet")
    save(figure, request.out, ("cell", "n", "difference", "low", "high", "verdict"), rows)
