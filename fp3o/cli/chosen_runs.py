"""The runs that `fp3o compare` and `fp3o plot` are given: folders, cells, `shipped:CELL`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fp3o import config
from fp3o.errors import UserError, first_of
from fp3o.grouping import grouped
from fp3o.runs import layout

if TYPE_CHECKING:
    from fp3o.statistics.scores import CellRuns

RUNS_HELP = "A run's folder, a folder with runs below, a cell (in runs/ or its suite's results), or shipped:CELL."
METRIC_HELP = "A column of evaluations.csv to take instead of the score, such as a metric of the environment."
SHIPPED = "shipped:"


class Chosen(NamedTuple):
    """Runs of one cell with the same settings, all their seeds."""

    name: str
    runs: CellRuns
    metric: str = ""
    """A column of the evaluations that they are compared by, in place of the score; "": the score."""


def chosen_runs(given: Sequence[str], metric: str = "") -> list[Chosen]:
    """Each argument's runs, by cell and digest; UserError unless all are of one task and have this metric."""
    found = [chosen for text in given for chosen in _chosen(text, metric)]
    tasks = sorted({"/".join(one.runs.cell.split("/")[:2]) for one in found})
    if len(tasks) > 1:
        raise UserError(f"these are runs of {len(tasks)} tasks, {first_of(tasks)}; allowed: runs of one task")
    return found


def _chosen(text: str, metric: str) -> list[Chosen]:
    from fp3o.runs import records  # imports NumPy
    from fp3o.statistics.scores import CellRuns, Planned, load_run, rule_of

    found = {folder: layout.RunId.of(records.read_run(folder / records.RUN)) for folder in _folders(text)}
    groups = grouped((run[:2], (folder, run)) for folder, run in found.items())
    chosen = []
    for (cell, digest), members in sorted(groups.items()):
        runs = [load_run(folder, run, metric) for folder, run in members]
        runs.sort(key=lambda run: run.seed)
        seeds = tuple(run.seed for run in runs)
        if len(set(seeds)) < len(seeds):
            raise UserError(f"{text}: {cell} {digest} has a seed twice; allowed: one folder of its runs")
        name = text if len(groups) == 1 else f"{cell} {digest}"
        rule = rule_of(metric) if metric else None
        chosen.append(Chosen(name, CellRuns(Planned(cell, digest, seeds), tuple(runs), rule), metric))
    return chosen


def _folders(text: str) -> list[Path]:
    """The folders of the runs that an argument means; UserError if there are none."""
    path = Path(text)
    if path.is_dir():
        if found := layout.runs_below(path):
            return found
        raise UserError(f"there is no finished run below {path}")
    shipped = text.startswith(SHIPPED)
    cell = config.Cell.parse(text.removeprefix(SHIPPED))
    roots = [layout.suite_root(name) / "runs" for name in config.suite_names()]
    for root in roots if shipped else [layout.own_root(), *roots]:
        found = layout.runs_below(root / cell.id) if (root / cell.id).is_dir() else []
        if found:
            return found
    hint = f"`fp3o pull {cell.id}`" if shipped else f"`fp3o train {cell.id}`, or shipped:{cell.id}"
    raise UserError(f"{text}: no finished run here; allowed: a folder, or {hint}")
