"""docs/paper-map.md: every table, figure and claim of the paper, what reproduces it, and how much of that was run.

From results/paper/: manifest.json, scorecard.json, cost.csv.

python -m fp3o.statistics.paper_map --out docs/paper-map.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fp3o import config
from fp3o.config import Artefact, Suite
from fp3o.errors import as_command
from fp3o.runs import layout
from fp3o.statistics import cost, published
from fp3o.statistics.suites import write

# One artefact is made for two tables: time and memory are measured together.
TOGETHER = {"table_appendix_computational2": "table_appendix_computational1"}


def document(suite: Suite, manifest: Mapping[str, Any], scorecard: Mapping[str, Any], measured: Collection[str]) -> str:
    """The text of the file; measured: cells whose cost is known."""

    def of(label: str) -> list[Artefact]:
        return [artefact for artefact in suite.artefacts if artefact.paper == TOGETHER.get(label, label)]

    def state(artefact: Artefact) -> str:
        return _state(suite, artefact, manifest, measured)

    loader = FileSystemLoader(config.repository() / "docs/templates")
    templates = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return templates.get_template("paper-map.md.j2").render(
        paper=published.paper(),
        files=lambda label: ", ".join(f"`{_file(artefact)}`" for artefact in of(label)) or "–",
        states=lambda label: ", ".join(map(state, of(label))) or "not drawn",
        ours=[artefact for artefact in suite.artefacts if not artefact.paper],
        file=_file,
        state=state,
        claims=scorecard["claims"],
    )


def _file(artefact: Artefact) -> str:
    if artefact.kind == "figure":
        return f"figures/{artefact.name}.png"
    return f"tables/{artefact.name}.md"


def _state(suite: Suite, artefact: Artefact, manifest: Mapping[str, Any], measured: Collection[str]) -> str:
    """complete, not run, or how many of its cells are complete."""
    if artefact.states_facts:
        return "complete"
    if artefact.reads:
        return _state(suite, suite.artefact(artefact.reads), manifest, measured)
    if artefact.kind == "cost":
        done = [cell.id in measured for cell in artefact.cells]
    else:
        runs = {(run["cell"], run["digest"], run["seed"]) for run in manifest["runs"].values()}
        done = [all(run in runs for run in _runs(suite, cell.id)) for cell in artefact.cells]
    if not any(done):
        return "not run"
    return "complete" if all(done) else f"{sum(done)} of {len(done)} cells"


def _runs(suite: Suite, cell: str) -> Iterator[tuple[str, str, int]]:
    plan, seeds = suite.run(cell)
    yield from ((cell, plan.digest, seed) for seed in seeds)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description="What of the paper is reproduced by which file, and its state.")
    arguments.add_argument("--out", type=Path, required=True, help="docs/paper-map.md")
    chosen = arguments.parse_args(argv)
    suite = config.load_suite("paper")
    root = layout.suite_root(suite.name)
    manifest, scorecard = (json.loads((root / name).read_bytes()) for name in ("manifest.json", "scorecard.json"))
    measured = {entry.cell for entry in cost.read(root / "cost.csv")}
    write(chosen.out, document(suite, manifest, scorecard, measured))


if __name__ == "__main__":
    as_command(main)
