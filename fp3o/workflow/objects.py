"""The saved runs: which files dvc.lock names, and their content in the store in git (artifacts/) or in DVC's cache.

DVC's formats, read and written here without DVC: an object is a file named by its md5; a folder is an object
`<md5>.dir`, a JSON list of {md5, relpath} (here: a listing); dvc.lock has the name of the listing. So checksums lead
from dvc.lock to every byte of a run, and a listing may name runs that this checkout does not have.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import yaml

from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.runs.atomic import disk_errors, write_atomically
from fp3o.runs.records import RUN

LOCK = Path("dvc.lock")
STORE = Path("artifacts")

PAPER = "paper"
TRACKED = {
    PAPER: "runs",
    **{name: name for name in ("preview", "smac-revision-2", "smac-revision-2-preview", "smac-variants")},
}
"""The suites under DVC, each with its stage in dvc.yaml; the others are trained again in minutes."""

Listing: TypeAlias = dict[str, str]
"""Files below results/<suite>/runs: `<cell>/<digest>/seed-<k>/<file>` → md5."""


# --- Objects -------------------------------------------------------------------------------------------------------


class Setup(NamedTuple):
    """DVC's settings, from .dvc/config and .dvc/config.local (which wins)."""

    remote: str
    url: str
    cache: Path

    @property
    def in_git(self) -> bool:
        """Whether the default remote is the store that travels with the repository."""
        return "://" not in self.url and (Path(".dvc") / self.url).resolve() == STORE.resolve()


def setup() -> Setup:
    """DVC's settings for the repository in the current folder."""
    values: dict[tuple[str, str], str] = {}
    for name in ("config", "config.local"):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(Path(".dvc") / name, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise UserError(f".dvc/{name} cannot be read: {' '.join(str(error).split())}") from None
        for section in parser.sections():
            for key, value in parser[section].items():
                values[section.strip("'"), key] = value.strip("\"'")
    remote = values.get(("core", "remote"), "")
    url = values.get((f'remote "{remote}"', "url"), "")
    return Setup(remote, url, Path(".dvc") / values.get(("cache", "dir"), "cache"))


def object_path(folder: Path, name: str) -> Path:
    """The file of an object in a store or cache."""
    return folder / "files" / "md5" / name[:2] / name[2:]


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def intact(path: Path, name: str) -> bytes | None:
    """The object's content; None if it is missing or does not have the checksum that is its name."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return content if md5_of(content) == name.removesuffix(".dir") else None


def find(name: str, where: Setup) -> bytes | None:
    """The object's content from the cache or the store; None if neither has it intact."""
    for folder in (where.cache, STORE):
        if (content := intact(object_path(folder, name), name)) is not None:
            return content
    return None


def put(folder: Path, name: str, content: bytes) -> None:
    """Add an object; a damaged one of that name is replaced."""
    path = object_path(folder, name)
    if intact(path, name) is None:
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        if folder == STORE:
            write_atomically(path, content)
        else:
            _put_in_cache(path, content)


def _put_in_cache(path: Path, content: bytes) -> None:
    """Write without forcing to disk: what a power cut takes from a cache can be restored."""
    partial = path.with_name(f".{path.name}.partial")
    with disk_errors(path):
        partial.write_bytes(content)
        partial.chmod(0o444)  # How DVC marks objects as checked.
        partial.replace(path)


# --- dvc.lock and its listing --------------------------------------------------------------------------------------


def listing_name(text: str | bytes | None, suite: str = PAPER, where: str = "dvc.lock") -> str | None:
    """Name of a suite's listing, from the content of a dvc.lock; None if nothing was saved. `where` is for messages."""
    try:
        outs = _document(text)["stages"].get(TRACKED[suite], {}).get("outs", [])
        name = outs[0]["md5"] if outs else None
        if name is not None and not re.fullmatch(r"[0-9a-f]{32}\.dir", name):
            raise ValueError(f"{name} is no folder's checksum")
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"{where} cannot be read ({' '.join(str(error).split())}): `git checkout HEAD dvc.lock` restores it"
        ) from None
    return name


def _document(text: str | bytes | None) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text or "") or {"schema": "2.0", "stages": {}}
    return document


def lock_text() -> bytes:
    """The content of dvc.lock; empty if there is none."""
    return LOCK.read_bytes() if LOCK.is_file() else b""


def listing(name: str | None, where: Setup) -> Listing | None:
    """The listing with this name (None: an empty one); None if that object is not on this machine."""
    if name is None:
        return {}
    content = find(name, where)
    if content is None:
        return None
    files = {entry["relpath"]: entry["md5"] for entry in json.loads(content)}
    for path, md5 in files.items():
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or not re.fullmatch("[0-9a-f]{32}", md5):
            raise UserError(f"object {name} lists {path!r}, which is no file below a suite's runs; nothing was done")
    return files


def listing_of(files: Mapping[str, str]) -> str:
    """The name of the listing of these files."""
    return f"{md5_of(listing_bytes(files))}.dir"


def listing_bytes(files: Mapping[str, str]) -> bytes:
    """A listing as DVC writes it."""
    entries = [{"md5": files[path], "relpath": path} for path in sorted(files)]
    return json.dumps(entries, sort_keys=True).encode()


def runs_folder(suite: str = PAPER) -> Path:
    return layout.suite_root(suite) / "runs"


def run_of(path: str) -> str:
    """`<cell>/<digest>/seed-<k>` of a listed file."""
    return path.rpartition("/")[0]


def saved_document(suite: str, run: str, where: Setup) -> dict[str, Any] | None:
    """run.json of a saved run, `<cell>/<digest>/seed-<k>`; None if its bytes are not on this machine."""
    locked = listing(listing_name(lock_text(), suite), where) or {}
    md5 = locked.get(f"{run}/{RUN}")
    content = find(md5, where) if md5 else None
    document: dict[str, Any] | None = None if content is None else json.loads(content)
    return document


def write_lock(name: str, files: Mapping[str, str], where: Setup, suite: str = PAPER) -> None:
    """Write dvc.lock so that it names this listing, with the stage's command and dependencies as they are now."""
    called = TRACKED[suite]
    try:
        stage = yaml.safe_load(Path("dvc.yaml").read_bytes())["stages"][called]
        command, deps = str(stage["cmd"]), sorted(stage.get("deps", []))
        contents = {dep: Path(dep).read_bytes() for dep in deps}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(f"dvc.yaml has no usable stage `{called}`: {' '.join(str(error).split())}") from None
    sizes = [_size_of(md5, where) for md5 in files.values()]
    known = [size for size in sizes if size is not None]
    out: dict[str, Any] = {"path": runs_folder(suite).as_posix(), "hash": "md5", "md5": name}
    if len(known) == len(sizes):  # With a remote elsewhere, what was not pulled has no size here.
        out["size"] = sum(known)
    out["nfiles"] = len(files)
    document = _document(lock_text())
    document["stages"][called] = {
        "cmd": command,
        "deps": [
            {"path": dep, "hash": "md5", "md5": md5_of(content), "size": len(content)}
            for dep, content in contents.items()
        ],
        "outs": [out],
    }
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=False, width=1000, allow_unicode=True).encode()
    if text != lock_text():
        write_atomically(LOCK, text)


def _size_of(name: str, where: Setup) -> int | None:
    for folder in (where.cache, STORE):
        path = object_path(folder, name)
        if path.is_file():
            return path.stat().st_size
    return None


# --- Git -----------------------------------------------------------------------------------------------------------


def committed(path: Path, revision: str = "HEAD") -> bytes | None:
    """The content of a file in a commit (revision "": as it is staged); None if git or the file is missing."""
    command = ["git", "show", f"{revision}:./{path.as_posix()}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
