"""Tables of texts, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from fp3o.statistics.tables.writers import escape


def to_markdown(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """A table and a list of notes below it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", *(f"- {note}" for note in notes)]) + "\n"


def to_latex(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str, columns: str) -> str:
    """The same with booktabs. columns: alignment of each, e.g. "lrr"; label: of the paper's table."""
    lines = [r"\begin{table}", r"\tiny\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(map(escape, header)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(escape, row)) + r" \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape(caption)}}}"]
    return "\n".join([*lines, rf"\label{{reproduced_{label}}}", r"\end{table}"]) + "\n"
