"""The paper's tables from our runs: CSV with everything; Markdown and LaTeX with the published numbers beside ours.

python -m fp3o.statistics.tables --suite paper --artefact table-mamujoco --out results/paper/tables
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from fp3o.config import SHARINGS, Artefact, Cell, Change, algorithm_title
from fp3o.config import Row as CellRow
from fp3o.envs.domains import DOMAINS
from fp3o.statistics import published as paper
from fp3o.statistics.columns import CONTROL, cells_of
from fp3o.statistics.compare import Comparison, compare_cell, judge
from fp3o.statistics.digits import decimals
from fp3o.statistics.intervals import Interval, Summary, interval_of
from fp3o.statistics.paired import Paired, by_seed
from fp3o.statistics.paired import compare as paired_compare
from fp3o.statistics.paired import judge as judge_paired
from fp3o.statistics.published import Published
from fp3o.statistics.scores import CellRuns, engine_of, pooled_median, scoring_of
from fp3o.statistics.suites import SuiteRuns, as_command, csv_text, load, parser, write

# Notes on published numbers: LaTeX label of the table, beginning of the cell ids concerned, text. More of them are in
# docs/deviations.md.
REMARKS = (
    (
        "table_MAMuJoCo_results",
        "mamujoco/walker2d-2x3/partial",
        "Erratum: the paper underlines HAPPO (2717.4) as second on 2-Agent Walker under partial sharing; its MAPPO "
        "(2748.7) is second.",
    ),
    (
        "table_appendix_approximation_analysis",
        "smac/6h_vs_8z/full",
        "Erratum: the paper prints 93.8 ± 6.1 for FP3O on 6h vs. 8z here and 90.6 ± 6.6 in its main table (93.8 ± 6.1 "
        "is that table's 5m vs. 6m); we compare with 90.6 ± 6.6.",
    ),
    (
        "table_appendix_MPE",
        "mpe/",
        "The published ± is as large as the spread over single episodes; the paper does not say over what it was "
        "taken. Taken as over five seeds, the careful reading, it leaves most verdicts undecided: see whether the "
        "published value lies in our prediction interval.",
    ),
)


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    cell: str
    summary: Summary | None = None
    """Of our runs; None where there are none."""
    planned: int = 0
    """Number of seeds planned …"""
    diverged: int = 0
    """… and of those that diverged."""
    interval: Interval | None = None
    """95 % interval of our mean or median."""
    published: Published | None = None
    comparison: Comparison | None = None
    """None where there is nothing to compare, or our settings deviate."""
    deviations: tuple[Change, ...] = ()
    bold: bool = False
    underline: bool = False
    runs: CellRuns | None = None
    digits: int = 1
    """Decimals it is printed with; those of its row."""
    paired: Paired | None = None
    """Against the table's baseline; None for the baseline itself, and where one of the two was not run."""

    @property
    def verdict(self) -> str:
        """`Comparison.words`, or why there is no comparison."""
        if self.summary is None:
            return "not run" if not self.diverged else "diverged"
        if self.published is None:
            return ""
        return "not compared" if self.comparison is None else self.comparison.words

    @property
    def category(self) -> str:
        """The verdict under which the cell is counted."""
        return "undecided" if self.verdict.startswith("undecided") else self.verdict

    @property
    def against(self) -> str:
        """The comparison with the baseline for readers: +0.12 [0.03, 0.21] better."""
        if self.paired is None:
            return ""
        difference, low, high = (
            fixed(value, self.digits) for value in (self.paired.difference, self.paired.low, self.paired.high)
        )
        sign = "+" if self.paired.difference > 0 else ""
        return f"{sign}{difference}" + (f" [{low}, {high}]" if low and high else "") + f" {self.paired.verdict}"

    @property
    def count(self) -> str:
        """Number of seeds for readers: `n = 5`, `n = 4/5` (of those planned), `n = 5, 1 diverged`."""
        n = self.summary.n if self.summary else 0
        seeds = f"n = {n}" if n == self.planned else f"n = {n}/{self.planned}"
        return f"{seeds}, {self.diverged} diverged" if self.diverged else seeds


@dataclass(frozen=True)
class Row:
    """A task under one kind of sharing."""

    sharing: str
    title: str
    difficulty: str
    agents: str
    entries: tuple[Entry, ...]

    @property
    def started(self) -> bool:
        """Whether any of its cells was run."""
        return any(entry.runs is not None and entry.runs.runs for entry in self.entries)


@dataclass(frozen=True)
class Table:
    """A table before it is written as CSV, Markdown or LaTeX; rows in the paper's order."""

    name: str
    caption: str
    columns: tuple[str, ...]
    """Algorithm labels."""
    controls: tuple[str, ...]
    """Those among the columns that the paper does not have."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    label: str = ""
    baseline: str = ""
    """The algorithm that the others are compared with, seed by seed; "": none."""

    @property
    def entries(self) -> list[Entry]:
        return [entry for row in self.rows for entry in row.entries]

    @property
    def started(self) -> bool:
        """Whether any of its cells was run."""
        return any(row.started for row in self.rows)

    @property
    def has_difficulty(self) -> bool:
        """Whether any task is rated: the paper rates its SMAC maps."""
        return any(row.difficulty for row in self.rows)

    @property
    def has_agents(self) -> bool:
        """Whether any task says if its agents are alike (HO, homogeneous) or not (HE, heterogeneous)."""
        return any(row.agents for row in self.rows)

    def column_title(self, label: str) -> str:
        """The algorithm's name; a control is marked as ours."""
        return algorithm_title(label) + (" — ours" if label in self.controls else "")

    def framed(self, first: Sequence[str], difficulty: str, middle: Iterable[str], agents: str) -> list[str]:
        """A line of the table: difficulty before the algorithms and agents after them, where the table has them."""
        rating, team = [difficulty] * self.has_difficulty, [agents] * self.has_agents
        return [*first, *rating, *middle, *team]

    @property
    def header(self) -> list[str]:
        """Titles of all columns but the first, which a writer may name its own way."""
        return self.framed(["Task"], "Difficulty", map(self.column_title, self.columns), "Agent")


# --- Building -----------------------------------------------------------------------------------------------------


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
    mislead."""
    ranked = [place for place, label in enumerate(columns) if label not in controls]
    summaries = [row.entries[place].summary for place in ranked]
    values = [summary.centre for summary in summaries if summary is not None]
    if len(values) < len(ranked) or len(values) < 2:
        return row
    entries = list(row.entries)
    for place, mark in zip(ranked, marks(values, entries[0].digits), strict=True):
        entries[place] = replace(entries[place], bold=mark == "bold", underline=mark == "underline")
    return replace(row, entries=tuple(entries))


def entry_of(cell_runs: CellRuns) -> Entry:
    """One cell of a table, its p-value not yet adjusted for the number of cells."""
    values = cell_runs.scores()
    comparison = compare_cell(cell_runs.cell, values) if not cell_runs.deviations else None
    return Entry(
        cell=cell_runs.cell,
        summary=cell_runs.summary(),
        planned=len(cell_runs.planned.seeds),
        diverged=cell_runs.diverged,
        interval=interval_of(values, scoring_of(cell_runs.cell).statistic) if values else None,
        published=paper.scores().get(cell_runs.cell),
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
    judged = _judged([entry_of(data.cells[cell.id]) for cell in members])
    if artefact.baseline:
        judged = _against(judged, artefact.baseline)
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
    return replace(table, notes=tuple(_notes(table)))


def _judged(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The entries of one table by cell, p-values adjusted for their number (`judge`)."""
    by_cell = {entry.cell: entry for entry in entries}
    compared = [(name, entry.comparison) for name, entry in by_cell.items() if entry.comparison is not None]
    for (name, _), verdict in zip(compared, judge([comparison for _, comparison in compared]), strict=True):
        by_cell[name] = replace(by_cell[name], comparison=verdict)
    return by_cell


def _against(entries: dict[str, Entry], baseline: str) -> dict[str, Entry]:
    """The entries with their comparisons with the baseline's cell of the same row, adjusted for their number."""
    found: dict[str, Paired] = {}
    for name, entry in entries.items():
        base = entries.get(f"{Cell.of(name).row}/{baseline}")
        if base is not None and base is not entry and entry.runs is not None and base.runs is not None:
            paired = paired_compare(by_seed(entry.runs), by_seed(base.runs))
            if paired is not None:
                found[name] = paired
    judged = dict(zip(found, judge_paired(list(found.values())), strict=True))
    return {name: replace(entry, paired=judged.get(name)) for name, entry in entries.items()}


def _engines(members: Sequence[CellRuns], where: str) -> dict[str, list[str]]:
    """By engine, the tasks it simulated; UserError if it is not the same throughout a row."""
    rows: dict[CellRow, list[CellRuns]] = {}
    for cell_runs in members:
        rows.setdefault(Cell.of(cell_runs.cell).row, []).append(cell_runs)
    found: dict[str, list[str]] = {}
    for row, cells in rows.items():
        engine = engine_of(cells, f"{where}, row {row}")
        if engine and row.task not in found.setdefault(engine, []):
            found[engine].append(row.task)
    return found


def _notes(table: Table) -> list[str]:
    """The notes under a table: scoring rule, engine, missing and diverged seeds, deviations, errata, verdicts."""
    runs = [entry.runs for entry in table.entries if entry.runs is not None]
    notes = []
    for domain in dict.fromkeys(Cell.of(cell_runs.cell).domain for cell_runs in runs):
        members = [cell_runs for cell_runs in runs if Cell.of(cell_runs.cell).domain == domain]
        about = DOMAINS[domain]
        notes.append(f"{domain}: {scoring_of(domain).words}.")
        engines = _engines(members, table.name)
        several = len(engines) > 1
        named = [f"{engine} ({', '.join(tasks)})" if several else engine for engine, tasks in engines.items()]
        notes.append(f"{domain}: simulated by {'; '.join(named)}." if named else f"{domain}: no run yet.")
        if about.real_backend and any(about.real_backend not in engine for engine in engines):
            notes.append("smac: the embedded engine is not StarCraft II; published values are of the real game.")
        package = about.package.lower()
        documents = [run.document for cell_runs in members for run in cell_runs.runs]
        builds = sorted({document["versions"].get(package, "") for document in documents} - {""})
        if len(builds) > 1:
            notes.append(f"{domain}: runs of several {about.package} versions: {', '.join(builds)}.")
    if table.controls:
        names = ", ".join(algorithm_title(label) for label in table.controls)
        notes.append(f"{names}: our control, not in the paper, and not ranked.")
    done = [entry for entry in table.entries if entry.summary]
    notes.append(f"{len(done)} of {len(table.entries)} cells run.")
    short = [f"{entry.cell} ({entry.count})" for entry in done if entry.summary and entry.summary.n < entry.planned]
    if short:
        notes.append(f"Seeds missing: {'; '.join(short)}.")
    diverged = [f"{entry.cell} ({entry.diverged})" for entry in table.entries if entry.diverged]
    if diverged:
        notes.append(f"Diverged seeds, scored by their last evaluations: {'; '.join(diverged)}.")
    departures = sorted({str(change) for entry in done for change in entry.deviations})
    if departures:
        reason = ", so not compared with the paper" if any(entry.published for entry in done) else ""
        notes.append(f"Deviates from the plain cells{reason}: {'; '.join(departures)}.")
    if table.label == "table_appendix_MPE":
        tasks = {Cell.of(entry.cell).task for entry in table.entries}
        notes += [
            f"{bound.task}: a team that knew every goal {bound.goal_known} would score {bound.value:.1f} ± "
            f"{bound.spread:.1f} over episodes (our search, near-optimal)."
            for bound in paper.bounds()
            if bound.task in tasks
        ]
    notes += [
        text
        for label, row, text in REMARKS
        if label == table.label and any(entry.cell.startswith(row) for entry in table.entries)
    ]
    if any(entry.paired for entry in done):
        notes.append(
            f"Second line: difference to {algorithm_title(table.baseline)}, mean over the seeds that both have, 95 % t "
            "interval. Better, worse: significant at 5 % by the paired t-test after Benjamini and Hochberg over this "
            "table; equivalent: 90 % interval within the larger of 10 % and one standard deviation of the baseline."
        )
    if any(entry.comparison for entry in done):
        notes.append(
            "Verdicts: consistent = equivalent within the margin (two one-sided tests), differs = significant at 5 % "
            "after Benjamini and Hochberg over this table, else undecided; the prediction interval is where five "
            "further seeds of ours would fall."
        )
    return notes


def published_table(name: str) -> Table:
    """A table of the paper's own numbers, bold and underline set by `marks`."""
    entries = paper.table(name)
    columns = tuple(dict.fromkeys(Cell.of(entry.cell).label for entry in entries))
    groups: dict[CellRow, list[Published]] = {}
    for entry in entries:
        groups.setdefault(Cell.of(entry.cell).row, []).append(entry)
    rows = tuple(
        with_marks(
            Row(
                sharing=key.sharing,
                title=members[0].title,
                difficulty=members[0].difficulty,
                agents=members[0].agents,
                entries=tuple(
                    Entry(member.cell, Summary(member.value, member.spread or 0.0, paper.SEEDS), paper.SEEDS)
                    for member in members
                ),
            ),
            columns,
            (),
        )
        for key, members in groups.items()
    )
    return Table(f"published-{name}", "", columns, (), rows, label=entries[0].label)


# --- Writing ------------------------------------------------------------------------------------------------------


def fixed(value: float | None, digits: int = 1) -> str:
    """A number with this many decimals; "" for None, NaN and infinities; never `-0.0`."""
    if value is None or not math.isfinite(value):
        return ""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


CSV_COLUMNS = (
    *(
        "domain",
        "task",
        "sharing",
        "algorithm",
        "ours",
        "spread",
        "n",
        "planned",
        "diverged",
        "low",
        "high",
        "coverage",
    ),
    *("mark", "published", "published_spread", "difference", "difference_low", "difference_high", "standardised"),
    *("p_adjusted", "margin", "prediction_low", "prediction_high", "percentile", "verdict", "pooled_median"),
    *("pooled_spread", "episode_spread", "deviations"),
)


def to_csv(table: Table) -> str:
    """One line per cell, with all of `CSV_COLUMNS`."""
    more = PAIRED_COLUMNS if table.baseline else ()
    lines = [[*Cell.of(entry.cell).parts, *_csv_fields(entry)] for entry in table.entries]
    if table.baseline:
        lines = [[*line, *_paired_fields(entry)] for line, entry in zip(lines, table.entries, strict=True)]
    return csv_text((*CSV_COLUMNS, *more), lines)


PAIRED_COLUMNS = ("paired_n", "paired_difference", "paired_low", "paired_high", "paired_p", "paired_verdict")


def _paired_fields(entry: Entry) -> list[str]:
    if entry.paired is None:
        return [""] * len(PAIRED_COLUMNS)
    n, difference, low, high, p, _, verdict = entry.paired
    digits = max(3, entry.digits + 2)
    return [str(n), *(fixed(value, digits) for value in (difference, low, high)), fixed(p, 5), verdict]


def _csv_fields(entry: Entry) -> list[str]:
    summary, interval, theirs, comparison = entry.summary, entry.interval, entry.published, entry.comparison
    pooled = pooled_median(entry.runs) if entry.runs and scoring_of(entry.cell).statistic == "median" else None
    spreads = [run.episode_spread for run in entry.runs.runs if run.episode_spread is not None] if entry.runs else []
    digits = max(3, entry.digits + 2)
    return [
        fixed(summary.centre, digits) if summary else "",
        fixed(summary.spread, digits) if summary and summary.n > 1 else "",
        str(summary.n if summary else 0),
        str(entry.planned),
        str(entry.diverged),
        fixed(interval.low, digits) if interval else "",
        fixed(interval.high, digits) if interval else "",
        fixed(interval.coverage, 4) if interval else "",
        "bold" if entry.bold else "underline" if entry.underline else "",
        fixed(theirs.value) if theirs else "",
        fixed(theirs.spread) if theirs else "",
        fixed(comparison.difference, 3) if comparison else "",
        fixed(comparison.low, 3) if comparison else "",
        fixed(comparison.high, 3) if comparison else "",
        fixed(comparison.standardised, 3) if comparison else "",
        fixed(comparison.p, 5) if comparison else "",
        fixed(comparison.margin, 3) if comparison else "",
        fixed(comparison.prediction.low, 3) if comparison else "",
        fixed(comparison.prediction.high, 3) if comparison else "",
        fixed(comparison.percentile, 4) if comparison else "",
        entry.verdict,
        fixed(pooled.centre, 3) if pooled else "",
        fixed(pooled.spread, 3) if pooled else "",
        fixed(math.fsum(spreads) / len(spreads), digits) if spreads else "",
        "; ".join(map(str, entry.deviations)),
    ]


def to_markdown(table: Table) -> str:
    """For readers: in each field our score, the published one and the verdict."""
    header = ["Sharing", *table.header]
    lines = [f"**{table.name}** {table.caption}".rstrip(), ""]
    lines += ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for row in table.rows:
        cells = table.framed([row.title], row.difficulty, map(_markdown_cell, row.entries), row.agents)
        lines.append("| " + " | ".join([row.sharing, *cells]) + " |")
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]) + "\n"


def _markdown_cell(entry: Entry) -> str:
    if entry.runs is None and entry.summary is None:
        return "—"
    if entry.summary is None:
        parts = [entry.verdict]
    else:
        value = fixed(entry.summary.centre, entry.digits)
        value = f"**{value}**" if entry.bold else f"<u>{value}</u>" if entry.underline else value
        spread = f" ± {fixed(entry.summary.spread, entry.digits)}" if entry.summary.n > 1 else ""
        parts = [f"{value}{spread} ({entry.count})"]
    if entry.paired is not None:
        parts.append(entry.against)
    if entry.published is not None:
        parts.append(f"paper {entry.published.text}")
        if entry.summary is not None:
            parts.append(entry.verdict)
    return "<br>".join(parts)


VERDICT_MARKS = {"consistent": "$=$", "undecided": "?", "ours higher": r"$\uparrow$", "ours lower": r"$\downarrow$"}


def to_latex(table: Table) -> str:
    """Booktabs with the paper's columns, bold and underline; below each row the published numbers and verdicts."""
    compared = any(entry.published for entry in table.entries)
    columns = ["l", *table.framed(["l"], "l", "c" * len(table.columns), "c")]
    lines = [r"\begin{table}", r"\small\centering", rf"\begin{{tabular}}{{{' '.join(columns)}}}", r"\toprule"]
    lines.append(" & ".join(map(escape, ["Network", *table.header])) + r" \\")
    for sharing, group in groupby(table.rows, key=lambda row: row.sharing):
        members = list(group)
        height = len(members) * (1 + compared + bool(table.baseline))
        lines += [r"\midrule", rf"\multirow{{{height}}}{{*}}{{{SHARINGS[sharing].title}}}"]
        for row in members:
            task, rating = escape(row.title), escape(row.difficulty)
            ours = table.framed(["", task], rating, map(_latex_ours, row.entries), row.agents)
            lines.append(" & ".join(ours).strip() + r" \\")
            if compared:
                theirs = table.framed(["", r"\tiny paper"], "", map(_latex_published, row.entries), "")
                lines.append(" & ".join(theirs).strip() + r" \\")
            if table.baseline:
                against = [rf"\tiny {escape(entry.against)}" if entry.paired else "" for entry in row.entries]
                name = rf"\tiny to {escape(algorithm_title(table.baseline))}"
                lines.append(" & ".join(table.framed(["", name], "", against, "")).strip() + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    signs = r" $=$ consistent, $\uparrow$ $\downarrow$ differs (ours higher, lower), ? undecided." if compared else ""
    lines.append(rf"\caption{{{escape(' '.join([f'{table.caption}.', *table.notes]))}{signs}}}")
    label = re.sub(r"[^\w:.-]", "-", table.label or table.name)
    lines += [rf"\label{{reproduced_{label}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_ours(entry: Entry) -> str:
    if entry.summary is None:
        return "--" if entry.runs is None else escape(entry.verdict)
    value = fixed(entry.summary.centre, entry.digits)
    value = rf"\textbf{{{value}}}" if entry.bold else rf"\underline{{{value}}}" if entry.underline else value
    if entry.summary.n > 1:
        value += rf"\tiny{{$\pm${fixed(entry.summary.spread, entry.digits)}}}"
    return value if entry.count == f"n = {paper.SEEDS}" else rf"{value}\,\tiny{{({entry.count})}}"


def _latex_published(entry: Entry) -> str:
    if entry.published is None:
        return ""
    value = f"{entry.published.value:.{entry.published.decimals}f}"
    spread = "" if entry.published.spread is None else rf"$\pm${entry.published.spread:.1f}"
    sign = VERDICT_MARKS.get(entry.comparison.direction or entry.comparison.verdict, "") if entry.comparison else ""
    return rf"\tiny {value}{spread} {sign}".rstrip()


# Captions and notes are plain text: LaTeX's special characters are escaped.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "%": r"\%",
        "_": r"\_",
        "×": r"$\times$",
        "±": r"$\pm$",
        "—": "---",
        "→": r"$\to$",
        "†": r"$\dagger$",
        "<": "$<$",
    }
)


def escape(text: str) -> str:
    return text.translate(_LATEX)


WRITERS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def write_table(table: Table, folder: Path) -> None:
    """<name>.csv, .md and .tex."""
    for suffix, writer in WRITERS.items():
        write(folder / f"{table.name}.{suffix}", writer(table))


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser("Tables of a suite from the runs that exist.", out="folder for <artefact>.{csv,md,tex}")
    arguments.add_argument("--artefact", action="append", help="only this table (may be repeated); default: all")
    chosen = arguments.parse_args(argv)
    data = load(chosen)
    names = chosen.artefact or [artefact.name for artefact in data.suite.artefacts if artefact.kind == "table"]
    for name in names:
        write_table(build(data, data.suite.artefact(name, "table")), chosen.out)


if __name__ == "__main__":
    as_command(main)
