"""Runs of several suites as one, for claims: other suites' tasks, and cells that follow from other runs.

Results of two engines never share a comparison: cells of a task that an artefact shows together are taken from one
suite. At a tenth of the budget, a cell that was not run may be known all the same, from the beginning of a full run
with the same settings, or because its updates are those of another algorithm; it is marked as derived, and nothing is
added to any folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fp3o import config
from fp3o.config import Cell, Suite
from fp3o.statistics.claim_sources import sources_of
from fp3o.statistics.orders import in_variants
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.suites import SuiteRuns

TWINS = {"fp3o-independent": "mappo"}
"""Algorithms whose updates are those of another: FP3O's independent step alone is MAPPO. Shipped runs of both agree bit
by bit where they were trained on the same machine."""
STEPS = "total_steps"


def _named(data: SuiteRuns, key: str) -> list[SuiteRuns]:
    """The suites in which this one's claims find runs besides its own, with their folders beside this one's."""
    names: tuple[str, ...] = getattr(sources_of(data.suite), key)
    return [SuiteRuns(config.load_suite(name), data.root.parent.parent / name / "runs") for name in names]


def whole(data: SuiteRuns) -> SuiteRuns:
    """The suite's runs, and those of other suites at the full budget on tasks that they have more runs of."""
    return _joined(data, at_full_budget(data), lambda source, cell: source.cells[cell])


def at_full_budget(data: SuiteRuns) -> list[SuiteRuns]:
    """The suites that `whole` takes runs from."""
    return [data, *_named(data, "also")]


def tenth(data: SuiteRuns, other_engine: bool = False) -> SuiteRuns | None:
    """The same cells at a tenth of the budget; None where the suite names no such suites.

    other_engine: a task that several suites have is taken from the one with fewest runs instead.
    """
    suites = _named(data, "tenth")
    if not suites:
        return None
    full = at_full_budget(data)
    return _joined(suites[0], suites, lambda source, cell: _own_or_derived(source, full, cell), fewest=other_engine)


def variants(data: SuiteRuns) -> dict[str, SuiteRuns]:
    """By suite and variant of the environment: the cells that were run there, at that suite's budget, and no others."""
    return {
        f"{other.suite.name}: {name}": data.seen(partial(_in_variant, data, other, cells))
        for other in _named(data, "variants")
        for name, cells in in_variants(other).items()
    }


def _in_variant(data: SuiteRuns, other: SuiteRuns, cells: Mapping[str, str], cell: str) -> CellRuns:
    """A cell with its runs there; cells: which cell of the other suite that is."""
    changed = replace(data.cells[cell], runs=other.cells[cells[cell]].runs if cell in cells else ())
    return replace(changed, allowed=tuple(change.name for change in changed.deviations))


def _own_or_derived(source: SuiteRuns, full: Sequence[SuiteRuns], cell: str) -> CellRuns:
    own = source.cells[cell]
    if own.runs:
        return replace(own, allowed=(STEPS,))
    return _beginning(source, full, cell) or _twin(source, cell) or own


def derived_cells(data: SuiteRuns) -> dict[str, dict[str, str]]:
    """By suite of a tenth and cell, what a cell without runs of its own is derived from."""
    full = at_full_budget(data)
    found = {}
    for source in _named(data, "tenth"):
        missing = [cell for cell in source.cells if not source.count_runs(f"{cell}/")]
        cells = {cell: _own_or_derived(source, full, cell).derived for cell in missing}
        found[source.suite.name] = {cell: origin for cell, origin in cells.items() if origin}
    return found


def _joined(
    first: SuiteRuns, suites: Sequence[SuiteRuns], take: Callable[[SuiteRuns, str], CellRuns], fewest: bool = False
) -> SuiteRuns:
    """The cells of the first suite; those `shown_together` are taken from the suite that has most runs of them.

    Of equals it is the first: a new engine replaces an old one when it has been run as much. fewest: the other way
    round, among those that have a run.
    """
    groups = shown_together(first.suite)

    def find(cell: str) -> CellRuns:
        known = [suite for suite in suites if cell in suite.cells]
        counts = [sum(suite.count_runs(f"{other}/") for other in groups[cell]) for suite in known]
        ranked = sorted((i for i, count in enumerate(counts) if count), key=lambda i: -counts[i])
        return take(known[ranked[-1 if fewest else 0]] if ranked else known[-1 if fewest else 0], cell)

    return first.seen(find)


def shown_together(suite: Suite) -> dict[str, set[str]]:
    """By cell, the cells of its task that an artefact shows with it, or with one of those, and so on.

    Runs of the matching degree are shown with no others: they need not be of the same engine.
    """
    groups: dict[str, set[str]] = {}
    for artefact in suite.artefacts:
        if not artefact.seeds:
            continue  # It shows every cell, each by itself.
        by_task: dict[tuple[str, ...], set[str]] = {}
        for cell in artefact.cells:
            by_task.setdefault(cell.row[:2], set()).add(cell.id)
        for cells in by_task.values():
            united = cells.union(*(groups.get(cell, ()) for cell in cells))
            groups |= dict.fromkeys(united, united)
    return groups


def _beginning(source: SuiteRuns, full: Sequence[SuiteRuns], cell: str) -> CellRuns | None:
    """From full runs with the same settings but for the number of steps, up to the steps that `source` plans."""
    plan, _ = source.suite.run(cell)
    for suite in full:
        if cell not in suite.cells:
            continue
        other, _ = suite.suite.run(cell)
        same = replace(other.settings, total_steps=plan.settings.total_steps) == plan.settings
        if same and other.options == plan.options and suite.cells[cell].runs:
            cut = suite.cells[cell].until(plan.settings.total_steps)
            return replace(cut, allowed=(STEPS,), derived=f"the first {plan.settings.total_steps} steps of full runs")
    return None


def _twin(source: SuiteRuns, cell: str) -> CellRuns | None:
    """The runs of an algorithm that makes the same updates."""
    name = Cell.of(cell)
    twin = f"{name.row}/{TWINS.get(name.label, '')}"
    if twin not in source.cells or not source.cells[twin].runs:
        return None
    return replace(source.cells[twin], planned=source.cells[cell].planned, allowed=(STEPS,), derived=f"runs of {twin}")
