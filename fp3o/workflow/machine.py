"""The resources of a job for Snakemake's scheduler: its share of this machine's memory and GPU slots, in millionths.

Snakemake's limits are constants in a profile (`resources: [device_share=1000000, …]` in profiles/default), the same for
every machine. So a job's share of the machine is computed, and the limit is always the whole.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fp3o import config

WHOLE = 1_000_000
HEADROOM = 1.25
"""Memory asked for, as a multiple of the measured: allocators and libraries differ between machines. Assumed."""
PATIENCE = 30.0
"""Seconds for nvidia-smi, which wakes every sleeping device of a machine before it answers. Assumed."""
_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,mig.mode.current,memory.total", "--format=csv,noheader,nounits")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def needed_mb(cell: str, attempt: int = 1) -> int:
    """Memory (MiB) to ask for a job of this cell; every retry asks for half as much more."""
    return _asked(config.memory_mib(config.Cell.parse(cell)), attempt)


def needed_gpu_mb(cell: str, attempt: int = 1) -> int:
    """Memory of a GPU (MiB) to ask for, likewise."""
    return _asked(config.gpu_mib(config.Cell.parse(cell)), attempt)


def _asked(measured: int, attempt: int) -> int:
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


def device_mb(names: Sequence[str]) -> int | None:
    """Memory (MiB) of the smallest of these devices; None: not known, as for parts of a device (MIG).

    A device's number is nvidia-smi's, which is also CUDA's unless a machine has devices of several kinds and
    CUDA_DEVICE_ORDER is not PCI_BUS_ID.
    """
    if not names:
        return None
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        devices = list(csv.reader(answer.splitlines(), skipinitialspace=True))
        return min(_whole_device_mb(name, devices) for name in names)
    except (OSError, subprocess.SubprocessError, LookupError, ValueError):
        return None


def _whole_device_mb(name: str, devices: Sequence[Sequence[str]]) -> int:
    """LookupError, or ValueError (a number is "[N/A]"), if nvidia-smi does not tell it."""
    for index, uuid, parted, memory in devices:
        # CUDA takes the beginning of a uuid for the whole.
        if (name == index or (name.startswith("GPU-") and uuid.startswith(name))) and parted != "Enabled":
            return int(memory)
    raise LookupError(name)


def device_slots(needed: int, total: int | None, per_device: int) -> int:
    """How many of a device's slots hold this memory; all of them for a job larger than the device, one if not known."""
    return min(per_device, -(-needed * per_device // total)) if total else 1


def device_share(slots: int, devices: int, per_device: int) -> int:
    """Millionths of all GPU slots that so many are; 0 without devices."""
    return slots * WHOLE // (devices * per_device) if devices else 0
