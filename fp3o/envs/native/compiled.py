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

# Without fastmath, so that results are reproducible bit for bit. Division by zero is not checked: the engines never
# divide by zero.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Without numba's reference counts of arrays; such a function, with all that it calls, may not make arrays. Counting
# takes a locked memory access wherever an array is taken out of a tuple.
UNCOUNTED: dict[str, Any] = {**OPTIONS, "_nrt": False}


@functools.cache
def cache_folder(package: Path) -> str:
    """Folder for machine code; "" if none can be written to.

    Its name has a digest of the sources, because numba does not notice a change in a function that a cached one calls.
    """
    ours = [Path(__file__).with_name(f"{name}.py") for name in ("compiled", "intrinsics", "ranges")]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in (*ours, *sorted(package.glob("*.py")))))
    return str(folder_for(f"numba-{digest.hexdigest()[:12]}", os.environ.get("NUMBA_CACHE_DIR")) or "")


@contextlib.contextmanager
def cache_of(function: Callable[..., Any]) -> Iterator[str]:
    """Where numba looks for a cache inside: this function's `cache_folder`; other packages' functions keep theirs."""
    folder = cache_folder(Path(function.__code__.co_filename).parent)
    with _ONE_FOLDER:
        before = settings.CACHE_DIR
        settings.CACHE_DIR = folder or before
        try:
            yield folder
        finally:
            settings.CACHE_DIR = before


_ONE_FOLDER = threading.Lock()


def compiled(function: Function, **options: Any) -> Function:
    """Compile on first use."""
    with cache_of(function) as folder:
        return cast(Function, numba.njit(cache=bool(folder), **(OPTIONS | options))(function))


def uncounted(function: Function) -> Function:
    """Like `compiled`, without reference counts."""
    return compiled(function, **UNCOUNTED)


def inner(function: Function, **options: Any) -> Function:
    """Like `uncounted`, for functions that only compiled ones call: no entry for Python is made, they are cached as a
    part of their callers, and inlined, as a call would push the sizes and strides of every array."""
    inlined = {"no_cpython_wrapper": True, "forceinline": True}
    return cast(Function, numba.njit(**(UNCOUNTED | options | inlined))(function))
