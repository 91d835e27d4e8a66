"""numba's decorators as the engines use them: without the interpreter lock, cached on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_settings

from fp3o.caches import folder_for

settings: Any = numba_settings
Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def cache_folder(package: Path) -> str:
    """Where machine code is kept; nowhere ("") if no folder can be written.

    Named after the sources, because numba's own check misses a change in a function that a cached one calls.
    """
    sources = (Path(__file__), *sorted(package.glob("*.py")))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    return str(folder_for(package, f"numba-{digest}", os.environ.get("NUMBA_CACHE_DIR")) or "")


def compiled(function: Function, parallel: bool = False) -> Function:
    """Compile on first use. No fastmath: the same actions give the same bits. Nothing is ever divided by zero."""
    folder = cache_folder(Path(function.__code__.co_filename).parent)
    before = settings.CACHE_DIR
    # numba looks the folder up when a function is decorated; other packages' functions keep theirs.
    settings.CACHE_DIR = folder or before
    try:
        jit = numba.njit(nogil=True, cache=bool(folder), error_model="numpy", parallel=parallel)
        return cast(Function, jit(function))
    finally:
        settings.CACHE_DIR = before


def in_parallel(function: Function) -> Function:
    """`compiled`, with the rounds of a prange loop spread over `use_threads` threads."""
    return compiled(function, parallel=True)


@contextlib.contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Threads of the next parallel call, as many as numba may start; one call at a time, which is all it can do."""
    if "NUMBA_THREADING_LAYER" not in os.environ:
        settings.THREADING_LAYER = "workqueue"  # idle threads sleep; OpenMP's spin and do not survive a fork
    with _ONE_AT_A_TIME:
        numba.set_num_threads(min(threads, settings.NUMBA_NUM_THREADS))
        yield


_ONE_AT_A_TIME = threading.Lock()


def inlined(function: Function) -> Function:
    """Becomes part of its only caller: passing all the tables to it would cost more than its work."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
