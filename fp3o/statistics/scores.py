"""From run folders to scores: one named number per seed, and everything a table needs to know about a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell, Change
from fp3o.envs.domains import DOMAINS, RETURN, Metric, Reduction, Scoring
from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.verify import RunId, read_tables, read_verified
from fp3o.statistics.intervals import Summary, summarise

REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


# How often and on how many episodes a policy is evaluated leaves the policy alone.
_HARMLESS = ("evaluation_interval", "evaluation_episodes", "final_episodes")


def protocol_of(cell: str) -> Scoring:
    """The scoring rule of a cell's domain, or of a domain."""
    domain = cell.partition("/")[0]
    return DOMAINS[domain].scoring if domain in DOMAINS else RETURN


# Options that change which simulator it is, not how it is used.
_ENGINE_OPTIONS = ("backend", "flavour", "profile")
# Packages that are the simulator. Our own engines' numbers are pinned by their revision, whatever numpy and numba are.
_ENGINE_VERSIONS = ("smac", "pysc2", "game")


def departures(deviations: Iterable[Change]) -> tuple[Change, ...]:
    """Those deviations of a plan that make its score another quantity than the published one of the same cell."""
    found = [d for d in deviations if d.name not in _HARMLESS and not d.source.startswith("variant ")]
    return tuple(sorted(found, key=str))


class Planned(NamedTuple):
    """A cell as the suite wants it: which configuration, which seeds."""

    cell: str
    digest: str
    seeds: tuple[int, ...]

    def folder(self, runs: Path, seed: int) -> Path:
        """Where that seed's run lies."""
        return runs / self.cell / self.digest / f"seed-{seed}"


class Curve(NamedTuple):
    """A seed's evaluations: the metric averaged over the episodes of each."""

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
    """The metric of every episode of final.csv, where that file exists."""

    @property
    def final(self) -> float | None:
        """Mean over the episodes of the final policy."""
        return None if self.final_episodes is None else float(self.final_episodes.mean())

    @property
    def episode_spread(self) -> float | None:
        """Standard deviation over the episodes of the final policy."""
        values = self.final_episodes
        return float(values.std(ddof=1)) if values is not None and len(values) > 1 else None

    @property
    def diverged(self) -> bool:
        return bool(self.document["status"] == "diverged")

    @property
    def engine(self) -> str:
        """Which simulator, in the sense in which two may not be mixed within a table; other options are deviations."""
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
        """Which terrain, of a task that has one."""
        environment = self.document["environment"]
        return str(environment.get("terrain", environment.get("map_data", "")))

    def iterations(self) -> records.Columns:
        """iterations.csv, verified and read when asked for."""
        read_verified(self.folder, RunId.of(self.document), (records.ITERATIONS,))
        return records.read_iterations(self.folder / records.ITERATIONS)


@dataclass(frozen=True)
class CellRuns:
    """What exists of a planned cell."""

    planned: Planned
    runs: tuple[Run, ...]

    @property
    def cell(self) -> str:
        return self.planned.cell

    @property
    def diverged(self) -> int:
        """Seeds that diverged; they count as seeds."""
        return sum(run.diverged for run in self.runs)

    @property
    def deviations(self) -> tuple[Change, ...]:
        """Where the settings depart from the paper's cell, over all seeds, other than by the variant the cell names."""
        return departures({Change.read(text) for run in self.runs for text in run.document["deviations"]})

    def scores(self, reduction: Reduction | None = None) -> list[float]:
        """One number per seed that has one (a seed that diverged counts with its last finite evaluations)."""
        chosen = reduction or protocol_of(self.cell).reduction
        found = [reduce(run, chosen) for run in self.runs]
        return [value for value in found if value is not None]

    def summary(self) -> Summary | None:
        """The paper's statistic over seeds; None where nothing was run."""
        scores = self.scores()
        return summarise(scores, protocol_of(self.cell).statistic) if scores else None


def metric_values(table: records.Columns, metric: Metric) -> NDArray[np.float64]:
    """The metric of every episode; win rates in percent."""
    return table["won"] * 100.0 if metric == "win_rate" else table[metric]


def curve(evaluations: records.Columns, metric: Metric) -> Curve:
    """Average over the episodes of each evaluation; evaluations with a value that is not finite are left out."""
    steps, place = np.unique(evaluations["env_steps"], return_inverse=True)
    values = metric_values(evaluations, metric)
    with np.errstate(invalid="ignore"):
        means = np.bincount(place, values, len(steps)) / np.bincount(place, minlength=len(steps))
    finite = np.isfinite(means)
    return Curve(steps[finite], means[finite])


def last_ten(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last ten evaluations, but never more than the later half of a short run."""
    return values[-min(10, max(1, len(values) // 2)) :]


def reduce(run: Run, reduction: Reduction) -> float | None:
    """The named reduction of a run to its score; None for a run that diverged before its first evaluation."""
    if reduction == "final" and run.final is not None:
        return run.final
    values = run.curve.value
    if not len(values):
        return None
    if reduction == "final":
        return float(values[-1])
    return float(np.mean(last_ten(values)) if reduction == "last-10-mean" else np.median(last_ten(values)))


def pooled_median(runs: CellRuns) -> Summary | None:
    """Median and deviation of all seeds' last ten evaluations in one pool: what fits the published SMAC ± best."""
    pool = [value for run in runs.runs for value in last_ten(run.curve.value)]
    return Summary(*summarise(pool, "median")[:2], len(runs.runs)) if pool else None


def load_run(folder: Path, expected: RunId) -> Run:
    """Read one run folder, verified. run.json is written last, so its presence means the run is complete."""
    document = read_verified(folder, expected, (records.EVALUATIONS, records.FINAL))
    tables = read_tables(folder, document)
    metric = protocol_of(expected.cell).metric
    final: NDArray[np.float64] | None = None
    if tables.final is not None:
        values = metric_values(tables.final, metric)
        final = values if len(values) and np.isfinite(values).all() else None
    return Run(document["seed"], folder, document, curve(tables.evaluations, metric), final)


def collect(runs: Path, planned: Iterable[Planned]) -> list[CellRuns]:
    """Whatever exists of each planned cell, in the order planned. Superseded configurations are never looked at."""
    return [
        CellRuns(
            cell,
            tuple(
                load_run(folder, RunId(cell.cell, cell.digest, seed))
                for seed, folder in ((seed, cell.folder(runs, seed)) for seed in cell.seeds)
                if (folder / records.RUN).is_file()
            ),
        )
        for cell in planned
    ]


def engine_of(cells: Sequence[CellRuns], where: str) -> str | None:
    """The one engine behind all runs, None if there are none; a mixture is refused."""
    engines = sorted({run.engine for cell in cells for run in cell.runs})
    if len(engines) > 1:
        raise UserError(f"{where} would mix engines: {'; '.join(engines)}")
    for cell in cells:
        grounds = sorted({run.ground for run in cell.runs})
        if len(grounds) > 1:
            raise UserError(f"{where} would mix terrains of {cell.cell}: {'; '.join(grounds)}")
    return engines[0] if engines else None


def battles_by(cells: Sequence[CellRuns]) -> str:
    """For captions: which engine fought the battles shown, empty where there are none."""
    engine = engine_of([cell for cell in cells if DOMAINS[Cell.of(cell.cell).domain].real_backend], "a figure")
    if engine is None:
        return ""
    return "StarCraft II" if "starcraft2" in engine else "embedded engine, not StarCraft II"
