"""The pages: conclusions, what was run with curves and films, verdicts, claims, tables, figures, cells; and, by
themselves, the curves of sweeps. Markup: templates/."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fp3o.config import Cell, Row, setting_names, variant_settings
from fp3o.config.domains import Scoring
from fp3o.grouping import grouped
from fp3o.report import sheets
from fp3o.report.conclusions import by_verdict, conclusions
from fp3o.report.curve import Chart, chart, curves_of
from fp3o.statistics.compare import sentence
from fp3o.statistics.cost import Cost
from fp3o.statistics.orders import AS_IT_IS, variants_of
from fp3o.statistics.published import cell_title, paper, row_title
from fp3o.statistics.scorecard import scorecard
from fp3o.statistics.scores import CellRuns, battles_by, scoring_of
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.build import build, entry_of
from fp3o.statistics.tables.digits import fixed
from fp3o.statistics.tables.model import Entry

# What fp3o.render writes and a browser plays.
KINDS = {".webp": "image/webp", ".gif": "image/gif", ".png": "image/png", ".mp4": "video/mp4"}

AT_ONCE = 4
SWEEP = 3
"""So many variants of an algorithm that change the same settings are a sweep, whose curves have a page of their own."""
INDEX, SWEEPS = "index.html", "sweeps.html"


class Result(NamedTuple):
    """A cell that was run, with its verdict."""

    entry: Entry
    cell: CellRuns
    chart: Chart | None
    film: str
    """A data: address; "" where there is none."""
    beside_paper: bool
    """Whether the suite trains all steps, so that published values say something about it."""

    @property
    def name(self) -> Cell:
        return Cell.of(self.cell.cell)

    @property
    def scoring(self) -> Scoring:
        return scoring_of(self.cell.cell)

    @property
    def words(self) -> str:
        """The result in one sentence, with the verdict of its table."""
        cell, judged = self.cell, self.entry.comparison
        return sentence(cell.cell, cell.scores(), cell.deviations, judged, brief=True, beside_paper=self.beside_paper)

    @property
    def deviations(self) -> list[str]:
        """As the runs recorded them, variants included."""
        return sorted({text for run in self.cell.runs for text in run.document["deviations"]})


class Task(NamedTuple):
    """A task under one sharing in one variant of its environment, and its results."""

    row: Row
    variant: str
    results: list[Result]
    chart: Chart | None
    sweep: tuple[str, ...] = ()
    """The settings whose values are tried one after the other, if that is all it shows."""

    @property
    def title(self) -> str:
        variant = f", {self.variant}" if self.variant != AS_IT_IS else ""
        return row_title(self.row) + variant + (f", sweep of {' and '.join(self.sweep)}" if self.sweep else "")

    @property
    def first(self) -> list[Result]:
        """Drawn from the start; more than four lines are hard to tell apart."""
        return self.results[:AT_ONCE]

    @property
    def more(self) -> list[Result]:
        return self.results[AT_ONCE:]


class Figure(NamedTuple):
    """A picture of the suite."""

    name: str
    caption: str
    address: str


def pages(
    data: SuiteRuns,
    figures: Path | None = None,
    films: Path | None = None,
    costs: Sequence[Cost] = (),
    card: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """HTML documents by file name; same runs, same bytes on the same machine. Curves of sweeps are on a page of their
    own, unless the suite has nothing else. card: the suite's scorecard, computed where it is not given."""
    tables = [build(data, artefact) for artefact in data.suite.artefacts if artefact.kind == "table"]
    judged: dict[str, Entry] = {}
    for entry in (entry for table in tables for entry in table.entries):
        judged.setdefault(entry.cell, entry)
    run = [cell for cell in data.cells.values() if cell.runs]
    curves = curves_of(run)
    results = [
        Result(
            judged.get(cell.cell) or entry_of(cell, data.suite.whole),
            cell,
            chart([cell], curves),
            film_of(films, cell.cell),
            data.suite.whole,
        )
        for cell in run
    ]
    swept = sweeps([result.name for result in results])
    apart = [result for result in results if result.name in swept]
    if len(apart) == len(results):
        apart = []
    pictures = list(figures_of(data, figures))
    shown = {table.name for table in tables} | {picture.name for picture in pictures}
    shown |= {artefact.name for artefact in data.suite.artefacts if artefact.kind in ("cost", "facts", "orders")}
    card = scorecard(data, costs) if card is None else card
    context = {
        "title": data.suite.raw["title"],
        "suite": data.suite.argument or data.suite.name,
        "of_the_paper": data.suite.of_the_paper,
        "card": card,
        "conclusions": conclusions(card, against_baseline(judged.values())),
        "claims_by_verdict": by_verdict(card),
        "tasks": tasks_of(data, [r for r in results if r not in apart or not r.name.variant], curves),
        "results": results,
        "sweeps": apart,
        "sweeps_page": SWEEPS,
        "missing": [cell.cell for cell in data.cells.values() if not cell.runs],
        "tables": tables,
        "cost": sheets.costs(data.suite, costs),
        "orders": sheets.orders(data),
        "robustness": sheets.robustness(data.root.parent / "tables" / "robustness.csv"),
        "stated": sheets.stated(data.suite),
        "figures": pictures,
        "empty": [a.name for a in data.suite.artefacts if a.kind == "figure" and a.name not in shown],
        "sections": {artefact.paper: artefact.name for artefact in data.suite.artefacts if artefact.name in shown},
        "paper_titles": paper()["items"] | {"ours": "a check of ours"},
        "curves": curves,
        "seeds": sorted({seed for found in curves.values() for seed in found["seeds"]}, key=int),
        "library": Markup("\n".join(Resources(mode="inline", components=["bokeh", "bokeh-api"]).js_raw)),
        "sheets": sheets,
    }
    found = {INDEX: environment().get_template("page.html.j2").render(context)}
    if apart:
        context |= {"tasks": tasks_of(data, apart, curves), "index_page": INDEX}
        context["curves"] = {result.cell.cell: curves[result.cell.cell] for result in apart if result.chart}
        found[SWEEPS] = environment().get_template("sweeps.html.j2").render(context)
    return found


def against_baseline(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """By verdict, the titles of the cells that were compared with the baseline of their table."""
    return grouped((entry.paired.verdict, cell_title(Cell.of(entry.cell))) for entry in entries if entry.paired)


def tasks_of(data: SuiteRuns, results: Sequence[Result], curves: Mapping[str, Mapping[str, Any]]) -> list[Task]:
    """A picture per row and variant of the environment."""
    variants = variants_of(data.suite, [result.name for result in results])
    rows = grouped(((result.name.row, variants[result.name]), result) for result in results)
    swept = sweeps([result.name for result in results])
    return [
        Task(*row, found, chart([r.cell for r in found], curves), _swept([r.name for r in found], swept))
        for row, found in rows.items()
    ]


def _swept(cells: Sequence[Cell], swept: set[Cell]) -> tuple[str, ...]:
    """The settings of the sweep that these cells are, those whose values differ; empty if some are of none."""
    if not swept.issuperset(cells):
        return ()
    values: dict[str, set[object]] = {}
    for cell in cells:
        for name, value in (variant_settings(cell.algorithm, cell.variant) or {}).items():
            values.setdefault(name, set()).add(value)
    return tuple(name for name, several in values.items() if len(several) > 1)


def sweeps(cells: Sequence[Cell]) -> set[Cell]:
    """Those cells that are values of a setting tried one after the other. Of a grid, whose cells' names spell their
    values out, the cell without a variant is one: that of the task's own values."""
    groups: dict[tuple[Row, str, tuple[str, ...]], list[Cell]] = {}
    for cell in cells:
        settings = variant_settings(cell.algorithm, cell.variant) if cell.variant else None
        if settings:
            group = groups.setdefault((cell.row, cell.algorithm, tuple(settings)), [])
            group.append(cell)
            plain = Cell(*cell.row, cell.algorithm)
            spelt = cell.variant == "-".join(f"{name}-{value}" for name, value in settings.items())
            if spelt and plain in cells and plain not in group and settings.keys() <= {*setting_names(cell)}:
                group.append(plain)
    return {cell for group in groups.values() if len(group) >= SWEEP for cell in group}


def environment() -> Environment:
    """Everything is escaped but what is markup already; a name that is not there is an error, not an empty place."""
    found = Environment(
        loader=PackageLoader("fp3o.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"anchor": anchor, "fixed": fixed}
    return found


def anchor(cell: str) -> str:
    """The id of a cell's section."""
    return "cell-" + cell.replace("/", "--")


def film_of(folder: Path | None, cell: str) -> str:
    """The film of a cell, <folder>/<cell>.webp or another kind, as an address."""
    places = [folder / f"{cell}{suffix}" for suffix in KINDS] if folder else []
    return next((address(path) for path in places if path.is_file()), "")


def figures_of(data: SuiteRuns, folder: Path | None) -> Iterator[Figure]:
    """The suite's figures that were drawn and show something, with the engine that fought the battles shown."""
    for artefact in data.suite.artefacts:
        path = folder / f"{artefact.name}.png" if folder and artefact.kind == "figure" else None
        says = artefact.reads or artefact.states_facts or _plots(path)
        if path is not None and path.is_file() and (says or any(cell.runs for cell in data.of(artefact))):
            engine = battles_by(data.of(artefact))
            yield Figure(artefact.name, artefact.caption + (f" ({engine})" if engine else ""), address(path))


def _plots(path: Path | None) -> bool:
    """Whether the file of plotted numbers beside a picture has any: a figure may show runs of other suites."""
    numbers = path.with_suffix(".csv") if path else None
    return numbers is not None and numbers.is_file() and len(numbers.read_text().splitlines()) > 1


def address(path: Path) -> str:
    """A file as a data: address, so that the page stays one file."""
    return f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
