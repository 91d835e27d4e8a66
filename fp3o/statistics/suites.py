"""The runs of a suite, and what the commands of this package (`python -m fp3o.statistics.…`) have in common."""

from __future__ import annotations

import argparse
import copy
import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, records
from fp3o.statistics.choices import USUAL, Choices
from fp3o.statistics.scores import CellRuns, Planned, collect, departures


class Cells(Mapping[str, CellRuns]):
    """Cell id → runs, each found when first asked for; `found` has those that were, in this order."""

    def __init__(self, names: Collection[str], find: Callable[[str], CellRuns]) -> None:
        self._names, self._find = names, find
        self.found: dict[str, CellRuns] = {}

    def __getitem__(self, cell: str) -> CellRuns:
        if cell not in self.found:
            if cell not in self._names:
                raise KeyError(cell)
            self.found[cell] = self._find(cell)
        return self.found[cell]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, cell: object) -> bool:
        return cell in self._names


class SuiteRuns:
    """A suite and those of its runs that exist."""

    def __init__(self, suite: config.Suite, runs: Path) -> None:
        self.suite = suite
        self.root = runs
        self._planned = {
            plan.cell.id: Planned(plan.cell.id, plan.digest, seeds, bool(departures(plan.deviations)))
            for plan, seeds in suite.runs()
        }
        self._counts: dict[str, int] = {}
        self.cells = Cells(self._planned, lambda cell: collect(self.root, [self._planned[cell]])[0])
        self.choices = USUAL

    def seen(self, find: Callable[[str], CellRuns], choices: Choices | None = None) -> SuiteRuns:
        """The same suite with its cells as `find` finds them, analysed by these choices."""
        other = copy.copy(self)
        other.cells = Cells(self.cells, find)
        other.choices = choices or self.choices
        return other

    def count_runs(self, start: str) -> int:
        """How many runs there are of cells whose id starts so. Asks for files, and reads none."""
        if start not in self._counts:
            cells = (plan for plan in self._planned.values() if f"{plan.cell}/".startswith(start))
            ids = (layout.RunId(plan.cell, plan.digest, seed) for plan in cells for seed in plan.seeds)
            self._counts[start] = sum((self.root / run.path / records.RUN).is_file() for run in ids)
        return self._counts[start]

    def of(self, artefact: config.Artefact) -> list[CellRuns]:
        """The cells of an artefact, in its order."""
        return [self.cells[cell.id] for cell in artefact.cells]


def parser(what: str, *, out: str, artefacts: bool = False) -> argparse.ArgumentParser:
    """--suite, --runs and --out, with the folders a suite uses by default; `artefacts`: and --artefact."""
    arguments = argparse.ArgumentParser(description=what)
    arguments.add_argument("--suite", default="paper", help="which benchmarks/suites/<suite>.yaml")
    arguments.add_argument("--runs", type=Path, help="folder of the runs; default: results/<suite>/runs")
    arguments.add_argument("--out", type=Path, required=True, help=out)
    if artefacts:
        arguments.add_argument("--artefact", action="append", help="only this one (may be repeated); default: all")
    return arguments


def chosen_artefacts(suite: config.Suite, arguments: argparse.Namespace, kind: str) -> list[config.Artefact]:
    """Those that --artefact names, or all of the kind."""
    names = arguments.artefact or [artefact.name for artefact in suite.artefacts if artefact.kind == kind]
    return [suite.artefact(name, kind) for name in names]


def load(arguments: argparse.Namespace) -> SuiteRuns:
    """The suite and runs that the command line names."""
    suite = config.load_suite(arguments.suite)
    if arguments.runs is not None and not arguments.runs.is_dir():
        raise UserError(f"--runs {arguments.runs}: there is no such folder")
    return SuiteRuns(suite, arguments.runs or layout.suite_root(suite.name) / "runs")


def write(path: Path, text: str) -> None:
    """Write a text file with the same bytes on every machine (UTF-8, newlines as they are)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV text with plain newlines; numbers in rows must already be formatted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, without a newline at its end."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows))
