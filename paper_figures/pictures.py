"""docs/pictures, drawn from the shipped runs and evidence: after `make paper`, python -m paper_figures.pictures"""

from __future__ import annotations

import csv
import shutil
from collections import defaultdict

import matplotlib.pyplot as plt

from fp3o import config
from fp3o.config import Cell
from fp3o.errors import as_command
from fp3o.runs import layout
from fp3o.statistics.published import row_title
from fp3o.statistics.scores import scoring_of
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.columns import CONTROL
from paper_figures import learning_curves
from paper_figures.drawing import (
    COLUMN,
    CURVE_HEADER,
    Request,
    caption,
    draw_curve,
    joint_legend,
    label_axes,
    line_style,
    panels,
    save,
    show_late,
)

DOCS = config.repository() / "docs"
PICTURES = DOCS / "pictures"


def halfcheetah(data: SuiteRuns) -> None:
    """The cells of six-agent HalfCheetah under full sharing that were run."""
    names = [f"mamujoco/halfcheetah-6x1/full/{label}" for label in ("fp3o", "happo", CONTROL, "mappo", "ippo")]
    cells = [data.cells[name] for name in names]
    figure, grid = panels([[True]])
    figure.set_size_inches(1.5 * COLUMN, 0.95 * COLUMN)
    rows = []
    for cell in cells:
        rows += draw_curve(grid[0][0], cell, "MAPPO, FP3O's updates" if cell.cell.endswith(CONTROL) else None)
    grid[0][0].set_title(row_title(Cell.of(names[0]).row))
    show_late(grid[0][0], cells)
    label_axes(grid, [[True]], [[scoring_of(names[0]).metric]])
    joint_legend(figure, grid[0])
    save(figure, PICTURES / "halfcheetah", CURVE_HEADER, rows, cells, caption(cells))


def eight_marines() -> None:
    """The learning check of the battle engine."""
    won: dict[int, list[int]] = defaultdict(list)
    with (DOCS / "evidence/smac-8m-full-mappo-seed-0.csv").open() as file:
        for row in csv.DictReader(file):
            won[int(row["env_steps"])].append(int(row["won"]))
    figure, axes = plt.subplots(figsize=(COLUMN, 2.2), layout="constrained")
    rates = [100 * sum(each) / len(each) for each in won.values()]
    axes.plot([step / 1e3 for step in won], rates, **line_style("mappo", len(rates)))
    axes.axhline(80, linestyle=":", color="0.5")
    axes.set(xlabel="environment steps (thousands)", ylabel="battles won (%)", ylim=(-3, 103))
    axes.set_title("8m, embedded engine, MAPPO, full sharing, seed 0")
    save(figure, PICTURES / "smac-8m", ("env_steps", "won"), zip(won, rates, strict=True))


def main() -> None:
    suite = config.load_suite("paper")
    data = SuiteRuns(suite, layout.suite_root("paper") / "runs")
    halfcheetah(data)
    eight_marines()
    learning_curves.draw(Request(data, suite.artefact("figure-mpe", "figure"), PICTURES / "mpe"))
    shutil.copy(data.root.parent / "figures" / "dose-response.png", PICTURES)
    for path in PICTURES.iterdir():  # kinds that no page shows
        if path.suffix in (".pdf", ".csv"):
            path.unlink()


if __name__ == "__main__":
    as_command(main)
