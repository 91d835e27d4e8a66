"""Tables of texts, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fp3o.statistics.suites import markdown, write
from fp3o.statistics.tables.writers import escape


class TextTable(NamedTuple):
    """A table for readers, with notes below it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> str:
        return "\n".join([markdown(self.header, self.rows), "", *(f"- {note}" for note in self.notes)]) + "\n"

    def latex(self, caption: str, label: str, columns: str) -> str:
        """With booktabs. label: of the paper's table; columns: alignment of each, e.g. "lrr"."""
        lines = [r"\begin{table}", r"\tiny\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines += [" & ".join(map(escape, self.header)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(escape, row)) + r" \\" for row in self.rows]
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape(' '.join([caption, *self.notes]))}}}"]
        return "\n".join([*lines, rf"\label{{reproduced_{label}}}", r"\end{table}"]) + "\n"

    def write(self, path: Path, csv: str, caption: str, label: str, columns: str) -> None:
        """<path>.csv with this text, .md and .tex."""
        for suffix, text in (("csv", csv), ("md", self.markdown()), ("tex", self.latex(caption, label, columns))):
            write(path.with_name(f"{path.name}.{suffix}"), text)
