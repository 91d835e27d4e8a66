"""What this machine is: processors, memory, GPUs, MPS, compilers. The one place that asks. torch is imported on use."""

from __future__ import annotations

import csv
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

_CGROUP_TIME = Path("/sys/fs/cgroup/cpu.max")
"""In a container: how much processor time it may use, and per which period; "max": all."""
_CGROUP_MEMORY = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_OWN_GROUPS = Path("/proc/self/cgroup")
"""The control groups of this process: a container's own look like the root, those of Slurm or systemd do not."""
_PATIENCE = 30.0
"""Seconds for nvidia-smi, which wakes every sleeping device of a machine before it answers. Assumed."""
_GPU_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,mig.mode.current,memory.total", "--format=csv,noheader,nounits")


def processors() -> int:
    """How many processors this process may use, within the limits of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        time, period = (int(number) for number in _CGROUP_TIME.read_text().split())
    except (OSError, ValueError):  # no such control group, or "max"
        return count
    return max(1, min(count, time // period))


def memory_bytes() -> int:
    """Memory of this machine, or what its container allows this process."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_MEMORY:
        for group in _memory_groups():
            try:
                limits.append(int((path.parent / group / path.name).read_text()))
            except (OSError, ValueError):  # no such control group, or "max"
                continue
    return min(limits)


def _memory_groups() -> set[PurePosixPath]:
    """The control groups that may limit this process's memory: its own and those above, from the root."""
    try:
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
    except OSError:
        lines = []
    own = [PurePosixPath(path.lstrip("/")) for _, kinds, path in lines if not kinds or "memory" in kinds.split(",")]
    return {PurePosixPath(), *own, *(above for group in own for above in group.parents)}


def peak_memory_mib() -> float:
    """The most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def has_c_compiler() -> bool:
    """torch and Triton need one to compile."""
    return any(shutil.which(name) for name in ("gcc", "clang", "cc"))


def has_mps() -> bool:
    """Whether NVIDIA's MPS runs, which lets processes use a GPU at the same time; without it they take turns."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")) / "control").exists()


def host() -> str:
    """`host` of run.json: cores, architecture and GPU, without the machine's name."""
    import torch

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{host_without_gpu()}{gpu}"


def host_without_gpu() -> str:
    """The same where none is used."""
    return f"{os.cpu_count()} cores {platform.machine()}"


def processor_model() -> str:
    """Model and instruction sets of the processor: what compiled programs depend on."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else [platform.processor()]
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join((platform.machine(), *sorted({x for x in lines if x.startswith(names)})))


def gpu_memory_mib(names: Sequence[str]) -> int | None:
    """Memory of the smallest of these GPUs; None: not known, as for parts of a device (MIG).

    A device's number is nvidia-smi's, which is also CUDA's unless a machine has devices of several kinds and
    CUDA_DEVICE_ORDER is not PCI_BUS_ID.
    """
    if not names:
        return None
    try:
        answer = subprocess.run(_GPU_QUERY, capture_output=True, text=True, check=True, timeout=_PATIENCE).stdout
        devices = list(csv.reader(answer.splitlines(), skipinitialspace=True))
        return min(_whole_device_mib(name, devices) for name in names)
    except (OSError, subprocess.SubprocessError, LookupError, ValueError):
        return None


def _whole_device_mib(name: str, devices: Sequence[Sequence[str]]) -> int:
    """LookupError, or ValueError (a number is "[N/A]"), where nvidia-smi has no answer."""
    for index, uuid, parted, memory in devices:
        # CUDA takes the beginning of a uuid for the whole.
        if (name == index or (name.startswith("GPU-") and uuid.startswith(name))) and parted != "Enabled":
            return int(memory)
    raise LookupError(name)
