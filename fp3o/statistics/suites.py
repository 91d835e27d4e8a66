"""The runs of a suite, and the arguments every command here takes."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from fp3o import plan
from fp3o.statistics.scores import CellRuns, Planned, collect


class SuiteRuns:
    """A suite and whatever exists of its runs, read once."""

    def __init__(self, suite: plan.Suite, runs: Path) -> None:
        self.suite = suite
        self.root = runs
        planned = [Planned(resolved.cell.id, resolved.digest, seeds) for resolved, seeds in suite.runs()]
        self.cells: dict[str, CellRuns] = {found.cell: found for found in collect(runs, planned)}

    def of(self, artefact: plan.Artefact) -> list[CellRuns]:
        """The cells of an artefact, in its order."""
        return [self.cells[cell.id] for cell in artefact.cells]


def parser(what: str, *, out: str) -> argparse.ArgumentParser:
    """--suite, --runs and --out, with the folders a suite uses by default."""
    arguments = argparse.ArgumentParser(description=what)
    arguments.add_argument("--suite", default="paper", help="which benchmarks/<suite>.yaml")
    arguments.add_argument("--runs", type=Path, help="folder of the runs; default: results/<suite>/runs")
    arguments.add_argument("--out", type=Path, required=True, help=out)
    return arguments


def load(arguments: argparse.Namespace) -> SuiteRuns:
    """What the arguments name."""
    suite = plan.load_suite(arguments.suite)
    return SuiteRuns(suite, arguments.runs or plan.suite_root(suite.name) / "runs")


def write(path: Path, text: str) -> None:
    """The same bytes on every machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV with plain newlines; numbers must come formatted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
