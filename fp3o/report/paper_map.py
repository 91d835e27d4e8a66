"""What docs/paper-map.md says of every table and figure of the paper: its files, and how much of them was run."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from fp3o import config
from fp3o.config import Artefact, Suite
from fp3o.runs.layout import RunId
from fp3o.statistics import cost

# One artefact is made for two tables: time and memory are measured together.
TOGETHER = {"table_appendix_computational2": "table_appendix_computational1"}


class PaperMap(NamedTuple):
    """The paper's suite and what of it was run."""

    suite: Suite
    runs: Collection[RunId]
    measured: Collection[str]
    """Cells whose cost is known."""

    @staticmethod
    def read(results: Path) -> PaperMap:
        """From manifest.json and cost.csv."""
        runs = json.loads((results / "manifest.json").read_bytes())["runs"].values()
        measured = {entry.cell for entry in cost.read(results / "cost.csv")}
        return PaperMap(config.load_suite("paper"), set(map(RunId.of, runs)), measured)

    def of(self, label: str) -> list[Artefact]:
        """The artefacts that are made for a table or figure; those of ours for ""."""
        return [artefact for artefact in self.suite.artefacts if artefact.paper == TOGETHER.get(label, label)]

    def file(self, artefact: Artefact) -> str:
        return f"figures/{artefact.name}.png" if artefact.kind == "figure" else f"tables/{artefact.name}.md"

    def state(self, artefact: Artefact) -> str:
        """complete, not run, or how many of its cells are complete."""
        if artefact.states_facts:
            return "complete"
        if artefact.reads:
            return self.state(self.suite.artefact(artefact.reads))
        done = [self._complete(artefact.kind, cell.id) for cell in artefact.cells]
        if not any(done):
            return "not run"
        return "complete" if all(done) else f"{sum(done)} of {len(done)} cells"

    def _complete(self, kind: str, cell: str) -> bool:
        if kind == "cost":
            return cell in self.measured
        plan, seeds = self.suite.run(cell)
        return all(RunId(cell, plan.digest, seed) in self.runs for seed in seeds)
