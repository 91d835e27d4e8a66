"""Metrics of an environment's own in tables and report: means over episodes per seed, then over seeds."""

from __future__ import annotations

from fp3o.config.metrics import RETURN
from fp3o.statistics.intervals import summarise
from fp3o.statistics.scores import CellRuns


def metric_names(cell: CellRuns) -> list[str]:
    """Names of the metrics that the cell's runs recorded."""
    return list(dict.fromkeys(name for run in cell.runs for name in run.document["score"].get("metrics", {})))


def mean_of(cell: CellRuns, name: str) -> str:
    """`3.2 ± 0.1`, over the seeds that have a number."""
    found = [run.document["score"].get("metrics", {}).get(name) for run in cell.runs]
    values = [value for value in found if value is not None]
    if not values:
        return "not reported"
    mean, deviation, count = summarise(values, "mean")
    return f"{mean:.4g} ± {deviation:.2g}" if count > 1 else f"{mean:.4g}"


def sentence(cell: CellRuns) -> str:
    """A note below a table: the cell's metrics, and what its score is where agents' rewards differ; "" without any."""
    names = metric_names(cell)
    if not names:
        return ""
    shown = ", ".join(f"{name} {mean_of(cell, name)}" for name in names)
    own = cell.runs[0].document["options"].get("reward") == "own"
    several = f"; its score is the sum over agents, whose rewards differ: see {RETURN}/… of each" if own else ""
    return f"{cell.cell}: {shown} (final policies, mean over seeds){several}."
