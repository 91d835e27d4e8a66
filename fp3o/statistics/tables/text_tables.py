"""Tables of texts, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fp3o.statistics.suites import markdown, write
from fp3o.statistics.tables.writers import escape, latex_table


class TextTable(NamedTuple):
    """A table for readers, with notes below it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> str:
        return "\n".join([markdown(self.header, self.rows), "", *(f"- {note}" for note in self.notes)]) + "\n"

    def latex(self, caption: str, label: str, columns: str) -> str:
        """With booktabs. label: of the paper's table; columns: alignment of each, e.g. "lrr"."""
        rows = [" & ".join(map(escape, row)) + r" \\" for row in self.rows]
        return latex_table("tiny", columns, self.header, [r"\midrule", *rows], " ".join([caption, *self.notes]), label)

    def write(self, path: Path, csv: str, caption: str, label: str, columns: str) -> None:
        """<path>.csv with this text, .md and .tex."""
        for suffix, text in (("csv", csv), ("md", self.markdown()), ("tex", self.latex(caption, label, columns))):
            write(path.with_name(f"{path.name}.{suffix}"), text)
