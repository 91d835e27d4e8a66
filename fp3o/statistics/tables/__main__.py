"""The paper's tables from our runs: CSV with everything; Markdown and LaTeX with the published numbers beside ours.

python -m fp3o.statistics.tables --suite paper --artefact table-mamujoco --out results/paper/tables
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fp3o.errors import as_command
from fp3o.statistics.suites import chosen_artefacts, load, parser, write
from fp3o.statistics.tables.build import build
from fp3o.statistics.tables.model import Table
from fp3o.statistics.tables.writers import to_csv, to_latex, to_markdown

WRITERS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def main(argv: Sequence[str] | None = None) -> None:
    about, out = "Tables of a suite from the runs that exist.", "folder for <artefact>.{csv,md,tex}"
    chosen = parser(about, out=out, artefacts=True).parse_args(argv)
    data = load(chosen)
    for artefact in chosen_artefacts(data.suite, chosen, "table"):
        table = build(data, artefact)
        for suffix, writer in WRITERS.items():
            write(chosen.out / f"{table.name}.{suffix}", writer(table))


if __name__ == "__main__":
    as_command(main)
