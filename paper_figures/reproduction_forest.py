"""Ours against the paper's, all cells at once: the difference of every cell with its interval."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fp3o.config import Cell
from fp3o.statistics.published import cell_title
from fp3o.statistics.scorecard import compared_cells
from paper_figures.drawing import SMALL, WIDTH, Request, empty, save

VERDICTS = {"consistent": ("#009E73", "o"), "undecided": ("#777777", "D"), "differs": ("#D55E00", "s")}
LINES = 40
"""Of one column; with more, the figure has two."""
WIDEST = 8.0
"""Published deviations: what is farther away is an arrow at the edge."""


def draw(request: Request) -> None:
    """Ours minus published in published spreads, with the 95 % interval, coloured by verdict."""
    entries = compared_cells(request.data)
    shown = [(entry, found) for entry in entries if (found := entry.comparison) is not None and found.published.spread]
    across = 1 if len(shown) <= LINES else 2
    lines = -(-len(shown) // across)
    figure, (panels,) = plt.subplots(
        1, across, figsize=(WIDTH, 0.85 + 0.125 * max(2, lines)), squeeze=False, layout="constrained"
    )
    far = [abs(end / (found.published.spread or 1.0)) for _, found in shown for end in (found.low, found.high)]
    reach = min(WIDEST, max(far, default=1.0))
    rows = []
    for column, axes in enumerate(panels):
        part = shown[column * lines : (column + 1) * lines]
        for place, (entry, found) in enumerate(part):
            unit = found.published.spread or 1.0
            point, low, high = (value / unit for value in (found.difference, found.low, found.high))
            hue, mark = VERDICTS[found.verdict]
            ends = [max(low, -2 * WIDEST), min(high, 2 * WIDEST)]  # One seed's are infinite.
            axes.plot(ends, [place, place], color=hue, linewidth=1)
            inside = min(max(point, -WIDEST), WIDEST)
            mark = mark if inside == point else "<" if point < 0 else ">"
            axes.plot(inside, place, mark, color=hue, clip_on=False, zorder=3)
            rows.append((entry.cell, found.ours.n, *(f"{value:.5g}" for value in (point, low, high)), found.words))
        axes.axvline(0, color="black", linewidth=0.6)
        axes.axvspan(-1, 1, color="#eeeeee", zorder=0)
        names = [f"{cell_title(Cell.of(entry.cell))} (n = {found.ours.n})" for entry, found in part]
        axes.set_yticks(range(len(part)), names, fontsize=SMALL)
        axes.set_ylim(max(1, len(part)) - 0.5, -0.5)
        axes.set_xlim(-1.05 * reach, 1.05 * reach)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("ours − published")
        if not part:
            empty(axes, text="no cell run with the paper's settings yet")
    handles = [
        panels[0].plot([], [], mark, color=hue, label=name)[0] for name, (hue, mark) in VERDICTS.items() if shown
    ]
    if shown:
        figure.legend(handles=handles, loc="outside upper center", ncol=3)
    note = "in published standard deviations; line: 95 % Welch interval of the difference; grey: ± 1 deviation"
    if any(abs(found.standardised or 0.0) > WIDEST for _, found in shown):
        note += f"; arrow: beyond ± {WIDEST:g}"
    header = ("cell", "n", "difference", "low", "high", "verdict")
    save(figure, request.out, header, rows, note=note if rows else "")
