"""Where compiled programs are kept, for all processes of a machine; one of them makes a program, the others wait."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fp3o import caches

OURS = "programs-"
CHOSEN, TRITON = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"  # the compilers' own variables


@dataclass
class Work:
    """Counts the programs of this process, to show progress."""

    programs: int = 0
    """Compiled or loaded so far."""
    tell: Callable[[int], None] | None = None
    """Called with the number of a program before it is compiled or loaded."""


WORK = Work()


@functools.cache
def cache_folder() -> Path | None:
    """The cache folder, which is also set for torch's compilers; None where nothing can be written."""
    chosen = os.environ.get(CHOSEN)
    folder = Path(chosen) if chosen else caches.folder_for(Path(__file__).parent, OURS + digest(machine()))
    if folder is not None:
        os.environ[CHOSEN] = str(folder)
        # Where torch puts it as well, but only once it compiles: a process that loads all its programs would miss what
        # Triton keeps beside its kernels, and call a C compiler for seconds.
        os.environ.setdefault(TRITON, str(folder / "triton" / "0"))
    return folder


def machine() -> str:
    """Identifies the processor: programs are compiled for it, and machines of several types may share the folder."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else [platform.processor()]
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join((torch.__version__, platform.machine(), *sorted({x for x in lines if x.startswith(names)})))


def digest(text: str) -> str:
    """Short, for names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def making(key: str, wait: bool = True) -> Iterator[Path | None]:
    """Compile or load the program with this key inside, once for several processes. Yields the cache folder.

    wait: for another process that is doing so; otherwise `caches.Busy` is raised.
    """
    if wait:
        tell()
    folder = cache_folder()
    with nullcontext() if folder is None else caches.making(folder / "locks" / digest(key), wait):
        if not wait:
            tell()
        yield folder


def tell() -> None:
    """One more program is about to be compiled or loaded."""
    WORK.programs += 1
    if WORK.tell is not None:
        WORK.tell(WORK.programs)


def conditions(tensors: list[Tensor]) -> tuple[Any, ...]:
    """What a program depends on beside what it computes: processor and GPU, and how torch is set to compile."""
    importlib.import_module("torch._inductor.compile_fx")
    inductor: Any = torch._inductor
    return (
        machine(),
        torch.backends.cpu.get_cpu_capability(),  # which ATEN_CPU_CAPABILITY changes
        sorted({torch.cuda.get_device_name(x.device) for x in tensors if x.is_cuda}),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        inductor.config.save_config_portable(),
    )


# Kernels are not chosen by timing them: that takes seconds, and sums in another order would differ in the last bits
# from one machine to the next. Nor named after all they do: Triton shortens the files of names above 150 letters, torch
# does not find them, and a C compiler runs for each such kernel (10 of HalfCheetah's 55, 2.3 s in all).
SETTINGS = {"deterministic": True, "triton.autotune_pointwise": False, "triton.descriptive_names": False}


def load(kept: Path) -> Callable[..., Any]:
    importlib.import_module("torch._inductor.compile_fx")
    inductor: Any = torch._inductor
    with inductor.config.patch(SETTINGS):
        return cast(Callable[..., Any], inductor.CompiledArtifact.load(path=str(kept)))


def nested(run: Callable[..., Any], outputs: pytree.TreeSpec) -> Callable[..., Any]:
    """The program with its outputs nested like this."""
    return lambda *tensors: pytree.tree_unflatten(run(*tensors), outputs)
