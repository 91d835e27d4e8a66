"""Programs made by torch's compiler: each is made once per machine, and kept.

Cells that start together need the same programs: whoever comes first makes one, the others wait and then find it in
the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
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

from fp3o.caches import folder_for
from fp3o.runs.atomic import write_atomically

OURS = "programs-"
CHOSEN = "TORCHINDUCTOR_CACHE_DIR"  # torch's own variable


@dataclass
class Work:
    """What the compiler does, for those who wait."""

    programs: int = 0
    """Made or looked up by this process."""
    tell: Callable[[int], None] | None = None
    """Called with the number of a program when its turn comes."""


WORK = Work()


@functools.cache
def cache_folder() -> Path | None:
    """Where programs are kept; torch's compiler is told so. None where nothing can be written."""
    if chosen := os.environ.get(CHOSEN):
        return Path(chosen)
    folder = folder_for(Path(__file__).parent, OURS + _digest(_machine()))
    if folder is not None:
        os.environ[CHOSEN] = str(folder)
    return folder


def _machine() -> str:
    """Programs are made for this very processor; the folder may be on a disk that several kinds of machines share."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else [platform.processor()]
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join((torch.__version__, platform.machine(), *sorted({x for x in lines if x.startswith(names)})))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def making(key: str) -> Iterator[Path | None]:
    """The turn of a program: the first process makes it, others that need the same wait until it is in the cache."""
    WORK.programs += 1
    if WORK.tell is not None:
        WORK.tell(WORK.programs)
    folder = cache_folder()
    if folder is None:
        yield None
        return
    locks = folder / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / _digest(key)).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)  # from here on all that waited look it up together
        yield folder


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Shapes never change within a run, so everything is specialised to them."""
    cache_folder()
    torch._dynamo.config.trace_autograd_ops = True  # a step takes its gradient inside the compiled function
    return torch.compile(function, backend=_backend, dynamic=False, fullgraph=True)


def _backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    importlib.import_module("torch._inductor.compile_fx")  # seconds, which others need not wait for
    return _compile(graph, inputs)


def _compile(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """torch's own compiler; a cache that it cannot read is made anew."""
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
    """What the compiler remembers of its cache in this process."""
    from torch._inductor.utils import clear_caches

    clear_caches()


@contextmanager
def _without(folder: Path) -> Iterator[None]:
    """Puts a cache aside, for good if what follows works without it."""
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
    """For a function of tensors, dictionaries of them and None, whose shapes and strides never change.

    torch.compile makes sure of that at every call, which costs 0.1 ms, as much as three forward passes of a policy.
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
            # Constants are not part of the key: what has some is made every time.
            kept = None if folder is None or exported.constants else folder / f"ahead-{_digest(key)}.pt2"
            if kept is not None and kept.exists():
                with contextlib.suppress(Exception):  # damaged: it is made anew
                    return _load(kept)
            # torch adds to this setting and leaves it so; what is compiled later would not be found in the cache again.
            with torch._inductor.config.patch("aot_inductor.metadata", {}):
                torch._inductor.aoti_compile_and_package(exported, package_path=f"{made}/program.pt2")
            if kept is None:
                return _load(Path(made, "program.pt2"))
            write_atomically(kept, Path(made, "program.pt2").read_bytes())
            return _load(kept)


def _load(package: Path) -> Callable[[list[Tensor]], Any]:
    run: Callable[[list[Tensor]], Any] = torch._inductor.aoti_load_package(str(package)).loader.boxed_run
    return run
