"""Folders for compiled programs (torch's and numba's)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Busy(Exception):
    """Another process is making the program."""


def folder_for(package: Path, name: str, chosen: str | None = None) -> Path | None:
    """A folder with this name: in `chosen`, else beside the package's sources, else in the user's cache folder.

    None where none of them can be written to. Never in a shared temporary folder, where other users could place code
    for us to run.
    """
    bases = [Path(chosen)] if chosen else [package / "__pycache__"]
    if not chosen:
        with contextlib.suppress(RuntimeError):  # a user without a home, as in some containers
            bases.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fp3o")
    for base in bases:
        folder = base / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


@contextmanager
def making(lock: Path, wait: bool = True) -> Iterator[None]:
    """Compile or load a program inside; of several processes the first holds a lock meanwhile, and the others wait for
    it, to find the program made, or get `Busy`. It only saves work: where no lock can be had, each compiles for
    itself."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # the folder is gone, the file another user's, the file system without locks
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(lock.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise Busy from None
                fcntl.flock(file, fcntl.LOCK_SH)  # shared: all that waited load it at the same time
        yield
