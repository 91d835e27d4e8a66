"""Files that are either the old ones or the new ones, never half of each, even after kill -9 or on a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fp3o.errors import UserError

_DISK_TROUBLE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENOLCK: "the file system cannot lock files",
    errno.EIO: "the disk reports an input/output error",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what a disk can do to us (full, read-only, forbidden) into one line that names the file."""
    try:
        yield
    except OSError as error:
        reason = _DISK_TROUBLE.get(error.errno or 0)
        if reason is None:
            raise
        raise UserError(f"cannot write {path}: {reason}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, force to disk, rename. One writer per path at a time: the run's lock sees to that."""
    # A fixed name, so that a killed writer leaves at most one stray file and the next write takes it over.
    partial = path.with_name(f".{path.name}.partial")
    with disk_errors(path):
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot synchronise folders; the rename itself has happened.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
