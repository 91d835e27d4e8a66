"""A table from the runs of a suite, or from the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fp3o.config import SHARINGS, Artefact, Cell
from fp3o.statistics import published as paper
from fp3o.statistics.choices import USUAL, Choices, Family
from fp3o.statistics.compare import Comparison, compare_cell
from fp3o.statistics.intervals import adjust, interval_of
from fp3o.statistics.margins import margin_of
from fp3o.statistics.paired import Paired, against_baseline
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.columns import CONTROL, cells_of
from fp3o.statistics.tables.digits import decimals
from fp3o.statistics.tables.model import Entry, Row, Table
from fp3o.statistics.tables.notes import notes_of


def marks(values: Sequence[float], digits: int = 1) -> list[str]:
    """How each value is printed, "bold", "underline" or "", by the paper's rule: the best bold and the second best
    underlined, ties included; nothing is underlined where several are best. Values that are printed with one decimal,
    as in the paper, are ranked as printed, others as they are (to nine digits)."""
    printed = [round(value, 1) if digits == 1 else float(f"{value:.9g}") for value in values]
    best = max(printed)
    second = max((value for value in printed if value < best), default=best)
    lone = printed.count(best) == 1
    return ["bold" if v == best else "underline" if lone and v == second else "" for v in printed]


def with_marks(row: Row, columns: Sequence[str], controls: Sequence[str]) -> Row:
    """The row with bold and underline set, if all of the paper's columns have a number: a rank among some would
    mislead. Where nobody wins there is no best."""
    if row.floor:
        return row
    ranked = [place for place, label in enumerate(columns) if label not in controls]
    summaries = [row.entries[place].summary for place in ranked]
    values = [summary.centre for summary in summaries if summary is not None]
    if len(values) < len(ranked) or len(values) < 2:
        return row
    entries = list(row.entries)
    for place, mark in zip(ranked, marks(values, entries[0].digits), strict=True):
        entries[place] = replace(entries[place], bold=mark == "bold", underline=mark == "underline")
    return replace(row, entries=tuple(entries))


def entry_of(cell_runs: CellRuns, beside_paper: bool = True, choices: Choices = USUAL) -> Entry:
    """One cell of a table, its p-value not yet adjusted for the number of cells. beside_paper: with published score."""
    values = cell_runs.scores()
    comparable = beside_paper and not cell_runs.deviations
    comparison = compare_cell(cell_runs.cell, values, cell_runs.scoring, choices) if comparable else None
    return Entry(
        cell=cell_runs.cell,
        summary=cell_runs.summary(),
        planned=len(cell_runs.planned.seeds),
        diverged=cell_runs.diverged,
        interval=interval_of(values, cell_runs.scoring.statistic) if values else None,
        published=paper.scores().get(cell_runs.cell) if beside_paper else None,
        comparison=comparison,
        deviations=cell_runs.deviations,
        runs=cell_runs,
    )


def build(data: SuiteRuns, artefact: Artefact) -> Table:
    """A table of the suite: rows and columns in the order of its cells, plus the equal-budget control as a column."""
    members = cells_of(data.suite, artefact)
    columns = list(dict.fromkeys(cell.label for cell in members))
    controls = [label for label in columns if artefact.paper and label == CONTROL]
    keys = list(dict.fromkeys(cell.row for cell in members))
    # The paper groups its rows by sharing.
    domains, order = [key.domain for key in keys], list(SHARINGS)
    keys.sort(key=lambda key: (domains.index(key.domain), order.index(key.sharing)))
    judged = judged_entries(data, artefact)
    rows = []
    for domain, task, sharing in keys:
        known = paper.tasks().get((domain, task))
        names = [f"{domain}/{task}/{sharing}/{label}" for label in columns]
        summaries = [judged[name].summary for name in names if name in judged]
        digits = decimals(domain, [summary.centre for summary in summaries if summary])
        row = Row(
            sharing=sharing,
            title=known.title if known else task,
            difficulty=known.difficulty if known else "",
            agents=known.agents if known else "",
            entries=tuple(replace(judged.get(name, Entry(name)), digits=digits) for name in names),
        )
        rows.append(with_marks(row, columns, controls))
    table = Table(
        artefact.name,
        artefact.caption,
        tuple(columns),
        tuple(controls),
        tuple(rows),
        label=artefact.paper,
        baseline=artefact.baseline,
    )
    return replace(table, notes=tuple(notes_of(table)))


def judged_entries(data: SuiteRuns, artefact: Artefact) -> dict[str, Entry]:
    """The table's entries by cell, judged, without marks."""
    members = cells_of(data.suite, artefact)
    entries = [entry_of(data.cells[cell.id], data.suite.whole, data.choices) for cell in members]
    compared = {entry.cell: entry.comparison for entry in entries if entry.comparison is not None}
    verdicts = judge(compared, sum(entry.published is not None for entry in entries), data.choices.family)
    judged = {entry.cell: replace(entry, comparison=verdicts.get(entry.cell)) for entry in entries}
    return _against(judged, artefact.baseline, data) if artefact.baseline else judged


Judged = TypeVar("Judged", Comparison, Paired)


def judge(found: Mapping[str, Judged], planned: int = 0, family: Family = "planned") -> dict[str, Judged]:
    """Comparisons of one table with p-values adjusted for their number (Benjamini–Hochberg) and new verdicts.

    planned: how many comparisons the table will have when all its cells were run, by default those there are: what is
    run next may not take a verdict back.
    """
    if family == "alone":
        return dict(found)
    adjusted = adjust([one.p for one in found.values()], max(planned if family == "planned" else 0, len(found)))
    return {name: one.with_p(p) for (name, one), p in zip(found.items(), adjusted, strict=True)}


def _against(entries: dict[str, Entry], baseline: str, data: SuiteRuns) -> dict[str, Entry]:
    """The entries with their comparisons with the baseline's cell of the same row, adjusted for the number of such
    cells in the table, run or not."""
    found: dict[str, Paired] = {}
    planned = 0
    for name, entry in entries.items():
        base = entries.get(f"{Cell.of(name).row}/{baseline}")
        if base is not None and base is not entry and entry.runs is not None and base.runs is not None:
            planned += 1
            margin = margin_of(name, data.suite, data.choices.margin)
            paired = against_baseline(entry.runs, base.runs, margin, data.choices.test)
            if paired is not None:
                found[name] = paired
    judged = judge(found, planned, data.choices.family)
    return {name: replace(entry, paired=judged.get(name)) for name, entry in entries.items()}
