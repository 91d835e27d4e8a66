"""From run folders to scores: one number per seed, and everything a table needs to know about a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell, Change
from fp3o.config.domains import DOMAINS, RETURN, Reduction, Scoring
from fp3o.config.metrics import PLACES
from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.layout import RunId
from fp3o.runs.verify import Tables, check_distinct, read_tables, read_verified
from fp3o.statistics.intervals import Summary, summarise

T = TypeVar("T")
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

# Settings that do not change the policy: how often and on how many episodes it is evaluated.
_HARMLESS = ("evaluation_interval", "evaluation_episodes", "final_episodes")


def scoring_of(cell: str) -> Scoring:
    """The scoring rule for a cell id or a domain."""
    domain = cell.partition("/")[0]
    return DOMAINS[domain].scoring if domain in DOMAINS else RETURN


def rule_of(metric: str) -> Scoring:
    """The scoring rule for a metric of the environment's own."""
    return replace(RETURN, words=RETURN.words.replace("Return", metric, 1))


# Options that choose the simulator, as opposed to how it is used.
_ENGINE_OPTIONS = ("backend", "flavour", "profile", "help_radius", "scan_period", "attacker_load", "side_bonus")
# Packages that are the simulator. Not numpy and numba: our own engines' numbers depend on their revision alone.
_ENGINE_VERSIONS = ("smac", "pysc2", "game")


def departures(deviations: Iterable[Change]) -> tuple[Change, ...]:
    """Those deviations that make a score incomparable with the paper's: all but harmless ones, the variant's own, and
    the paper's simulator in place of ours."""
    others = [d for d in deviations if d.name not in _HARMLESS and not d.to_the_papers]
    kept = [d for d in others if not d.source.startswith("variant ")]
    return tuple(sorted(kept, key=str))


class Planned(NamedTuple):
    """A cell as the suite plans it: with which configuration (digest), for which seeds."""

    cell: str
    digest: str
    seeds: tuple[int, ...]
    departs: bool = False
    """Whether its scores will not be comparable with the paper's: a tenth of the steps, say."""


class Curve(NamedTuple):
    """The E evaluations of a seed: environment steps, and the metric averaged over the evaluation's episodes."""

    env_steps: NDArray[np.float64]  # [E]
    value: NDArray[np.float64]  # [E]


@dataclass(frozen=True)
class Run:
    """One seed's finished run."""

    seed: int
    folder: Path
    document: Mapping[str, Any]
    curve: Curve
    final_episodes: NDArray[np.float64] | None = None
    """The metric of every episode of final.csv; None where there is no such file."""
    notes: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What `recalled` functions found; shared by the copies that are cut or scored otherwise."""

    @property
    def final(self) -> float | None:
        """Mean of `final_episodes`."""
        return None if self.final_episodes is None else float(self.final_episodes.mean())

    @property
    def episode_spread(self) -> float | None:
        """Standard deviation of `final_episodes`."""
        values = self.final_episodes
        return float(values.std(ddof=1)) if values is not None and len(values) > 1 else None

    @property
    def diverged(self) -> bool:
        return bool(self.document["status"] == "diverged")

    @property
    def lost_episodes(self) -> int:
        """Episodes of training and evaluation that failures of the environment ended, of all seeds of its process."""
        return int(self.document["volatile"].get("lost_episodes", 0))

    @property
    def engine(self) -> str:
        """Which simulator made the run. Runs with different texts are never mixed within a table."""
        environment, options = self.document["environment"], self.document["options"]
        chosen = [f"{name} {options[name]}" for name in _ENGINE_OPTIONS if name in options]
        versions = environment.get("versions", {})
        chosen += [f"{name} {versions[name]}" for name in _ENGINE_VERSIONS if name in versions]
        if "unit_data" in environment:
            chosen.append(f"unit data {environment['unit_data']}")
        name = f"the {environment.get('engine', 'unknown')} engine, revision {self.document['revision']}"
        return f"{name} ({', '.join(chosen)})" if chosen else name

    @property
    def ground(self) -> str:
        """Digest of the terrain, for tasks that have one; "" for others."""
        environment = self.document["environment"]
        return str(environment.get("terrain", environment.get("map_data", "")))

    def iterations(self) -> records.Columns:
        """The columns of iterations.csv, verified; read from disk at every call."""
        read_verified(self.folder, RunId.of(self.document), (records.ITERATIONS,))
        return records.read_table(self.folder / records.ITERATIONS)


def recalled(make: Callable[[Run], T]) -> Callable[[Run], T]:
    """A function of a run's files that looks once: reading iterations takes a tenth of a second."""

    def found(run: Run) -> T:
        known: dict[str, T] = run.notes
        if make.__name__ not in known:
            known[make.__name__] = make(run)
        return known[make.__name__]

    return found


@dataclass(frozen=True)
class CellRuns:
    """A planned cell and those of its runs that exist."""

    planned: Planned
    runs: tuple[Run, ...]
    rule: Scoring | None = None
    """A scoring rule other than the domain's."""
    allowed: tuple[str, ...] = ()
    """Names of settings that may depart from the paper's: `total_steps`, among cells that were all cut short."""
    derived: str = ""
    """For readers, what it was derived from, where its own runs do not exist; "" for runs of its own."""

    @property
    def cell(self) -> str:
        return self.planned.cell

    @property
    def diverged(self) -> int:
        """How many of the seeds diverged (they are scored like the others)."""
        return sum(run.diverged for run in self.runs)

    @property
    def lost_episodes(self) -> int:
        """Episodes that failures of the environment ended; seeds of one process have one count."""
        volatile = [(run.document["volatile"], run.lost_episodes) for run in self.runs]
        return sum({(about["started"], *about["stacked_seeds"]): lost for about, lost in volatile}.values())

    @property
    def deviations(self) -> tuple[Change, ...]:
        """The `departures` of all its runs, but for those allowed."""
        found = departures({Change.read(text) for run in self.runs for text in run.document["deviations"]})
        return tuple(change for change in found if change.name not in self.allowed)

    @property
    def scoring(self) -> Scoring:
        return self.rule or scoring_of(self.cell)

    def scores(self) -> list[float]:
        """One score per seed. A diverged seed is scored by its last finite evaluations; one without any is left out."""
        return list(self.by_seed().values())

    def by_seed(self) -> dict[int, float]:
        """The score of every seed that has one."""
        found = {run.seed: reduce(run, self.scoring.reduction) for run in self.runs}
        return {seed: score for seed, score in found.items() if score is not None}

    @property
    def at_floor(self) -> bool:
        """Whether it has scores and none of them is above the floor: nobody ever learned to win."""
        floor, scores = self.scoring.floor, self.scores()
        return floor is not None and bool(scores) and max(scores) <= floor

    def until(self, steps: int) -> CellRuns:
        """The cell as if training had ended after so many environment steps; scored by its evaluations up to there."""
        runs = []
        for run in self.runs:
            early = run.curve.env_steps <= steps
            cut = Curve(run.curve.env_steps[early], run.curve.value[early])
            runs.append(replace(run, curve=cut, final_episodes=None))
        return replace(self, runs=tuple(runs))

    def summary(self) -> Summary | None:
        """Mean or median over seeds, as the domain's scoring rule says; None where nothing was run."""
        scores = self.scores()
        return summarise(scores, self.scoring.statistic) if scores else None


def metric_values(table: records.Columns, metric: str) -> NDArray[np.float64]:
    """The metric of every episode (row); win rates in percent."""
    return table["won"] * 100.0 if metric == "win_rate" else table[metric]


def curve(evaluations: records.Columns, metric: str) -> Curve:
    """The mean over episodes of each evaluation; evaluations with a value that is not finite are left out."""
    steps, place = np.unique(evaluations["env_steps"], return_inverse=True)
    values = metric_values(evaluations, metric)
    with np.errstate(invalid="ignore"):
        means = np.bincount(place, values, len(steps)) / np.bincount(place, minlength=len(steps))
    finite = np.isfinite(means)
    return Curve(steps[finite], means[finite])


def last_ten(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last ten evaluations, but never more than the later half of a short run."""
    return values[-min(10, max(1, len(values) // 2)) :]


def scores_of_short_runs(cells: Sequence[CellRuns]) -> str:
    """For readers: by how many evaluations runs are scored that are too short for ten; "" where there are none."""
    runs = [run for cell in cells for run in cell.runs if scoring_of(cell.cell).reduction != "final"]
    lengths = sorted({len(run.curve.value) for run in runs} - {0}, reverse=True)
    used = {length: len(last_ten(np.zeros(length))) for length in lengths}
    short = ", ".join(f"{count} of {length}" for length, count in used.items() if count < 10)
    return f"shorter runs are scored by their later half, {short} evaluations" if short else ""


def reduce(run: Run, reduction: Reduction) -> float | None:
    """A run's score by this reduction; None for a run that diverged before its first evaluation."""
    if reduction == "final" and run.final is not None:
        return run.final
    values = run.curve.value
    if not len(values):
        return None
    if reduction == "final":
        return float(values[-1])
    if reduction == "best":
        return float(values.max())
    return float(np.mean(last_ten(values)) if reduction == "last-10-mean" else np.median(last_ten(values)))


def pooled_median(runs: CellRuns) -> Summary | None:
    """Median and standard deviation of the last ten evaluations of all seeds pooled. Of all readings of the published
    SMAC ±, which the paper does not explain, this one fits best."""
    pool = [value for run in runs.runs for value in last_ten(run.curve.value)]
    return Summary(*summarise(pool, "median")[:2], len(runs.runs)) if pool else None


def load_run(folder: Path, expected: RunId, own: str = "") -> Run:
    """A finished run, verified to be the expected one and unaltered.

    own: a column of its evaluations (a metric of the environment, say) to take in place of the domain's score; episodes
    without a number in it are left out.
    """
    document = read_verified(folder, expected, (records.EVALUATIONS, records.FINAL))
    if document["status"] == "stopped":  # Its score would be that of another budget.
        where = f"{document['stopped']['by']} stopped it after iteration {document['stopped']['iteration']}"
        raise UserError(f"{folder} is no run of the whole budget: {where}; delete it to train it to the end")
    tables = read_tables(folder, document)
    metric = own or scoring_of(expected.cell).metric
    if own:
        known = [name for name in tables.evaluations if name not in PLACES]
        if own not in known:
            raise UserError(f"{folder} has no metric {own!r}; allowed: {', '.join(known)}")
        evaluations, last = tables
        tables = Tables(_reported(evaluations, own), None if last is None else _reported(last, own))
    final: NDArray[np.float64] | None = None
    if tables.final is not None:
        values = metric_values(tables.final, metric)
        final = values if len(values) and np.isfinite(values).all() else None
    return Run(document["seed"], folder, document, curve(tables.evaluations, metric), final)


def _reported(table: records.Columns, name: str) -> records.Columns:
    """The rows with a number in this column."""
    rows = np.isfinite(table[name])
    return {column: values[rows] for column, values in table.items()}


def collect(runs: Path, planned: Iterable[Planned]) -> list[CellRuns]:
    """The planned cells with the runs of theirs that exist. Runs with other digests (settings) are ignored."""
    cells = []
    for cell in planned:
        ids = [RunId(cell.cell, cell.digest, seed) for seed in cell.seeds]
        found = [load_run(runs / run.path, run) for run in ids if (runs / run.path / records.RUN).is_file()]
        check_distinct({str(run.folder): run.document for run in found})
        cells.append(CellRuns(cell, tuple(found)))
    return cells


def engine_of(cells: Sequence[CellRuns], where: str) -> str | None:
    """The engine of all these runs, None if there are no runs; UserError for several engines or terrains."""
    engines = sorted({run.engine for cell in cells for run in cell.runs})
    if len(engines) > 1:
        raise UserError(f"{where} would mix engines: {'; '.join(engines)}")
    for cell in cells:
        grounds = sorted({run.ground for run in cell.runs})
        if len(grounds) > 1:
            raise UserError(f"{where} would mix terrains of {cell.cell}: {'; '.join(grounds)}")
    return engines[0] if engines else None


def battles_by(cells: Sequence[CellRuns]) -> str:
    """For captions: which engine simulated the SMAC battles shown; "" where there are none."""
    engine = engine_of([cell for cell in cells if DOMAINS[Cell.of(cell.cell).domain].real_backend], "a figure")
    if engine is None:
        return ""
    return "StarCraft II" if "starcraft2" in engine else "embedded engine, not StarCraft II"
