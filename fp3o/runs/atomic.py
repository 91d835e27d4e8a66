"""Atomic file writing: readers see the old file or the new one, never half of it, even after kill -9 or a full disk."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fp3o.errors import UserError, causes

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
    errno.ENAMETOOLONG: "its path is too long; choose a shorter folder",
    errno.ELOOP: "its path runs in a circle of links",
    errno.ENXIO: "it is no plain file",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk (full, read-only, no permission …) into a UserError of one line that names the file."""
    try:
        yield
    except OSError as error:
        reason = _DISK_TROUBLE.get(error.errno or 0)
        if reason is None:
            raise
        raise UserError(f"cannot write {_shown(path)}: {reason}") from error


def disk_trouble(error: BaseException) -> str | None:
    """A message if the error, or one it was raised from, comes from the disk; None for any other error.

    Compilers and simulators write to the temporary folder, and their errors only quote the system's message.
    """
    for link in causes(error):
        full = isinstance(link, OSError) and link.errno in _NO_ROOM
        if full or "No space left on device" in str(link) or "No usable temporary directory" in str(link):
            return (
                f"no room or no right to write in {tempfile.gettempdir() if _temporary() else 'any temporary folder'} "
                "or the output folder: free some, or set TMPDIR to a folder on another disk"
            )
        if isinstance(link, OSError) and link.filename is not None and link.errno in _DISK_TROUBLE:
            return f"cannot use {_shown(link.filename)}: {_DISK_TROUBLE[link.errno]}"
    return None


def _temporary() -> bool:
    """Whether there is a temporary folder that can be written to."""
    try:
        return bool(tempfile.gettempdir())
    except OSError:
        return False


def _shown(name: object) -> str:
    text = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    return text if len(text) <= 200 else f"{text[:100]} … {text[-60:]}"


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, force to disk, rename. One writer per path at a time, which the run's lock ensures."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Likewise what is written to the file inside; after an error the target is as it was."""
    partial = partial_path(path)
    with disk_errors(path):
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def partial_path(path: Path) -> Path:
    """Where a file is written before it is renamed. A fixed name: the next write replaces what a killed one left."""
    return path.with_name(f".{path.name}.partial")


def sync_folder(folder: Path) -> None:
    """Force the folder's entries to disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot synchronise folders; the rename itself has happened.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
