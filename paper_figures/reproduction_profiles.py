"""How often each algorithm's runs pass a normalised score, over all rows of a domain."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import Cell, algorithm_title
from fp3o.config.domains import DOMAINS, published_domains
from fp3o.statistics import aggregate
from fp3o.statistics.scorecard import columns_of, normalised
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import WIDTH, Request, empty, joint_legend, line_style, save


def draw(request: Request) -> None:
    """Fraction of runs above a normalised score, over the rows that all of a domain's algorithms have."""
    data = request.data
    domains = [name for name in published_domains() if any(Cell.of(cell).domain == name for cell in data.cells)]
    found = {name: normalised(data, name, columns_of(name)) for name in domains}
    filled = [bool(found[name][0]) for name in domains] or [False]
    figure, (panels,) = plt.subplots(
        1,
        len(filled),
        figsize=(WIDTH, 2.1 if any(filled) else 0.9),
        squeeze=False,
        layout="constrained",
        width_ratios=[1.0 if some else 0.4 for some in filled],
    )
    rows = []
    for axes, domain in zip(panels, domains, strict=False):
        common, scores = found[domain]
        axes.set_title(DOMAINS[domain].title if common else DOMAINS[domain].title.replace(" ", "\n", 1))
        if not common:
            empty(axes, text="no row complete yet")
            continue
        pooled = np.concatenate([np.ravel(task) for tasks in scores.values() for task in tasks])
        thresholds = np.linspace(min(0.0, pooled.min()), max(1.0, pooled.max()), 101)
        counts = set()
        for label, tasks in scores.items():
            share = aggregate.profile(tasks, thresholds.tolist())
            counts.add(sum(len(task) for task in tasks))
            style = line_style(label, len(thresholds))
            axes.plot(thresholds, share, **style, drawstyle="steps-post", label=algorithm_title(label))
            rows += [(domain, label, f"{t:.5g}", f"{s:.5g}") for t, s in zip(thresholds, share, strict=True)]
        runs = " to ".join(dict.fromkeys(f"{count}" for count in (min(counts), max(counts))))
        axes.set_title(f"{DOMAINS[domain].title}\nrows: {len(common)}; runs of each algorithm: {runs}")
        axes.set_xlabel(
            "score (win rate)" if scoring_of(domain).metric == "win_rate" else "score (0, 1: the paper's worst, best)"
        )
        axes.set_ylabel("fraction of runs above")
    if not domains:
        empty(panels[0])
    joint_legend(figure, panels)
    note = "line: of all runs of an algorithm, the fraction whose score is higher" if rows else ""
    save(figure, request.out, ("domain", "algorithm", "score", "fraction_above"), rows, note=note)
