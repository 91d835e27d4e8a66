"""The cache of compiled programs, which all processes of a user share; one compiles a program, the others wait."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fp3o import caches, machine

OURS = "programs-"
CHOSEN, TRITON = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"  # the compilers' own variables


@dataclass
class CompileProgress:
    """Counts the programs of this process."""

    programs: int = 0
    """Compiled or loaded so far."""
    report: Callable[[int], None] | None = None
    """Called with the number of a program before it is compiled or loaded."""


PROGRESS = CompileProgress()


@functools.cache
def cache_folder() -> Path | None:
    """The cache folder, which is also set for torch's compilers; None where nothing can be written."""
    chosen = os.environ.get(CHOSEN)
    name = OURS + digest(f"{torch.__version__}\n{machine.processor_model()}")  # machines may share a home folder
    folder = Path(chosen) if chosen else caches.folder_for(name)
    if folder is not None:
        os.environ[CHOSEN] = str(folder)
        # Where torch puts it as well, but only once it compiles: a process that loads all its programs would miss what
        # Triton keeps beside its kernels, and call a C compiler for seconds.
        os.environ.setdefault(TRITON, str(folder / "triton" / "0"))
    return folder


def digest(text: str) -> str:
    """Short, for file names."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def compile_lock(key: str) -> Iterator[Path | None]:
    """Inside, compile or load the program with this key; other processes that need it wait. Yields the cache folder."""
    PROGRESS.programs += 1
    if PROGRESS.report is not None:
        PROGRESS.report(PROGRESS.programs)
    folder = cache_folder()
    with nullcontext() if folder is None else caches.making(folder / "locks" / digest(key)):
        yield folder


def conditions(tensors: list[Tensor]) -> tuple[Any, ...]:
    """What a program depends on besides what it computes: processor and GPU, and how torch is set to compile."""
    importlib.import_module("torch._inductor.compile_fx")
    inductor: Any = torch._inductor
    return (
        torch.__version__,
        machine.processor_model(),
        torch.backends.cpu.get_cpu_capability(),  # which ATEN_CPU_CAPABILITY changes
        sorted({torch.cuda.get_device_name(x.device) for x in tensors if x.is_cuda}),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        inductor.config.save_config_portable(),
    )
