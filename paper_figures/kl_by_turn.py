"""KL of the policy after each turn against the rollout policy: the radial figure of the paper, and a linear one."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.projections.polar import PolarAxes
from numpy.typing import NDArray

from fp3o.config import Cell, algorithm_title
from fp3o.statistics.claims import turn_divergence
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import CellRuns
from paper_figures.drawing import SMALL, WIDTH, Request, colour, empty, save

RINGS = (0.04, 0.08, 0.12)  # The paper's circles.
BINS = 30
SMALLEST = 1e-6  # Smaller divergences count as this one.


def turns_of(cell: CellRuns) -> dict[int, NDArray[np.float64]]:
    """Per turn, in update order: the mean KL of the agents that learned, one value per iteration and seed."""
    found: dict[int, list[float]] = {}
    for run in cell.runs:
        for turn, values in turn_divergence(run).items():
            found.setdefault(turn, []).extend(values)
    return {turn: np.array(values) for turn, values in sorted(found.items())}


def radial(axes: PolarAxes, turns: dict[int, NDArray[np.float64]], hue: str) -> None:
    """One sector per turn; radius is KL, darker where more iterations fall."""
    top = max(RINGS[-1] * 1.1, *(float(np.quantile(values, 0.99)) for values in turns.values()))
    edges = np.linspace(0, top, BINS + 1)
    width = 2 * math.pi / len(turns)
    for place, values in enumerate(turns.values()):
        share = np.histogram(np.clip(values, 0, top), edges)[0] / len(values)
        for bottom, height, density in zip(edges[:-1], np.diff(edges), share / max(share.max(), 1e-12), strict=True):
            if density > 0:
                shade = 0.15 + 0.85 * density**0.35  # Rare ones would not be seen otherwise.
                axes.bar(place * width, height, 0.9 * width, bottom, color=hue, alpha=shade, linewidth=0)
    angles = np.linspace(0, 2 * math.pi, 200)
    for ring in RINGS:
        axes.plot(angles, np.full(200, ring), color="black", linewidth=0.7)
        axes.text(math.pi / len(turns), ring, f"{ring}", fontsize=SMALL, ha="center", va="bottom")
    axes.set_xticks([place * width for place in range(len(turns))], [str(turn) for turn in turns])
    axes.tick_params(pad=-2)
    axes.set_yticks([])
    axes.set_ylim(0, top)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.grid(False)


def linear(axes: Axes, turns: dict[int, NDArray[np.float64]], hue: str) -> None:
    """The same as violins, of logarithms: most iterations move the policy little and a few a lot."""
    logs = [np.log10(np.maximum(values, SMALLEST)) for values in turns.values()]
    parts: dict[str, Any] = axes.violinplot(
        logs, list(turns), orientation="vertical", showmedians=True, showextrema=False, widths=0.85
    )
    for body in parts["bodies"]:
        body.set_facecolor(hue)
        body.set_alpha(0.5)
    parts["cmedians"].set_color(hue)
    axes.set_xlabel("turn, in update order")
    axes.set_xticks(list(turns))


def draw(request: Request) -> None:
    """Radial and linear for the first cell (HAPPO), linear for the others."""
    cells = request.cells
    found = [turns_of(cell) for cell in cells]
    height = 2.4 if any(found) else 0.9
    figure = plt.figure(figsize=(WIDTH, height), layout="constrained")
    # Cells that were not run take less room; the radial one comes first.
    filled = [bool(turns) for turns in (*found[:1], *found)]
    places = figure.add_gridspec(1, len(filled), width_ratios=[1.0 if some else 0.4 for some in filled])
    every = [np.maximum(values, SMALLEST) for turns in found for values in turns.values()]
    low, high = (float(np.log10(f(np.concatenate(every)))) if every else 0.0 for f in (np.min, np.max))
    rows = []
    for place, (cell, turns) in enumerate(zip(cells, found, strict=True)):
        label = Cell.of(cell.cell).label
        grid = [figure.add_subplot(places[place + 1])]
        if turns:
            linear(grid[0], turns, colour(label))
            powers = range(math.floor(low), math.ceil(high) + 1)
            grid[0].set_yticks(list(powers), [f"$10^{{{power}}}$" for power in powers])
            grid[0].set_ylim(low - 0.2, high + 0.2)  # one scale for all algorithms
            if place == 0:
                grid[0].set_ylabel("KL to the rollout policy")
        else:
            empty(grid[0])
        if place == 0 and turns:
            polar = figure.add_subplot(places[0], projection="polar")
            assert isinstance(polar, PolarAxes)
            radial(polar, turns, colour(label))
            grid.append(polar)
        for axes in grid:
            axes.set_title(f"{algorithm_title(label)} (n = {len(cell.runs)})" if turns else algorithm_title(label))
        for turn, values in turns.items():
            quantiles = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
            rows.append((cell.cell, turn, len(values), *(f"{value:.6g}" for value in (values.mean(), *quantiles))))
    figure.suptitle(row_title(Cell.of(cells[0].cell).row), fontsize=7)
    header = ("cell", "turn", "values", "mean", "q05", "q25", "median", "q75", "q95")
    note = (
        "every iteration of every seed counts once, with the mean over the agents that learned; circle: turns around "
        "it, KL outwards, darker where more iterations fall, black lines at the paper's values; violins: the "
        "density of its logarithm, bar at the median"
    )
    save(figure, request.out, header, rows, cells, note if rows else "")
