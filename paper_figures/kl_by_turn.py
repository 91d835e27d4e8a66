"""KL of the policy after each turn against the rollout policy. The paper draws it as circles from 0.04 on, inside of
which nearly everything lies; here the axis is logarithmic."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fp3o.config import Cell, algorithm_title
from fp3o.statistics.claims import RING, turn_divergence
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import CellRuns
from paper_figures.drawing import SMALL, WIDTH, Request, colour, empty, is_early, save

SMALLEST = 1e-6  # Smaller divergences count as this one.


def turns_of(cell: CellRuns) -> dict[int, NDArray[np.float64]]:
    """Per turn, in update order: the mean KL of the agents that learned, one value per iteration and seed."""
    found: dict[int, list[float]] = {}
    for run in cell.runs:
        for turn, values in turn_divergence(run).items():
            found.setdefault(turn, []).extend(values)
    return {turn: np.array(values) for turn, values in sorted(found.items())}


def linear(axes: Axes, turns: dict[int, NDArray[np.float64]], hue: str) -> None:
    """Violins of logarithms: most iterations move the policy little and a few a lot. A line at the paper's innermost
    circle."""
    logs = [np.log10(np.maximum(values, SMALLEST)) for values in turns.values()]
    parts: dict[str, Any] = axes.violinplot(
        logs, list(turns), orientation="vertical", showmedians=True, showextrema=False, widths=0.85
    )
    for body in parts["bodies"]:
        body.set_facecolor(hue)
        body.set_alpha(0.5)
    parts["cmedians"].set_color(hue)
    axes.axhline(math.log10(RING), color="black", linewidth=0.7, linestyle=":")
    for turn, values in turns.items():
        median = f"{np.median(values) * 1e3:.1f}"
        axes.annotate(median, (turn, 0.01), xycoords=("data", "axes fraction"), ha="center", fontsize=SMALL - 1)
    axes.set_xlabel("turn, in update order")
    axes.set_xticks(list(turns))


def draw(request: Request) -> None:
    """A panel per algorithm, on one scale."""
    cells = request.filled(request.cells)
    found = [turns_of(cell) for cell in cells]
    filled = [bool(turns) for turns in found]
    # As wide as there are turns; cells that were not run take less room.
    widths = [max(3.0, len(turns)) if turns else 2.0 for turns in found]
    size = (WIDTH, 2.4 if any(filled) else 0.9)
    figure, (panels,) = plt.subplots(
        1, len(cells), figsize=size, squeeze=False, layout="constrained", width_ratios=widths
    )
    every = [np.maximum(values, SMALLEST) for turns in found for values in turns.values()]
    low, high = (float(np.log10(f(np.concatenate(every)))) if every else 0.0 for f in (np.min, np.max))
    rows = []
    for place, (axes, cell, turns) in enumerate(zip(panels, cells, found, strict=True)):
        label = Cell.of(cell.cell).label
        title = algorithm_title(label)
        if turns:
            linear(axes, turns, colour(label))
            powers = range(math.floor(low), math.ceil(high) + 1)
            axes.set_yticks(list(powers), [f"$10^{{{power}}}$" for power in powers])
            axes.set_ylim(low - 0.4, max(high, math.log10(RING)) + 0.2)  # one scale for all algorithms
            last = list(turns.values())[-1]
            title += f" (n = {len(cell.runs)})\nlast turn past {RING}: {100 * float(np.mean(last > RING)):.2g} %"
            if place == 0:
                axes.set_ylabel("KL to the rollout policy")
        else:
            empty(axes)
        axes.set_title(title)
        for turn, values in turns.items():
            quantiles = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
            rows.append((cell.cell, turn, len(values), *(f"{value:.6g}" for value in (values.mean(), *quantiles))))
    early = ", a tenth of the steps" if any(is_early(cell) for cell in cells) else ""
    figure.suptitle(row_title(Cell.of(cells[0].cell).row) + early, fontsize=7)
    header = ("cell", "turn", "values", "mean", "q05", "q25", "median", "q75", "q95")
    note = (
        "violins: the density of the KL's logarithm; every iteration of every seed counts once, with the mean over the "
        "agents that learned; bar and number below: median, in thousandths; dotted: 0.04, the innermost circle of the "
        "paper's figure"
    )
    save(figure, request.out, header, rows, cells, note if rows else "")
