"""A pack: finished runs and resume states of suites in one tar file, which travels between machines.

fp3o-pack.json                                              {"format": 1, "files": {name: sha256}}; the first member
results/<suite>/runs/<cell>/<digest>/seed-<k>/…             a run's files, as they are in its folder
results/<suite>/scratch/<cell>/<digest>/seeds-<block>/…     a resume state and the CSV files it continues

A tar file of runs without the first member, as `tar czf` makes it, is read too: every run.json has checksums.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Self

from fp3o.errors import UserError, first_of
from fp3o.runs import records
from fp3o.runs.atomic import replacing
from fp3o.runs.folder import RESUME

MANIFEST = "fp3o-pack.json"
FORMAT = 1
NAMES = {".tar": False, ".tgz": True, ".tar.gz": True}
"""Whether a pack is compressed, by the end of its name. Any compression that Python's tarfile knows can be read."""
RUNS, STATES = "runs", "scratch"

_WORD = r"(?!\.\.?/)[^/\x00-\x1f]+"
_PLACE = rf"{_WORD}/{_WORD}/{_WORD}/{_WORD}/[0-9a-f]{{10}}"
_NUMBER = "(?:0|[1-9][0-9]*)"
_LOG = r"(?:evaluations|iterations)\.csv"
_RUN_FILE = r"(?:run\.json|checkpoint\.safetensors|(?:evaluations|iterations|final)\.csv(?:\.xz)?)"
_MEMBER = re.compile(
    rf"results/(?P<suite>{_WORD})/(?:"
    rf"(?P<run>{RUNS}/{_PLACE}/seed-{_NUMBER})/(?P<run_file>{_RUN_FILE})|"
    rf"(?P<state>{STATES}/{_PLACE}/seeds-[0-9,-]+)/(?P<state_file>{RESUME}|seed-{_NUMBER}/{_LOG}))"
)
_BLOCK = 512  # bytes of a tar header; a block of zeros ends the file
_UNREADABLE = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, KeyError, TypeError, RecursionError)


class Item(NamedTuple):
    """A folder that a pack holds: a finished run or a resume state."""

    suite: str
    folder: str
    """Below results/<suite>: `runs/<cell>/<digest>/seed-<k>` or `scratch/<cell>/<digest>/seeds-<block>`."""

    @property
    def is_run(self) -> bool:
        return self.folder.startswith(f"{RUNS}/")

    @property
    def cell(self) -> str:
        return "/".join(self.folder.split("/")[1:5])

    @property
    def digest(self) -> str:
        return self.folder.split("/")[5]

    def __str__(self) -> str:
        return f"results/{self.suite}/{self.folder}"


class Pack:
    """A pack that is read; use as a context. Opening it checks every byte: UserError if it was truncated or altered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items: dict[Item, dict[str, tarfile.TarInfo]] = {}
        """By folder, its files. A name that is no file of a run or state is an error, so none leads elsewhere."""
        self._checksums: Mapping[str, str] | None = None
        if not path.is_file():
            raise UserError(f"there is no pack {path}")
        with self._one_line():
            self._tar = tarfile.open(path)  # noqa: SIM115 - closed by __exit__
        try:
            with self._one_line():
                self._check(self._members())
        except BaseException:
            self._tar.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._tar.close()

    def content(self, item: Item, file: str) -> bytes:
        """A file of one of the items."""
        with self._one_line():
            return self._read(self.items[item][file])

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{self.path} is damaged or no pack: {reason}; nothing was taken") from error

    def _members(self) -> dict[str, tarfile.TarInfo]:
        """The files by name. ValueError for links, for names twice, and where the file ends before its last block."""
        members: dict[str, tarfile.TarInfo] = {}
        for member in self._tar:
            if member.isdir():
                continue
            name = member.name.removeprefix("./")
            if not member.isfile() or member.issparse():
                raise ValueError(f"{name!r} is no plain file")
            if name in members:
                raise ValueError(f"{name!r} is there twice")
            members[name] = member
        # Python takes a damaged header for the end.
        assert self._tar.fileobj is not None
        self._tar.fileobj.seek(self._tar.offset)
        if self._tar.fileobj.read(_BLOCK) != bytes(_BLOCK):
            raise ValueError("it ends in the middle")
        return members

    def _check(self, members: dict[str, tarfile.TarInfo]) -> None:
        """Sort the members into items, and compare every file with the manifest, if there is one."""
        if listed := members.pop(MANIFEST, None):
            document = json.loads(self._read(listed))
            if document["format"] != FORMAT:
                raise ValueError(f"it has format {document['format']}; this version reads: {FORMAT}")
            self._checksums = {str(name): str(checksum) for name, checksum in document["files"].items()}
            if different := sorted(self._checksums.keys() ^ members.keys()):
                raise ValueError(f"it does not hold what {MANIFEST} lists: {first_of(different)}")
        for name, member in members.items():
            found = _MEMBER.fullmatch(name)
            if found is None:
                raise ValueError(f"{name!r} is no file of a run")
            if found["state"] and self._checksums is None:
                raise ValueError(f"{name!r} is part of a resume state, and there is no {MANIFEST} with its checksum")
            self._read(member)
            item = Item(found["suite"], found["run"] or found["state"])
            self.items.setdefault(item, {})[found["run_file"] or found["state_file"]] = member

    def _read(self, member: tarfile.TarInfo) -> bytes:
        file = self._tar.extractfile(member)
        assert file is not None
        content = file.read()
        name = member.name.removeprefix("./")
        if len(content) != member.size:
            raise ValueError(f"{name!r} ends in the middle")
        if self._checksums is not None and _sha256(content) != self._checksums[name]:
            raise ValueError(f"{name!r} was altered")
        return content


def write(path: Path, folders: Mapping[Item, tuple[Path, list[str]]]) -> int:
    """Write a pack of these folders, each with the names of its files; returns its size in bytes.

    UserError if the file exists, or if a file changes meanwhile; an interrupted write leaves no pack.
    """
    small = next((small for end, small in NAMES.items() if path.name.endswith(end)), None)
    if small is None:
        raise UserError(f"{path} is no name of a pack; allowed: …{', …'.join(NAMES)}")
    if os.path.lexists(path):
        raise UserError(f"{path} exists; choose another name, or delete it")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for {path.name}")
    files = {f"{item}/{name}": place / name for item, (place, names) in folders.items() for name in names}
    checksums = {name: _sha256(files[name].read_bytes()) for name in sorted(files)}
    document = {"format": FORMAT, "files": checksums}
    with (
        replacing(path) as file,  # By renaming, not by a link: disks that are carried around cannot make any.
        tarfile.open(fileobj=file, mode="w:gz") if small else tarfile.open(fileobj=file, mode="w") as tar,
    ):
        _add(tar, MANIFEST, records.run_bytes(document))
        for name, checksum in checksums.items():
            content = files[name].read_bytes()
            if _sha256(content) != checksum:
                raise UserError(f"{files[name]} changed while it was packed; nothing was written")
            _add(tar, name, content)
    return path.stat().st_size


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Without owner and time: equal runs give equal packs."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, BytesIO(content))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
