"""Writes tables as CSV with all columns, and as Markdown and LaTeX with the published numbers beside ours."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import groupby

from fp3o.config import SHARINGS, Cell, algorithm_title
from fp3o.statistics import published as paper
from fp3o.statistics.scores import pooled_median, scoring_of
from fp3o.statistics.suites import csv_text, markdown
from fp3o.statistics.tables.digits import fixed
from fp3o.statistics.tables.model import Entry, Table


def to_csv(table: Table) -> str:
    """One line per cell, with all that is known of it."""
    lines = [_csv_fields(entry) | (_paired_fields(entry) if table.baseline else {}) for entry in table.entries]
    return csv_text(list(lines[0]), [list(line.values()) for line in lines])


def _csv_fields(entry: Entry) -> dict[str, str]:
    """By column."""
    domain, task, sharing, label = Cell.of(entry.cell).parts
    summary, interval, theirs, comparison = entry.summary, entry.interval, entry.published, entry.comparison
    pooled = pooled_median(entry.runs) if entry.runs and scoring_of(entry.cell).statistic == "median" else None
    spreads = [run.episode_spread for run in entry.runs.runs if run.episode_spread is not None] if entry.runs else []
    digits = max(3, entry.digits + 2)
    return {
        "domain": domain,
        "task": task,
        "sharing": sharing,
        "algorithm": label,
        "ours": fixed(summary.centre, digits) if summary else "",
        "spread": fixed(summary.spread, digits) if summary and summary.n > 1 else "",
        "n": str(summary.n if summary else 0),
        "planned": str(entry.planned),
        "diverged": str(entry.diverged),
        "low": fixed(interval.low, digits) if interval else "",
        "high": fixed(interval.high, digits) if interval else "",
        "coverage": fixed(interval.coverage, 4) if interval else "",
        "mark": "bold" if entry.bold else "underline" if entry.underline else "",
        "published": fixed(theirs.value) if theirs else "",
        "published_spread": fixed(theirs.spread) if theirs else "",
        "difference": fixed(comparison.difference, 3) if comparison else "",
        "difference_low": fixed(comparison.low, 3) if comparison else "",
        "difference_high": fixed(comparison.high, 3) if comparison else "",
        "standardised": fixed(comparison.standardised, 3) if comparison else "",
        "p_adjusted": fixed(comparison.p, 5) if comparison else "",
        "margin": fixed(comparison.margin, 3) if comparison else "",
        "prediction_low": fixed(comparison.prediction.low, 3) if comparison else "",
        "prediction_high": fixed(comparison.prediction.high, 3) if comparison else "",
        "percentile": fixed(comparison.percentile, 4) if comparison else "",
        "verdict": entry.verdict,
        "pooled_median": fixed(pooled.centre, 3) if pooled else "",
        "pooled_spread": fixed(pooled.spread, 3) if pooled else "",
        "episode_spread": fixed(math.fsum(spreads) / len(spreads), digits) if spreads else "",
        "deviations": "; ".join(map(str, entry.deviations)),
    }


def _paired_fields(entry: Entry) -> dict[str, str]:
    paired, digits = entry.paired, max(3, entry.digits + 2)
    return {
        "paired_n": str(paired.n) if paired else "",
        "paired_difference": fixed(paired.difference, digits) if paired else "",
        "paired_low": fixed(paired.low, digits) if paired else "",
        "paired_high": fixed(paired.high, digits) if paired else "",
        "paired_p": fixed(paired.p, 5) if paired else "",
        "paired_verdict": paired.verdict if paired else "",
    }


def to_markdown(table: Table) -> str:
    """For readers: in each field our score, the published one and the verdict."""
    header = ["Sharing", *table.header]
    caption = table.caption.replace("<", "&lt;")  # A suite's author writes text; Markdown would take it for HTML.
    rows = [
        table.framed([row.sharing, row.title], row.difficulty, map(_markdown_cell, row.entries), row.agents)
        for row in table.rows
    ]
    lines = [f"**{table.name}** {caption}".rstrip(), "", markdown(header, rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in table.notes)]) + "\n"


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
    lines = []
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
    signs = r" $=$ consistent, $\uparrow$ $\downarrow$ differs (ours higher, lower), ? undecided." if compared else ""
    caption, label = " ".join([f"{table.caption}.", *table.notes]), re.sub(r"[^\w:.-]", "-", table.label or table.name)
    return latex_table("small", " ".join(columns), ["Network", *table.header], lines, caption, label, signs)


def latex_table(
    size: str, columns: str, header: Sequence[str], body: Sequence[str], caption: str, label: str, signs: str = ""
) -> str:
    """With booktabs. columns: alignment of each; body: lines in LaTeX, as `signs` after the caption are."""
    lines = [r"\begin{table}", rf"\{size}\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(map(escape, header)) + r" \\", *body, r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\caption{{{escape(caption)}{signs}}}", rf"\label{{reproduced_{label}}}", r"\end{table}"]
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
