"""Programs compiled by torch; each is compiled once per machine and kept in a cache.

Runs that start together often need the same program: the first process compiles it, the others wait and then load it
from the cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fp3o import caches
from fp3o.runs.atomic import write_atomically

OURS = "programs-"
CHOSEN = "TORCHINDUCTOR_CACHE_DIR"  # torch's own variable


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
    """The cache folder, which is also set for torch's compiler; None where nothing can be written."""
    if chosen := os.environ.get(CHOSEN):
        return Path(chosen)
    folder = caches.folder_for(Path(__file__).parent, OURS + _digest(_machine()))
    if folder is not None:
        os.environ[CHOSEN] = str(folder)
    return folder


def _machine() -> str:
    """Identifies the processor: programs are compiled for it, and machines of several types may share the folder."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else [platform.processor()]
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join((torch.__version__, platform.machine(), *sorted({x for x in lines if x.startswith(names)})))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def making(key: str) -> Iterator[Path | None]:
    """Compile or load the program with this key inside, once for several processes. Yields the cache folder."""
    WORK.programs += 1
    if WORK.tell is not None:
        WORK.tell(WORK.programs)
    folder = cache_folder()
    if folder is None:
        yield None
        return
    locks = folder / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with caches.making(locks / _digest(key)):
        yield folder


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, specialised to its shapes, which never change within a run."""
    cache_folder()
    torch._dynamo.config.trace_autograd_ops = True  # a step takes its gradient inside the compiled function
    return torch.compile(function, backend=_backend, dynamic=False, fullgraph=True)


def _backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    # Takes seconds; before the lock is taken, so that other processes need not wait for it.
    importlib.import_module("torch._inductor.compile_fx")
    return _compile(graph, inputs)


def _compile(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """Compile with torch's inductor; if that fails, once more with an empty cache, as ours may be damaged."""
    with making(f"{graph.graph}{[_kind(x) for x in inputs]}"):
        try:
            return _inductor(graph, inputs)
        except Exception:
            folder = cache_folder()
            if folder is None or not folder.name.startswith(OURS):
                raise
            with _without(folder):
                return _inductor(graph, inputs)


def _inductor(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    program: Callable[..., Any] = torch._dynamo.lookup_backend("inductor")(graph, inputs)
    return program


def _kind(x: Any) -> Any:
    return (x.dtype, x.shape, x.stride(), x.device) if isinstance(x, Tensor) else x


def _forget() -> None:
    """Clear what the compiler keeps of its cache in this process's memory."""
    from torch._inductor.utils import clear_caches

    clear_caches()


@contextmanager
def _without(folder: Path) -> Iterator[None]:
    """Empty the cache folder; its old content is put back if what happens inside fails as well."""
    aside = folder.with_name(f"{folder.name}-aside-{os.getpid()}")
    folder.rename(aside)
    folder.mkdir(exist_ok=True)
    _forget()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def ahead_of_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, without torch.compile's checks of its arguments at every call.

    Its arguments are tensors, dictionaries of tensors or None, and their shapes and strides must never change. The
    checks would take 0.1 ms, as long as three forward passes of a policy.
    """
    run: Callable[[list[Tensor]], Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal run
        if run is None:
            run = _program(function, arguments)
        return run(_tensors(arguments))

    return call


def _tensors(arguments: tuple[Any, ...]) -> list[Tensor]:
    return [x for a in arguments if a is not None for x in (a.values() if isinstance(a, dict) else (a,))]


def _program(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[list[Tensor]], Any]:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> Any:
            left = iter(tensors)
            return function(
                *(
                    {k: next(left) for k in a} if isinstance(a, dict) else None if a is None else next(left)
                    for a in arguments
                )
            )

    tensors = _tensors(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, about its pytrees
        exported = torch.export.export(Module(), tuple(tensors))
        key = f"{exported.graph}{[_kind(x) for x in tensors]}"
        with making(key) as folder, tempfile.TemporaryDirectory() as made:
            # Constants are not part of the key: a program with constants is compiled every time.
            kept = None if folder is None or exported.constants else folder / f"ahead-{_digest(key)}.pt2"
            if kept is not None and kept.exists():
                with contextlib.suppress(Exception):  # damaged: it is compiled again
                    return _load(kept)
            # torch changes this setting for good, and programs compiled later would not be found in the cache again.
            with torch._inductor.config.patch("aot_inductor.metadata", {}):
                torch._inductor.aoti_compile_and_package(exported, package_path=f"{made}/program.pt2")
            if kept is None:
                return _load(Path(made, "program.pt2"))
            write_atomically(kept, Path(made, "program.pt2").read_bytes())
            return _load(kept)


def _load(package: Path) -> Callable[[list[Tensor]], Any]:
    run: Callable[[list[Tensor]], Any] = torch._inductor.aoti_load_package(str(package)).loader.boxed_run
    return run
