"""The resources of a job for Snakemake's scheduler: its share of this machine's memory and GPU slots, in millionths.

Snakemake's limits are constants in a profile (`resources: [device_share=1000000, …]` in profiles/default), the same for
every machine. So a job's share of the machine is computed, and the limit is always the whole.
"""

from __future__ import annotations

import os
from pathlib import Path

from fp3o import config

WHOLE = 1_000_000
HEADROOM = 1.25
"""Memory asked for, as a multiple of the measured: allocators and libraries differ between machines. Assumed."""
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def needed_mb(cell: str, attempt: int = 1) -> int:
    """Memory (MiB) to ask for a job of this cell; every retry asks for half as much more."""
    measured = config.memory_mib(config.Cell.parse(cell))
    return round(measured * HEADROOM * (1 + attempt) / 2)


def total_mb() -> int:
    """Memory (MiB) of this machine, or of the container this process is in."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such control group, or "max"
            continue
    return min(limits) >> 20


def memory_share(needed: int, total: int) -> int:
    """Millionths of the machine's memory; a job larger than the machine gets all of it and runs alone."""
    return min(WHOLE, -(-needed * WHOLE // total))


def device_share(devices: int, per_device: int) -> int:
    """Millionths of all GPU slots that one job takes; 0 without devices."""
    return WHOLE // (devices * per_device) if devices else 0
