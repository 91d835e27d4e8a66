"""The runs of a suite, and what the commands of this package (`python -m fp3o.statistics.…`) have in common."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, records
from fp3o.statistics.choices import USUAL
from fp3o.statistics.scores import CellRuns, Planned, collect, departures

FIGURE_PACKAGES = ("bokeh", "matplotlib")
"""Training does without them: the extra `figures` of pyproject.toml."""


class Cells(Mapping[str, CellRuns]):
    """Cell id → runs, for every planned cell; runs are read from disk when first asked for."""

    def __init__(self, runs: Path, planned: Iterable[Planned]) -> None:
        self._runs = runs
        self._planned = {cell.cell: cell for cell in planned}
        self._found: dict[str, CellRuns] = {}

    def __getitem__(self, cell: str) -> CellRuns:
        if cell not in self._found:
            (self._found[cell],) = collect(self._runs, [self._planned[cell]])
        return self._found[cell]

    def __iter__(self) -> Iterator[str]:
        return iter(self._planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __contains__(self, cell: object) -> bool:
        return cell in self._planned


class SuiteRuns:
    """A suite and those of its runs that exist."""

    def __init__(self, suite: config.Suite, runs: Path) -> None:
        self.suite = suite
        self.root = runs
        self._planned = [
            Planned(plan.cell.id, plan.digest, seeds, bool(departures(plan.deviations))) for plan, seeds in suite.runs()
        ]
        self._started: dict[str, bool] = {}
        self.cells: Mapping[str, CellRuns] = Cells(runs, self._planned)
        self.choices = USUAL

    def has_runs(self, start: str) -> bool:
        """Whether any cell whose id starts so has a run. Asks for files, and reads none."""
        if start not in self._started:
            cells = (plan for plan in self._planned if f"{plan.cell}/".startswith(start))
            ids = (layout.RunId(plan.cell, plan.digest, seed) for plan in cells for seed in plan.seeds)
            self._started[start] = any((self.root / run.path / records.RUN).is_file() for run in ids)
        return self._started[start]

    def of(self, artefact: config.Artefact) -> list[CellRuns]:
        """The cells of an artefact, in its order."""
        return [self.cells[cell.id] for cell in artefact.cells]


def parser(what: str, *, out: str) -> argparse.ArgumentParser:
    """--suite, --runs and --out, with the folders a suite uses by default."""
    arguments = argparse.ArgumentParser(description=what)
    arguments.add_argument("--suite", default="paper", help="which benchmarks/suites/<suite>.yaml")
    arguments.add_argument("--runs", type=Path, help="folder of the runs; default: results/<suite>/runs")
    arguments.add_argument("--out", type=Path, required=True, help=out)
    return arguments


def load(arguments: argparse.Namespace) -> SuiteRuns:
    """The suite and runs that the command line names."""
    suite = config.load_suite(arguments.suite)
    if arguments.runs is not None and not arguments.runs.is_dir():
        raise UserError(f"--runs {arguments.runs}: there is no such folder")
    return SuiteRuns(suite, arguments.runs or layout.suite_root(suite.name) / "runs")


def as_command(main: Callable[[], None]) -> None:
    """Call `main` as a program: a UserError, a missing file or package is one line and exit code 1."""
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} not found")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in FIGURE_PACKAGES:
            raise
        sys.exit(f"figures and the report need packages that are not here: pip install {' '.join(FIGURE_PACKAGES)}")


def write(path: Path, text: str) -> None:
    """Write a text file with the same bytes on every machine (UTF-8, newlines as they are)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV text with plain newlines; numbers in rows must already be formatted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
