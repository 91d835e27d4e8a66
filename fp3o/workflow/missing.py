"""What `snakemake -n` says first: how much of a suite is here, saved or missing, and how long the rest takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fp3o import config, machine
from fp3o.errors import UserError
from fp3o.progress import duration
from fp3o.runs import layout
from fp3o.workflow import resources, status

TO_TRAIN = ("missing", "resumable", "failed")


def summary(suite: config.Suite, cores: int, gpus: int) -> list[str]:
    """For a machine with so many cores and GPUs."""
    cells = status.examine(suite)
    states = Counter(state for cell in cells for state in cell.seeds.values())
    here, saved = states["done"] + states["diverged"] + states["damaged"], states["in DVC"]
    seeds_left = {cell.cell: sum(state in TO_TRAIN for state in cell.seeds.values()) for cell in cells}
    jobs = [(suite.run(cell)[0], number) for cell, number in seeds_left.items() if number]
    parts = [f"{here:,} here"]
    if saved:
        parts.append(f"{saved:,} saved and not pulled (`fp3o pull`)")
    parts.append(f"{states.total() - here - saved:,} to train")
    lines = [f"suite {suite.name}: of {states.total():,} runs of {len(cells)} cells {', '.join(parts)}"]
    if jobs:
        domains = Counter(plan.cell.domain for plan, _ in jobs)
        lines.append("cells to train: " + ", ".join(f"{name} {count}" for name, count in domains.items()))
        lines.append(_beside_a_gpu(jobs, cores) if gpus else _on_processors(jobs, cores))
    return lines


def _beside_a_gpu(jobs: Iterable[tuple[config.Plan, int]], cores: int) -> str:
    seconds = sum(resources.work_seconds(plan, seeds) for plan, seeds in jobs) / cores
    return f"time: about {duration(seconds)} on {cores} cores, by costs measured beside an H200 (benchmarks/tasks.yaml)"


def _on_processors(jobs: Iterable[tuple[config.Plan, int]], cores: int) -> str:
    """By what the runs here took that were trained without a GPU."""
    from fp3o.statistics import rates

    try:
        found = rates.Rates.on(rates.measured(layout.suite_root("paper").parent), "cpu", machine.host_without_gpu())
    except UserError:
        return "time: not known, as no run here was timed without a GPU (`fp3o pull` brings some)"
    minutes = {plan.cell.id: found.minutes(plan.cell.id, plan.settings.total_steps) for plan, _ in jobs}
    timed = [value for value in minutes.values() if value is not None]
    others = f"; {len(minutes) - len(timed)} cells not counted: of their domain none was timed" * (
        len(timed) < len(minutes)
    )
    return f"time: about {duration(60 * sum(timed) / cores)} on {cores} cores without a GPU{others}"
