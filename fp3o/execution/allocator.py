"""When memory is freed: glibc's allocator keeps freed activations, Python collects no garbage for a while."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# <malloc.h> of the GNU C library.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_MMAP_THRESHOLD = 32 * 2**20  # what the library accepts
KEPT = 2**30


def reuse_freed_memory() -> bool:
    """Tell the C library to keep freed memory instead of returning it to the system; whether it accepted.

    A step allocates and frees the same megabyte-sized activations again and again. By default each of them causes page
    faults, which take a quarter of an eager step's time. For torch on ARM see `fp3o/__init__.py`.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Python does not look for objects that refer to each other and are no longer used.

    While torch and its compiler are imported that takes a fifth of the time: they make many objects, and drop none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
