"""Where a suite's claims find runs besides its own. A file of its own, so that Snakemake reads it without SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fp3o.config import Suite
from fp3o.runs import layout, records


class Sources(NamedTuple):
    """Cells of a task that are compared are taken from the suite that has most runs of them: engines never share a
    comparison."""

    also: tuple[str, ...] = ()
    """Suites at the full budget, for cells that they have more runs of."""
    tenth: tuple[str, ...] = ()
    """Suites at a tenth of the budget."""
    variants: tuple[str, ...] = ()
    """Suites with some of the cells under variants of the environment."""


SOURCES = {"paper": Sources(("smac-revision-2",), ("preview", "smac-revision-2-preview"), ("smac-variants",))}


def sources_of(suite: Suite) -> Sources:
    """None for most suites."""
    return SOURCES.get(suite.name, Sources())


def existing_runs(suite: Suite) -> list[Path]:
    """run.json of every run of those suites that is here."""
    found = sources_of(suite)
    suites = (*found.also, *found.tenth, *found.variants)
    return [run / records.RUN for name in suites for run in layout.finished_runs(layout.suite_root(name) / "runs")]
