"""results/<suite>/checkpoints.csv: checkpoints that are not saved with their runs, but in the remote for checkpoints.

file,bytes,md5,sha256      one line each: a file below results/<suite>/runs, and its name in the remote and in run.json

A checkpoint is looked up by the sha256 in its run.json. So a line about a run that was replaced does no harm, and git
can merge two versions by keeping the lines of both (.gitattributes).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fp3o.errors import UserError
from fp3o.runs.atomic import write_atomically

NAME = "checkpoints.csv"
_HEADER = "file,bytes,md5,sha256"
_LINE = re.compile("(.+),([0-9]+),([0-9a-f]{32}),([0-9a-f]{64})")


class Entry(NamedTuple):
    """A line of the file."""

    file: str
    size: int
    md5: str
    sha256: str

    @classmethod
    def of(cls, file: str, content: bytes) -> Entry:
        """The line about a file with this content."""
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return cls(file, len(content), md5, hashlib.sha256(content).hexdigest())


def read(root: Path) -> dict[str, Entry]:
    """The listed checkpoints of the suite whose folder this is, by sha256."""
    path = root / NAME
    entries: dict[str, Entry] = {}
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        if found := _LINE.fullmatch(line):
            entries[found[4]] = Entry(found[1], int(found[2]), found[3], found[4])
        elif line != _HEADER:
            raise UserError(f"{path} has a damaged line, {line[:80]!r}: `git checkout HEAD {path}` restores it")
    return entries


def add(root: Path, entries: Iterable[Entry]) -> None:
    """List these checkpoints, too."""
    known = read(root)
    wanted = known | {entry.sha256: entry for entry in entries}
    if wanted != known:
        lines = (",".join(map(str, entry)) for entry in sorted(wanted.values()))
        write_atomically(root / NAME, "".join(f"{line}\n" for line in (_HEADER, *lines)).encode())
