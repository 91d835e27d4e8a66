"""What Snakemake's scheduler is told of a job: its threads, its work, and its share of memory and GPU slots.

Snakemake's limits are constants in a profile (`resources: [device_share=1000000, …]` in profiles/default), the same for
every machine. So a job's share of the machine is computed, in millionths, and the limit is always the whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Literal, TypeVar

from fp3o import config

Job = TypeVar("Job", bound=Hashable)

WHOLE = 1_000_000
HEADROOM = 1.25
"""Memory asked for, as a multiple of the measured: allocators and libraries differ between machines. Assumed."""


def needed_mb(what: Literal["memory_mib", "gpu_mib"], cell: str, attempt: int = 1) -> int:
    """Main memory or memory of a GPU (MiB) to ask for a job of this cell; every retry asks for half as much more."""
    return round(config.measured(config.Cell.parse(cell), what) * HEADROOM * (1 + attempt) / 2)


def memory_share(needed: int, total: int) -> int:
    """Millionths of the machine's memory; a job larger than the machine gets all of it and runs alone."""
    return min(WHOLE, -(-needed * WHOLE // total))


def device_slots(needed: int, total: int | None, per_device: int) -> int:
    """How many of a device's slots hold this memory; all of them for a job larger than the device, one if not known."""
    return min(per_device, -(-needed * per_device // total)) if total else 1


def device_share(slots: int, devices: int, per_device: int) -> int:
    """Millionths of all GPU slots that so many are; 0 without devices."""
    return slots * WHOLE // (devices * per_device) if devices else 0


def work_seconds(plan: config.Plan, seeds: int) -> float:
    """Processor time of training so many seeds, by the measured cost of a step."""
    return config.step_seconds(plan.cell) * plan.settings.total_steps * seeds


def threads_of_jobs(work: Mapping[Job, float], cores: int, at_once: int) -> dict[Job, int]:
    """Threads of each job, by its work: never more than cores.

    More jobs than run at once share the cores evenly. Of fewer, each gets one core, and every further core goes to the
    job that would take longest, so that they end together.
    """
    if not work or len(work) >= at_once:
        return dict.fromkeys(work, max(1, cores // at_once))
    threads = dict.fromkeys(work, 1)
    for _ in range(cores - len(work)):
        threads[max(work, key=lambda job: work[job] / threads[job])] += 1
    return threads


def jobs_per_gpu(asked: int | str, processors: int, mps: bool) -> int:
    """Of --config jobs_per_gpu. `auto`: as many as processors where MPS lets them work side by side, else four."""
    return int(asked) if asked != "auto" else max(4, processors) if mps else 4
