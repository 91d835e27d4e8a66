"""The reproduction in one JSON file: coverage, verdicts, rank agreement, claims, aggregates. Same runs, same bytes.

python -m fp3o.statistics.scorecard --suite paper --out results/paper/scorecard.json
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fp3o.config import Cell
from fp3o.config.domains import published_domains
from fp3o.errors import as_command
from fp3o.grouping import grouped
from fp3o.statistics import cost, gathered, own_suites, published
from fp3o.statistics.aggregate import bounds, improvement, number, pooled
from fp3o.statistics.claims import ledger
from fp3o.statistics.findings import UNTESTED, Finding, scores_of
from fp3o.statistics.ranks import Agreement, RankRow, agreement
from fp3o.statistics.scores import CellRuns, scoring_of
from fp3o.statistics.suites import SuiteRuns, load, parser, write
from fp3o.statistics.tables.build import build
from fp3o.statistics.tables.columns import CONTROL
from fp3o.statistics.tables.model import Entry

# --- Verdicts -----------------------------------------------------------------------------------------------------


def judged_cells(data: SuiteRuns) -> dict[str, Entry]:
    """By cell, every cell with a published value, with the verdict of the first table that has it."""
    judged: dict[str, Entry] = {}
    for artefact in data.suite.artefacts:
        if artefact.kind == "table" and artefact.paper:
            for entry in build(data, artefact).entries:
                if entry.published is not None:
                    judged.setdefault(entry.cell, entry)
    return judged


def compared_cells(data: SuiteRuns) -> list[Entry]:
    """Those of the judged cells that were run with the paper's settings, in the paper's order."""
    return [entry for entry in judged_cells(data).values() if entry.comparison is not None]


def verdict_counts(entries: Sequence[Entry]) -> dict[str, int]:
    """How many cells have each verdict (the two directions of `differs` are counted apart)."""
    return dict(sorted(Counter(entry.category for entry in entries).items()))


def counts_by(entries: dict[str, Entry], part: int) -> dict[str, dict[str, int]]:
    """`verdict_counts` by a part of the cell's id: domain (0), sharing (2) or algorithm (3)."""
    groups = grouped((Cell.of(cell).parts[part], entry) for cell, entry in entries.items())
    return {name: verdict_counts(members) for name, members in sorted(groups.items())}


# --- Ranks --------------------------------------------------------------------------------------------------------


def rank_rows(data: SuiteRuns, table: str) -> list[RankRow]:
    """Rows of a published table all of whose algorithms were run with the paper's settings."""
    rows = []
    for name, members in grouped((entry.cell.rpartition("/")[0], entry) for entry in published.table(table)).items():
        scores = tuple(tuple(scores_of(data, member.cell)) for member in members)
        if all(scores):
            rows.append(RankRow(name, tuple(members), scores, scoring_of(name).statistic))
    return rows


def agreement_entry(result: Agreement | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "rows": result.rows,
        "mean_tau": number(result.mean_tau),
        "interval": bounds(result.interval),
        "p": number(result.p),
        "tau": {name: number(value) for name, value in sorted(result.taus.items())},
        "pairs_separated_in_the_paper": result.separated_pairs,
        "of_these_same_sign": result.separated_agree,
        "published_best_is_our_best": result.top_agree,
    }


# --- Aggregates ---------------------------------------------------------------------------------------------------


def scale(domain: str, task: str) -> tuple[float, float]:
    """The scores normalised to 0 and to 1: win rates 0 and 100 %, else the paper's worst and best value on the task."""
    if scoring_of(domain).metric == "win_rate":
        return 0.0, 100.0
    values = [entry.value for cell, entry in published.scores().items() if cell.startswith(f"{domain}/{task}/")]
    return (min(values), max(values)) if values else (0.0, 1.0)


def normalised(data: SuiteRuns, domain: str, labels: Sequence[str]) -> tuple[list[str], dict[str, list[list[float]]]]:
    """Rows in which every label (algorithm) was run, and by label the normalised scores in each of them."""
    rows = sorted({cell.row for cell in map(Cell.of, published.scores()) if cell.domain == domain}, key=str)
    common = [row for row in rows if all(scores_of(data, f"{row}/{label}") for label in labels)]
    table: dict[str, list[list[float]]] = {label: [] for label in labels}
    for row in common:
        low, high = scale(domain, row.task)
        for label in labels:
            table[label].append([(value - low) / (high - low) for value in scores_of(data, f"{row}/{label}")])
    return [str(row) for row in common], table


def columns_of(domain: str) -> tuple[str, ...]:
    """The paper's algorithms in a domain."""
    return tuple(dict.fromkeys(Cell.of(entry.cell).label for entry in published.table(domain)))


def aggregates(data: SuiteRuns, domain: str) -> dict[str, Any]:
    """Aggregates of each algorithm over the rows that all have, and FP3O against each other over the rows both have."""
    labels = columns_of(domain)
    rows, scores = normalised(data, domain, labels)
    better = {}
    for other in (*labels[1:], CONTROL):
        common, pair = normalised(data, domain, ("fp3o", other))
        if common:
            better[other] = {**improvement(pair["fp3o"], pair[other]), "rows": len(common)}
    return {
        "rows": rows,
        "scale": "win rate / 100"
        if scoring_of(domain).metric == "win_rate"
        else "0 and 1 = the paper's worst and best value on the task",
        "pooled": {label: pooled(tasks) for label, tasks in scores.items()} if rows else {},
        "probability_that_fp3o_is_better": better,
    }


# --- Claims -------------------------------------------------------------------------------------------------------


def claims_of(data: SuiteRuns, costs: Sequence[cost.Cost]) -> tuple[list[dict[str, Any]], dict[str, dict[str, str]]]:
    """Every claim with its finding, and under `tenth` that at a tenth of the budget; second, the cells that were
    derived for the latter."""
    early = gathered.tenth(data)
    at_a_tenth = {claim.name: finding_entry(finding) for claim, finding in ledger(early)} if early else {}
    found = [
        {
            "name": claim.name,
            "claim": claim.text,
            "source": claim.source,
            **finding_entry(finding),
            "tenth": at_a_tenth.get(claim.name),
        }
        for claim, finding in [*ledger(gathered.whole(data)), *cost.claims(costs)]
    ]
    derived = gathered.derived_cells(data) if early else {}
    return sorted(found, key=lambda claim: int(claim["name"][1:])), derived


def finding_entry(finding: Finding) -> dict[str, Any]:
    """A finding for the file; p-values are adjusted for the number of claims."""
    effect, tested = finding.effect, finding.verdict not in UNTESTED
    return {
        "verdict": finding.verdict,
        "words": finding.words,
        "evidence": finding.evidence,
        "found": finding.found,
        "needed": finding.needed,
        "cells": list(finding.cells),
        "effect": effect
        and {"name": effect.name, "value": number(effect.value), "interval": [number(effect.low), number(effect.high)]},
        "p": {name: number(getattr(finding, f"p_{name}")) for name in ("for", "against", "equal")} if tested else None,
        "seeds_that_would_decide": finding.seeds if finding.verdict == "undecided" else None,
    }


# --- All of it ----------------------------------------------------------------------------------------------------


def coverage(cells: Sequence[CellRuns]) -> dict[str, int]:
    """How much of what the suite plans has been run."""
    return {
        "cells_planned": len(cells),
        "cells_complete": sum(len(cell.runs) == len(cell.planned.seeds) for cell in cells),
        "cells_started": sum(bool(cell.runs) for cell in cells),
        "seeds_planned": sum(len(cell.planned.seeds) for cell in cells),
        "seeds_run": sum(len(cell.runs) for cell in cells),
        "seeds_diverged": sum(cell.diverged for cell in cells),
    }


def nearly_all_won(entries: dict[str, Entry]) -> dict[str, Any]:
    """How many consistent cells are win rates near 100 % in both, where little can differ; nothing if none is."""
    least = 95.0
    found = [entry.comparison for cell, entry in entries.items() if scoring_of(cell).metric == "win_rate"]
    consistent = [one for one in found if one and one.verdict == "consistent"]
    cells = sum(min(one.ours.centre, one.published.value) >= least for one in consistent)
    return {"consistent_and_nearly_all_won": {"at_least": least, "cells": cells}} if cells else {}


def differing(entries: dict[str, Entry]) -> dict[str, Any]:
    """Cells whose score differs from the published one: ours and theirs; nothing if none does."""
    found = {cell: one for cell, entry in entries.items() if (one := entry.comparison) and "differs" in one.verdict}
    values = {
        cell: {"ours": number(one.ours.centre), "published": number(one.published.value)} for cell, one in found.items()
    }
    return {"differing": values} if values else {}


def scorecard(data: SuiteRuns, costs: Sequence[cost.Cost] = ()) -> dict[str, Any]:
    """The content of the file."""
    entries = judged_cells(data)
    cells = list(data.cells.values())
    domains = [name for name in published_domains() if any(Cell.of(cell.cell).domain == name for cell in cells)]
    spans = [entry.comparison.standardised for entry in entries.values() if entry.comparison]
    known = [abs(span) for span in spans if span is not None]
    compared = [entry.comparison for entry in entries.values() if entry.comparison]
    claims, derived = claims_of(data, costs) if data.suite.of_the_paper else ([], {})
    between = own_suites.comparisons(data)
    return {
        **({"between_algorithms": between} if between else {}),
        "suite": data.suite.name,
        "coverage": coverage(cells),
        "coverage_by_domain": {
            name: coverage([cell for cell in cells if cell.cell.startswith(f"{name}/")]) for name in domains
        },
        "published_cells": len(entries),
        "verdicts": verdict_counts(list(entries.values())),
        "verdicts_by_domain": counts_by(entries, 0),
        "verdicts_by_sharing": counts_by(entries, 2),
        "verdicts_by_algorithm": counts_by(entries, 3),
        "published_inside_our_prediction_interval": sum(c.prediction.contains(c.published.value) for c in compared),
        **nearly_all_won(entries),
        **differing(entries),
        "compared_cells": len(compared),
        "median_absolute_difference_in_published_spreads": number(float(np.median(known))) if known else None,
        "rank_agreement": {name: agreement_entry(agreement(rank_rows(data, name))) for name in domains},
        "claims": claims,
        "derived_cells": derived,
        "aggregates": {name: aggregates(data, name) for name in domains},
        "cost": cost.summary(costs),
        "engines": {
            name: sorted({run.engine for cell in cells if cell.cell.startswith(f"{name}/") for run in cell.runs})
            for name in sorted({Cell.of(cell.cell).domain for cell in cells})
        },
        "deviations": sorted({str(change) for cell in cells for change in cell.deviations}),
    }


def to_json(document: dict[str, Any]) -> str:
    """In the order of the document, which the report keeps."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser("Scorecard of a suite.", out="scorecard.json")
    arguments.add_argument("--cost", type=Path, help="cost.csv, where cost was measured")
    chosen = arguments.parse_args(argv)
    costs = cost.read(chosen.cost) if chosen.cost else ()
    write(chosen.out, to_json(scorecard(load(chosen), costs)))


if __name__ == "__main__":
    as_command(main)
