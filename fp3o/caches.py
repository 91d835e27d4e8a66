"""Folders for compiled programs (torch's and numba's)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fp3o import __version__


def folder_for(name: str, chosen: str | None = None) -> Path | None:
    """The folder with this name below `chosen`, else below this version's part of the user's cache folder.

    None where it cannot be written to, or where another user could have: what is in it is run. So never in a shared
    temporary folder.
    """
    if chosen:
        base = Path(chosen)
    else:
        try:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fp3o" / __version__
        except RuntimeError:  # a user without a home, as in some containers
            return None
    folder = base / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if chosen is None:
            private = folder.stat()
            if private.st_uid != os.getuid():
                return None
            folder.chmod(0o700)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@contextmanager
def making(lock: Path) -> Iterator[None]:
    """Compile or load a program inside; of several processes the first holds a lock meanwhile, and the others wait for
    it, to find the program made. It only saves work: where no lock can be had, each compiles for itself."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # the folder is gone, the file another user's, the file system without locks
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(lock.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(file, fcntl.LOCK_SH)  # shared: all that waited load it at the same time
        yield
