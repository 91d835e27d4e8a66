"""A suite's own algorithms against one another, where the paper has no numbers: pooled scores and P(X > Y)."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from fp3o.config import Cell, Row
from fp3o.config.domains import DOMAINS
from fp3o.statistics.aggregate import improvement, pooled
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns

# Without the optimality gap: 1 is the best seed seen, no optimum.
METRICS = ("interquartile_mean", "mean", "median")
# With more algorithms only the first is compared with the others: nine would make 36 pairs, too many to read.
MOST_PAIRED = 6


def groups(data: SuiteRuns) -> list[tuple[tuple[str, ...], dict[Row, list[CellRuns]]]]:
    """Rows grouped by domain and by the algorithms that have scores in them after equally many steps in the same
    engine; rows with a single algorithm are left out.

    Each group: the algorithms' labels; by row, their cells in the same order. In the paper's suites, rows of domains
    with published numbers are left out.
    """
    rows: dict[tuple[Row, int, str], list[CellRuns]] = {}
    for cell in data.cells.values():
        row = Cell.of(cell.cell).row
        if cell.scores() and not (data.suite.of_the_paper and DOMAINS[row.domain].published):
            first = cell.runs[0]
            rows.setdefault((row, first.document["settings"]["total_steps"], first.engine), []).append(cell)
    found: dict[tuple[str, tuple[str, ...]], dict[Row, list[CellRuns]]] = {}
    for (row, *_), cells in rows.items():
        labels = tuple(Cell.of(cell.cell).label for cell in cells)
        if len(labels) > 1:
            found.setdefault((row.domain, labels), {})[row] = cells
    return [(labels, members) for (_, labels), members in found.items()]


def scaled(cells: list[CellRuns]) -> list[list[float]]:
    """Scores of a row's cells, scaled so that its worst seed is 0 and its best 1; all 0 if they are equal."""
    scores = [cell.scores() for cell in cells]
    low, high = min(map(min, scores)), max(map(max, scores))
    return [[(value - low) / (high - low) if high > low else 0.0 for value in values] for values in scores]


def comparisons(data: SuiteRuns) -> list[dict[str, Any]]:
    """Every group's pooled scores and P(X > Y), with 95 % intervals, for scorecard.json and the report."""
    found = []
    for labels, rows in groups(data):
        tables = [scaled(cells) for cells in rows.values()]
        of_label = {label: [table[place] for table in tables] for place, label in enumerate(labels)}
        pairs = list(combinations(labels, 2))
        if len(labels) > MOST_PAIRED:
            pairs = [pair for pair in pairs if pair[0] == labels[0]]
        found.append(
            {
                "rows": [str(row) for row in rows],
                "scale": "0 and 1 = the worst and best seed of the row",
                "pooled": {label: pooled(scores, METRICS) for label, scores in of_label.items()},
                "probability_of_improvement": [
                    {"better": one, "than": other, **improvement(of_label[one], of_label[other])}
                    for one, other in pairs
                ],
            }
        )
    return found
