"""docs/pictures, drawn from the shipped runs and evidence: after `make paper`, python -m paper_figures.pictures"""

from __future__ import annotations

import csv
from collections import defaultdict

import matplotlib.pyplot as plt

from fp3o import config
from fp3o.runs import layout
from fp3o.statistics.columns import CONTROL
from fp3o.statistics.suites import SuiteRuns, as_command
from paper_figures import learning_curves
from paper_figures.drawing import Request, caption, draw_curve

DOCS = config.repository() / "docs"
PICTURES = DOCS / "pictures"


def halfcheetah(data: SuiteRuns) -> None:
    """The cells of six-agent HalfCheetah under full sharing that were run."""
    figure, axes = plt.subplots(figsize=(5.4, 3.3), layout="constrained")
    names = [f"mamujoco/halfcheetah-6x1/full/{label}" for label in ("fp3o", "happo", CONTROL, "mappo", "ippo")]
    cells = [data.cells[name] for name in names]
    for cell in cells:
        draw_curve(axes, cell, "MAPPO with FP3O's number of updates" if cell.cell.endswith(CONTROL) else None)
    axes.set(xlabel="environment steps (millions)", ylabel="return", title="Six-agent HalfCheetah, full sharing")
    axes.legend(loc="lower right", fontsize=6)
    figure.supxlabel(caption(cells), fontsize=7, color="#666666")
    figure.savefig(PICTURES / "halfcheetah.png", metadata={"Software": None})


def eight_marines() -> None:
    """The learning check of the battle engine."""
    won: dict[int, list[int]] = defaultdict(list)
    with (DOCS / "evidence/smac-8m-full-mappo-seed-0.csv").open() as file:
        for row in csv.DictReader(file):
            won[int(row["env_steps"])].append(int(row["won"]))
    figure, axes = plt.subplots(figsize=(4, 2.6), layout="constrained")
    axes.plot([step / 1e3 for step in won], [100 * sum(each) / len(each) for each in won.values()], marker="o")
    axes.axhline(80, linestyle=":", color="0.5")
    axes.set(xlabel="environment steps (thousands)", ylabel="battles won (%)", ylim=(-3, 103))
    axes.set_title("8m, embedded engine, MAPPO, full sharing, seed 0")
    figure.savefig(PICTURES / "smac-8m.png", metadata={"Software": None})


def main() -> None:
    suite = config.load_suite("paper")
    data = SuiteRuns(suite, layout.suite_root("paper") / "runs")
    halfcheetah(data)
    eight_marines()
    learning_curves.draw(Request(data, suite.artefact("figure-mpe", "figure"), PICTURES / "mpe"))
    for suffix in (".pdf", ".csv"):  # these are in results/
        (PICTURES / "mpe").with_suffix(suffix).unlink()


if __name__ == "__main__":
    as_command(main)
