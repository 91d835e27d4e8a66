"""Suites say which cells each table and figure needs: benchmarks/suites/<name>.yaml, or a file of the user's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from fp3o.config.catalogue import catalogue, data_root, variant_settings
from fp3o.config.cells import Cell
from fp3o.config.resolve import Plan, resolve
from fp3o.config.seeds import SEED_BLOCK, parse_seeds, seeds_text
from fp3o.config.tasks_schema import NAME
from fp3o.config.yaml_files import read_yaml
from fp3o.errors import UserError, more_said, unknown
from fp3o.fields import Scalar, shown
from fp3o.registry import load_file

MOST_CELLS = 20_000  # Of all artefacts together; the paper's have 600.
EVERY_CELL = "all"
"""As `cells` of an artefact: all cells of the other artefacts, with the seeds those ask for."""
NO_CELL = "none"
"""As `cells` of a figure that is drawn from what the code says of itself."""


@dataclass(frozen=True)
class Artefact:
    """A table or figure and what it is made from."""

    name: str
    kind: Literal["table", "figure", "cost", "facts", "orders"]
    """facts: a table of what the code itself says (its settings, say), beside the paper's; it has no cells. orders: in
    how many variants of the environment one algorithm is ahead of another."""
    cells: tuple[Cell, ...]
    """Cells whose runs it shows; of `cost`, cells that are timed by themselves. None: it shows no runs."""
    seeds: tuple[int, ...]
    """Seeds it asks for; none where it shows every cell with the seeds that others ask for."""
    caption: str = ""
    paper: str = ""
    """LaTeX label in the paper; "" for what is ours."""
    script: str = "learning_curves"
    """Of a figure: the module of paper_figures/ that draws it, or a path ending with .py, from the suite's folder."""
    reads: str = ""
    """Of a figure drawn from the numbers of a table: that artefact's name."""
    baseline: str = ""
    """Of a table: the algorithm that the others are compared with, seed by seed."""

    @property
    def states_facts(self) -> bool:
        """Whether it is made without runs, from what the code says of itself."""
        return not self.cells and not self.reads

    @property
    def numbers(self) -> str:
        """The CSV file that holds what it shows, below results/<suite>/."""
        return {"figure": f"figures/{self.name}.csv", "cost": "cost.csv"}.get(self.kind, f"tables/{self.name}.csv")


@dataclass(frozen=True)
class Saving:
    """How `fp3o save` keeps new runs of some cells: CSV files compressed, and not every checkpoint."""

    cells: str
    """Pattern over cell ids."""
    checkpoints: Literal["all", "first", "none"]
    """Of which seeds checkpoints are kept; first: of the cell's first seed, so that the cell can still be played."""
    above: int = 0
    """Bytes. Checkpoints that are not larger are kept of every seed."""

    def keeps(self, first: bool, size: float) -> bool:
        """Whether a checkpoint of this many bytes is kept. first: whether it is that of the cell's first seed."""
        return self.checkpoints == "all" or (self.checkpoints == "first" and first) or size <= self.above


@dataclass(frozen=True)
class Suite:
    """Which cells, which seeds, and where values differ from the paper's."""

    name: str
    seed_block: int
    """Seeds per block."""
    overrides: tuple[tuple[str, Mapping[str, Scalar]], ...]
    """Patterns of cell ids, and the values for the cells that fit."""
    artefacts: tuple[Artefact, ...]
    raw: Mapping[str, Any]
    """The content of the file."""
    budget: float = 1.0
    """Fraction of each cell's steps that is trained."""
    file: Path = Path()
    """Where it stands; paths inside it are meant from its folder."""
    argument: str = ""
    """What names it on command lines: its name or, of a user's own, its path."""
    imports: tuple[Path, ...] = ()
    """Plug-ins that it loads."""
    saving: tuple[Saving, ...] = ()
    """Of a suite under DVC: how new runs are saved."""

    def saving_of(self, cell_id: str) -> Saving | None:
        """The last rule that fits the cell; None: its runs are saved as they are."""
        return next((rule for rule in reversed(self.saving) if fnmatchcase(cell_id, rule.cells)), None)

    def is_first(self, cell_id: str, seed: int) -> bool:
        """Whether a cell has no seed before this one; of cells that are not in the suite every seed counts as first."""
        _, seeds = self._runs.get(cell_id, (None, (seed,)))
        return seed <= min(seeds)

    def overrides_of(self, cell: Cell) -> list[Mapping[str, Scalar]]:
        """Overrides whose pattern fits the cell, in the file's order; last, the steps that the budget allows."""
        values = [values for pattern, values in self.overrides if fnmatchcase(cell.id, pattern)]
        if self.budget < 1:
            plain = resolve(cell).settings
            whole = plain.rollout_length * plain.rollout_threads
            values.append({"total_steps": max(whole, int(plain.total_steps * self.budget) // whole * whole)})
        return values

    def runs(self) -> list[tuple[Plan, tuple[int, ...]]]:
        """Every cell once, with the union of the seeds its artefacts ask for, in the order of first mention."""
        return list(self._runs.values())

    def run(self, cell_id: str) -> tuple[Plan, tuple[int, ...]]:
        """Plan and seeds of one of the suite's cells."""
        if cell_id not in self._runs:
            raise UserError(f"{cell_id} is not in suite {self.name}; allowed: the cells of {self.place}")
        return self._runs[cell_id]

    def why_not_planned(self, cell_id: str, digest: str, seeds: Sequence[int]) -> str:
        """Why these runs are not among those that the suite plans; "" if they are."""
        if cell_id not in self._runs:
            return f"suite {self.name} has no such cell"
        plan, wanted = self._runs[cell_id]
        if digest != plan.digest:
            return f"other settings than suite {self.name} plans"
        others = [seed for seed in seeds if seed not in wanted]
        return f"suite {self.name} has seeds {seeds_text(wanted)}" if others else ""

    @cached_property
    def _runs(self) -> dict[str, tuple[Plan, tuple[int, ...]]]:
        seeds: dict[Cell, set[int]] = {}
        for artefact in self.artefacts:
            if artefact.kind != "cost":
                for cell in artefact.cells:
                    seeds.setdefault(cell, set()).update(artefact.seeds)
        return {cell.id: (resolve(cell, suite=self), tuple(sorted(s))) for cell, s in seeds.items()}

    @property
    def own(self) -> bool:
        """Whether it is a file of the user's; its results lie in the current folder."""
        return self.argument not in ("", self.name)

    @property
    def place(self) -> str:
        """Its file, for readers."""
        return self.argument if self.own else f"benchmarks/suites/{self.name}.yaml"

    @property
    def of_the_paper(self) -> bool:
        """Whether any of its tables and figures is one of the paper's, trained as long as the paper's."""
        return self.whole and any(artefact.paper for artefact in self.artefacts)

    @property
    def whole(self) -> bool:
        """Whether cells are trained for all their steps; otherwise nothing is compared with published numbers."""
        return self.budget == 1

    @property
    def films(self) -> tuple[str, ...]:
        """Cells of which the report shows an episode, that of their first seed."""
        return tuple(cell for cell in self.raw.get("films", ()) if cell in self._runs)

    def artefact(self, name: str, kind: str = "") -> Artefact:
        """The artefact with this name and (unless "") kind."""
        allowed = {a.name: a for a in self.artefacts if kind in ("", a.kind)}
        if name not in allowed:
            raise unknown(kind or "artefact", name, allowed, f"suite {self.name}")
        return allowed[name]


def suite_names() -> tuple[str, ...]:
    """Suites in benchmarks/suites/."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def is_shipped(name: str) -> bool:
    """Whether there is such a suite in benchmarks/suites/."""
    return (_folder() / f"{name}.yaml").is_file()


def load_suite(name: str) -> Suite:
    """Read and check a suite, by its name in benchmarks/suites/ or by the path of a .yaml file.

    Unknown keys and cells, and patterns without a match, are errors. The plug-ins it imports are loaded.
    """
    if name.endswith(SUFFIXES):
        return _own_suite(name)
    if name not in suite_names():
        raise unknown("suite", name, (*suite_names(), "the path of a .yaml file"))
    return _suite(_folder() / f"{name}.yaml", name)


def _own_suite(name: str) -> Suite:
    """A suite by its path. Its name, that of its folder below results/, is the file's."""
    path = Path(name)
    if not NAME.fullmatch(path.stem):
        raise UserError(f"suite {name}: the file's name may hold letters, digits, '.', '_' and '-' only, at most 80")
    if not path.is_file():
        raise UserError(f"suite {name}: there is no such file")
    shipped = _folder() / f"{path.stem}.yaml"
    if not shipped.is_file():
        return _suite(path.absolute(), name)
    if not shipped.samefile(path):
        raise UserError(f"suite {name}: fp3o has a suite of that name; rename the file")
    return load_suite(path.stem)


SUFFIXES = (".yaml", ".yml")


def _folder() -> Path:
    return data_root() / "benchmarks" / "suites"


@cache
def _suite(path: Path, argument: str) -> Suite:
    raw, imports = _read(path)
    for plugin in imports:
        load_file(plugin, f"suite {path.stem}, imports:")
    overrides = tuple((entry["cells"], entry["set"]) for entry in raw.get("overrides", []))
    suite = Suite(
        path.stem,
        int(raw.get("seed_block", SEED_BLOCK)),
        overrides,
        (),
        raw,
        raw.get("budget", 1.0),
        path,
        argument,
        imports,
        tuple(Saving(**entry) for entry in raw.get("saving", [])),
    )
    artefacts = _artefacts(suite)
    suite = replace(suite, artefacts=tuple(artefacts))
    ids = [cell.id for artefact in artefacts if artefact.seeds for cell in artefact.cells]
    if len(ids) > MOST_CELLS:
        raise UserError(f"suite {suite.name}: {len(ids)} cells are too many; allowed: {MOST_CELLS}")
    for pattern, _ in overrides:
        if not any(fnmatchcase(i, pattern) for i in ids):
            raise UserError(f"suite {suite.name}: override for {pattern!r} fits none of its cells")
    for rule in suite.saving:
        if "only" not in raw and not any(fnmatchcase(i, rule.cells) for i in ids):
            raise UserError(f"suite {suite.name}: saving of {rule.cells!r} fits none of its cells")
    for name in raw.get("films", ()):
        if name not in ids and fnmatchcase(name, raw.get("only", "*")):
            raise UserError(f"suite {suite.name}, films: {name} is not one of its cells")
    if any(values.get("backend") == "auto" for _, values in overrides):
        # It would depend on the machine's packages which runs count as missing.
        raise UserError(
            f"suite {suite.name}: backend auto is for runs by hand; allowed in a suite: embedded, starcraft2"
        )
    return suite


def _artefacts(of: Suite) -> list[Artefact]:
    """The artefacts in the file's order, without those that have no cell left by `only`."""
    catalogue()  # First, so that a mistake in tasks.yaml is not blamed on the suite.
    raw, suite = of.raw, of.name
    entries = raw["artefacts"]
    shown: dict[str, tuple[Cell, ...]] = {}
    for name, entry in entries.items():
        groups = entry.get("cells", EVERY_CELL)
        with more_said(before=f"suite {suite}, artefacts/{name}: "):
            named = [] if groups in (EVERY_CELL, NO_CELL) else [cell for group in groups for cell in _expand(group, of)]
        shown[name] = tuple(cell for cell in dict.fromkeys(named) if fnmatchcase(cell.id, raw.get("only", "*")))
    if not any(shown.values()):
        raise UserError(f"suite {suite}: only {raw.get('only', '*')!r} fits none of its cells")
    trained = tuple(dict.fromkeys(c for name in entries if entries[name]["kind"] != "cost" for c in shown[name]))
    tables = [name for name, entry in entries.items() if entry["kind"] != "figure"]
    artefacts = []
    for name, entry in entries.items():
        whole, reads = entry.get("cells") == EVERY_CELL, entry.get("reads", "")
        if reads and reads not in tables:
            raise unknown("table", reads, tables, f"suite {suite}, artefacts/{name}/reads")
        cells = trained if whole else shown[name]
        # Facts are about all cells: a suite of some of them leaves them out.
        facts = (entry["kind"] == "facts" or entry.get("cells") == NO_CELL) and "only" not in raw
        place = f"suite {suite}, artefacts/{name}" if "seeds" in entry else f"suite {suite}"
        with more_said(before=f"{place}: "):
            seeds = () if whole or facts else parse_seeds(str(entry.get("seeds", raw["seeds"])))
        if cells or facts or shown.get(reads):
            texts = (entry.get("caption", ""), entry.get("paper", ""), entry.get("script", Artefact.script))
            baseline = entry.get("baseline", _baseline(raw, entry["kind"], cells))
            if baseline and baseline not in (labels := {cell.label: None for cell in cells}):
                raise unknown("algorithm", baseline, labels, f"suite {suite}, artefacts/{name}/baseline")
            artefacts.append(Artefact(name, entry["kind"], cells, seeds, *texts, reads, baseline))
    common = raw.get("baseline", "")
    if common and not any(artefact.baseline == common for artefact in artefacts):
        labels = {cell.label: None for artefact in artefacts if artefact.kind == "table" for cell in artefact.cells}
        raise unknown("algorithm", common, labels, f"suite {suite}, baseline")
    return artefacts


def _baseline(raw: Mapping[str, Any], kind: str, cells: Sequence[Cell]) -> str:
    """The suite's baseline for a table that has this algorithm and another; "" for others."""
    labels = {cell.label for cell in cells}
    name = str(raw.get("baseline", ""))
    return name if kind == "table" and name in labels and len(labels) > 1 else ""


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """The content of the file merged into that of the suite it extends: its own keys win, artefacts are joined by name,
    without those that it leaves out. Second, the plug-ins of both.

    extended_by: suites that extend this one, to detect cycles.
    """
    raw = read_yaml(path)
    _validate(raw, path)
    imports = tuple(path.parent / name for name in raw.get("imports", ()))
    base = raw.get("extends")
    left_out = [name for name, entry in raw.get("artefacts", {}).items() if entry is None]
    if base is None:
        _require(path, left_out, ())
        return raw, imports
    own = path.parent / base  # A path ends with .yaml; a name does not.
    found = _folder() / f"{base}.yaml" if base in suite_names() else own if base.endswith(SUFFIXES) else None
    if found is None or not found.is_file():
        allowed = (*suite_names(), "the path of a .yaml file")
        raise unknown("suite", base, allowed, f"suite {path.stem}, extends")
    if found.resolve() in (path.resolve(), *extended_by):
        raise UserError(f"suite {path.stem}: extends {base}, which extends it in turn: a cycle")
    whole, more = _read(found, (path.resolve(), *extended_by))
    _require(path, left_out, whole["artefacts"])
    artefacts = {**whole["artefacts"], **raw.get("artefacts", {})}
    joined = {**whole, **raw, "artefacts": {k: v for k, v in artefacts.items() if v is not None}}
    return joined, tuple(dict.fromkeys((*more, *imports)))


def _require(path: Path, left_out: Sequence[str], inherited: Collection[str]) -> None:
    """UserError if the suite leaves out an artefact that it does not inherit."""
    for name in left_out:
        if name not in inherited:
            raise unknown(
                "artefact", name, (*inherited,) or ("none",), f"suite {path.stem}, of those it could leave out"
            )


def _expand(group: Mapping[str, Any] | str, suite: Suite) -> list[Cell]:
    """The cells of a group: one by its id, or the product of lists of tasks, sharings, algorithms and a grid."""
    if isinstance(group, str):
        return [Cell.parse(group)]
    labels = [(a, label) for a in group["algorithms"] for label in _grid(a, group.get("grid", {}))]
    return [
        _without_grid(Cell.parse(f"{row}/{algorithm}"), Cell.parse(f"{row}/{label}"), suite)
        for task in group["tasks"]
        for sharing in group["sharing"]
        for row in [f"{group['domain']}/{task}/{sharing}"]
        for algorithm, label in labels
    ]


def _without_grid(plain: Cell, cell: Cell, suite: Suite) -> Cell:
    """A cell of a grid, or the cell without the grid if it has the same values: nothing is trained twice."""
    if cell == plain:
        return cell
    try:
        ours, others = (resolve(one, suite=suite) for one in (cell, plain))
    except UserError:
        return cell  # If it is the one at fault, that is said when it is planned.
    return plain if (ours.settings, ours.options) == (others.settings, others.options) else cell


def _grid(algorithm: str, grid: Mapping[str, Sequence[Scalar]]) -> list[str]:
    """A label for every combination of the values: mappo-clip-0.1-epochs-5, a variant that needs no entry."""
    if math.prod(len(values) for values in grid.values()) > MOST_CELLS:
        raise UserError(f"grid of {algorithm}: too many combinations; allowed: {MOST_CELLS}")
    name, _, variant = algorithm.partition("-")
    named = (variant_settings(name, variant) or {}) if variant else {}
    labels = []
    for values in itertools.product(*grid.values()):
        point = {name: shown(value) for name, value in zip(grid, values, strict=True)}
        label = "-".join([algorithm, *(f"{name}-{text}" for name, text in point.items())])
        if point and variant_settings(*label.split("-", 1)) != {**named, **point}:
            raise UserError(f"grid of {algorithm}: {label} is not the name of a cell; allowed: `fp3o list settings`")
        labels.append(label)
    return labels


def _validate(raw: Mapping[str, Any], path: Path) -> None:
    """UserError unless the suite fits workflow/schemas/suite.schema.yaml."""
    import jsonschema  # Slow to import and needed only where a suite is read.

    schema = read_yaml(data_root() / "workflow" / "schemas" / "suite.schema.yaml")
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(raw))
    if error is not None:
        place = f"suite {path.stem}, {('/'.join(str(p) for p in error.absolute_path) or 'top level')[:200]}"
        if error.validator == "additionalProperties" and error.validator_value is False:
            known = error.schema["properties"]
            raise unknown("key", next(key for key in error.instance if key not in known), known, place)
        raise UserError(f"{place}: {' '.join(error.message.split())[:400]}")
