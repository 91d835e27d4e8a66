"""How often each algorithm's runs pass a normalised score, over all rows of a domain."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fp3o.config import Cell, algorithm_title
from fp3o.envs.domains import published_domains
from fp3o.statistics import aggregate
from fp3o.statistics.scorecard import columns_of, normalised
from fp3o.statistics.scores import scoring_of
from paper_figures.drawing import Request, colour, dashes, mark_missing, save


def draw(request: Request) -> None:
    """Fraction of runs above a normalised score, over the rows that all of a domain's algorithms have."""
    data = request.data
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
            "score (win rate)" if scoring_of(domain).metric == "win_rate" else "score (0, 1: the paper's worst, best)"
        )
        axes.set_ylabel("fraction of runs above")
        axes.legend(loc="upper right", fontsize=6)
    if not domains:
        mark_missing(panels[0][0])
    save(figure, request.out, ("domain", "algorithm", "score", "fraction_above"), rows)
