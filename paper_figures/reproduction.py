"""Ours against the paper's, all cells at once: forest plot, scatter, performance profiles, P(improvement).

python -m paper_figures.reproduction --suite paper --out results/paper/figures
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import Cell, algorithm_title
from fp3o.envs.domains import published_domains
from fp3o.statistics import aggregate
from fp3o.statistics.scorecard import columns_of, judged_cells, normalised
from fp3o.statistics.scores import protocol_of
from fp3o.statistics.suites import SuiteRuns, as_command, load, parser
from fp3o.statistics.tables import Entry
from paper_figures.drawing import colour, dashes, mark_missing, save

VERDICT_COLOURS = {"consistent": "#009E73", "undecided": "#999999", "differs": "#D55E00"}


def compared(data: SuiteRuns) -> list[Entry]:
    """Cells that were run with the paper's settings, in the paper's order."""
    return [entry for entry in judged_cells(data).values() if entry.comparison is not None]


def forest(entries: Sequence[Entry], out: Path) -> None:
    """Ours minus published in published spreads, with the 95 % interval, coloured by verdict."""
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
    save(figure, out, ("cell", "n", "difference", "low", "high", "verdict"), rows)


def scatter(entries: Sequence[Entry], out: Path) -> None:
    """Published against ours on the diagonal, one panel per domain."""
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
    save(figure, out, ("cell", "published", "published_spread", "ours", "spread", "n"), rows)


def profiles(data: SuiteRuns, out: Path) -> None:
    """Fraction of runs above a normalised score, over the rows that all of a domain's algorithms have."""
    domains = [name for name in published_domains() if any(Cell.of(cell).domain == name for cell in data.cells)]
    figure, panels = plt.subplots(
        1, max(1, len(domains)), figsize=(3.2 * max(1, len(domains)), 2.5), squeeze=False, layout="constrained"
    )
    rows = []
    for axes, domain in zip(panels[0], domains, strict=False):
        labels = columns_of(domain)
        common, scores = normalised(data, domain, labels)
        axes.set_title(f"{domain}: {len(common)} rows")
        if not common:
            mark_missing(axes, "no row complete yet")
            continue
        pooled = np.concatenate([np.ravel(task) for tasks in scores.values() for task in tasks])
        thresholds = np.linspace(min(0.0, pooled.min()), max(1.0, pooled.max()), 101)
        for label in labels:
            share = aggregate.profile(scores[label], thresholds.tolist())
            n = sum(len(task) for task in scores[label])
            axes.step(thresholds, share, color=colour(label), linestyle=dashes(label), where="post")
            axes.plot([], [], color=colour(label), label=f"{algorithm_title(label)} ({n} runs)")
            rows += [(domain, label, f"{t:.5g}", f"{s:.5g}") for t, s in zip(thresholds, share, strict=True)]
        axes.set_xlabel(
            "score (win rate)" if protocol_of(domain).metric == "win_rate" else "score (0, 1: the paper's worst, best)"
        )
        axes.set_ylabel("fraction of runs above")
        axes.legend(loc="upper right", fontsize=6)
    if not domains:
        mark_missing(panels[0][0])
    save(figure, out, ("domain", "algorithm", "score", "fraction_above"), rows)


def main(argv: Sequence[str] | None = None) -> None:
    chosen = parser("Reproduction figures.", out="folder for reproduction-*.{pdf,png,csv}").parse_args(argv)
    data = load(chosen)
    entries = compared(data)
    forest(entries, chosen.out / "reproduction-forest")
    scatter(entries, chosen.out / "reproduction-scatter")
    profiles(data, chosen.out / "reproduction-profiles")


if __name__ == "__main__":
    as_command(main)
