"""The resources of a job for Snakemake's scheduler: its share of this machine's memory and GPU slots, in millionths.

Snakemake's limits are constants in a profile (`resources: [device_share=1000000, …]` in profiles/default), the same for
every machine. So a job's share of the machine is computed, and the limit is always the whole.
"""

from __future__ import annotations

from fp3o import config

WHOLE = 1_000_000
HEADROOM = 1.25
"""Memory asked for, as a multiple of the measured: allocators and libraries differ between machines. Assumed."""


def needed_mb(cell: str, attempt: int = 1) -> int:
    """Memory (MiB) to ask for a job of this cell; every retry asks for half as much more."""
    return _asked(config.memory_mib(config.Cell.parse(cell)), attempt)


def needed_gpu_mb(cell: str, attempt: int = 1) -> int:
    """Memory of a GPU (MiB) to ask for, likewise."""
    return _asked(config.gpu_mib(config.Cell.parse(cell)), attempt)


def _asked(measured: int, attempt: int) -> int:
    return round(measured * HEADROOM * (1 + attempt) / 2)


def memory_share(needed: int, total: int) -> int:
    """Millionths of the machine's memory; a job larger than the machine gets all of it and runs alone."""
    return min(WHOLE, -(-needed * WHOLE // total))


def device_slots(needed: int, total: int | None, per_device: int) -> int:
    """How many of a device's slots hold this memory; all of them for a job larger than the device, one if not known."""
    return min(per_device, -(-needed * per_device // total)) if total else 1


def device_share(slots: int, devices: int, per_device: int) -> int:
    """Millionths of all GPU slots that so many are; 0 without devices."""
    return slots * WHOLE // (devices * per_device) if devices else 0
