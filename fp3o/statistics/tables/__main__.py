"""The paper's tables from our runs: CSV with everything; Markdown and LaTeX with the published numbers beside ours.

python -m fp3o.statistics.tables --suite paper --artefact table-mamujoco --out results/paper/tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fp3o.statistics.suites import as_command, load, parser, write
from fp3o.statistics.tables.build import build
from fp3o.statistics.tables.model import Table
from fp3o.statistics.tables.writers import to_csv, to_latex, to_markdown

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
