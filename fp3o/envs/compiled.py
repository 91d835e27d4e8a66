"""numba's decorators as the engines use them: the interpreter lock released, machine code cached on disk."""

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
    """Folder for machine code; "" if none can be written to.

    Its name has a digest of the sources, because numba does not notice a change in a function that a cached one calls.
    """
    sources = (Path(__file__), *sorted(package.glob("*.py")))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    return str(folder_for(package, f"numba-{digest}", os.environ.get("NUMBA_CACHE_DIR")) or "")


def compiled(function: Function, parallel: bool = False, counts: bool = True) -> Function:
    """Compile on first use. Without fastmath, so that results are reproducible bit for bit. Division by zero is not
    checked (numba's error model "numpy"): the engines never divide by zero. counts: see `uncounted`."""
    folder = cache_folder(Path(function.__code__.co_filename).parent)
    before = settings.CACHE_DIR
    # numba looks the folder up when a function is decorated; other packages' functions keep theirs.
    settings.CACHE_DIR = folder or before
    try:
        options: dict[str, Any] = {"error_model": "numpy", "parallel": parallel, "_nrt": counts}
        return cast(Function, numba.njit(nogil=True, cache=bool(folder), **options)(function))
    finally:
        settings.CACHE_DIR = before


def in_parallel(function: Function) -> Function:
    """Like `compiled`, with the iterations of prange loops spread over the threads of `use_threads`."""
    return compiled(function, parallel=True)


def uncounted(function: Function) -> Function:
    """Like `compiled`, without numba's reference counts of arrays; such a function, with all that it calls, may not
    make arrays. Counting takes a locked memory access wherever an array is taken out of a tuple: half of the time of
    an engine whose tables are tuples of arrays."""
    return compiled(function, counts=False)


@contextlib.contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Number of threads of the parallel calls inside (at most as many as numba started). One such block at a time, as
    numba's workqueue cannot run two parallel calls at once."""
    if "NUMBA_THREADING_LAYER" not in os.environ:
        settings.THREADING_LAYER = "workqueue"  # idle threads sleep; OpenMP's spin and do not survive a fork
    with _ONE_AT_A_TIME:
        numba.set_num_threads(min(threads, settings.NUMBA_NUM_THREADS))
        yield


_ONE_AT_A_TIME = threading.Lock()


def inlined(function: Function) -> Function:
    """Compiled as part of its caller: passing all its tables as arguments would cost more than its work."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
