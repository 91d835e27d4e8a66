"""The saved runs: which files dvc.lock names, and their content in the store in git (artifacts/) or where DVC has it.

DVC's formats: an object is a file named by its md5; a folder is an object `<md5>.dir`, a JSON list of {md5, relpath}
(here: a listing); dvc.lock has the name of the listing. So checksums lead from dvc.lock to every byte of a run, and a
listing may name runs that this checkout does not have.

Why not DVC's own commands: they know whole folders only. `dvc commit` in a checkout with one cell drops all others
from dvc.lock; `dvc pull` replaces or deletes unsaved runs; `dvc push` asks a remote for the listing and takes its files
for granted. They are also slower: a pull of all shipped runs took 18.8 s instead of 7.0, with nothing to do 8.8 s
instead of 1.4. Remotes other than artifacts/ are reached through DVC's Python API (`Remote`), so every kind works.
"""

from __future__ import annotations

import configparser
import contextlib
import difflib
import fcntl
import hashlib
import json
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import yaml

from fp3o.config.yaml_files import LOADER
from fp3o.errors import UserError, first_of, optional_module
from fp3o.runs import layout
from fp3o.runs.atomic import disk_errors, write_atomically
from fp3o.runs.records import RUN

LOCK = Path("dvc.lock")
STORE = Path("artifacts")
CHECKPOINTS = "checkpoints"
"""The name of DVC's remote, if the user has set one up, for the checkpoints that a suite's rules do not save."""

PAPER = "paper"
TRACKED = {
    PAPER: "runs",
    **{name: name for name in ("preview", "smac-revision-2", "smac-revision-2-preview", "smac-variants")},
}
"""The suites under DVC, each with its stage in dvc.yaml; the others are trained again in minutes."""

Listing: TypeAlias = dict[str, str]
"""Files below results/<suite>/runs: `<cell>/<digest>/seed-<k>/<file>` → md5."""


class Outcome(NamedTuple):
    """What a command has done, and what it could not do: lines to print."""

    lines: list[str]
    problems: list[str]


@contextlib.contextmanager
def store_lock() -> Iterator[None]:
    """Hold the lock of all commands that change the store; waits while another process holds it."""
    if not Path(".dvc").is_dir():
        raise UserError("no .dvc folder here: run this in the repository's root folder")
    with file_lock(Path(".dvc/tmp/fp3o-save.lock")):
        yield


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of this file; waits while another process holds it."""
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- Objects -------------------------------------------------------------------------------------------------------


class Setup(NamedTuple):
    """DVC's settings, from .dvc/config and .dvc/config.local (which wins)."""

    remote: str
    url: str
    cache: Path
    checkpoints_url: str = ""
    """Of the remote `checkpoints`; "" if there is none."""

    @property
    def checkpoints(self) -> Setup | None:
        """The same for checkpoints that are not saved with their runs; None where no remote for them is set up."""
        there = self._replace(remote=CHECKPOINTS, url=self.checkpoints_url)
        if there.url and there.in_git:
            raise UserError(f"DVC's remote {CHECKPOINTS} is {STORE}/, which is part of git: let it name another folder")
        return there if there.url else None

    @property
    def in_git(self) -> bool:
        """Whether the default remote is the store that travels with the repository."""
        return "://" not in self.url and (Path(".dvc") / self.url).resolve() == STORE.resolve()

    @property
    def place(self) -> str:
        """Where saved files are, for messages."""
        return f"{STORE}/" if self.in_git else f"DVC's remote {self.remote}"


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
    url, checkpoints = (values.get((f'remote "{name}"', "url"), "") for name in (remote, CHECKPOINTS))
    return Setup(remote, url, Path(".dvc") / values.get(("cache", "dir"), "cache"), checkpoints)


class Remote:
    """A remote of DVC's other than artifacts/, asked for every object: DVC itself believes what it once pushed."""

    def __init__(self, where: Setup) -> None:
        dvc = optional_module("dvc.repo", "DVC is not installed: pip install 'dvc>=3.60'")
        self._name = where.remote
        with self._one_line():
            repository = dvc.Repo()
            self._cache = repository.cache.local
            self._remote = repository.cloud.get_remote_odb(where.remote or None)

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # Each kind of remote has errors of its own.
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"DVC's remote {self._name} cannot be used: {reason}") from error

    def lacks(self, names: Collection[str]) -> set[str]:
        """Those of these objects that the remote does not have."""
        with self._one_line():
            return set(names) - set(self._remote.list_oids_exists(list(names)))

    def push(self, names: Collection[str]) -> None:
        """Copy objects from the cache."""
        self._copy(self._cache, self._remote, sorted(names))

    def fetch(self, names: Collection[str]) -> set[str]:
        """Copy those objects that the remote has to the cache, and return the others. Read them through `find`, which
        checks them."""
        lacking = self.lacks(names)
        self._copy(self._remote, self._cache, sorted(set(names) - lacking))
        return lacking

    def _copy(self, source: Any, target: Any, names: list[str]) -> None:
        with self._one_line():
            target.add([source.oid_to_path(name) for name in names], source.fs, names, check_exists=False)


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
    if intact(path, name) is not None:
        return
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if folder == STORE:
            write_atomically(path, content)
        else:  # Not forced to disk: what a power cut takes from a cache can be restored.
            partial = path.with_name(f".{path.name}.partial")
            partial.write_bytes(content)
            partial.chmod(0o444)  # How DVC marks objects as checked.
            partial.replace(path)


# --- dvc.lock and its listings -------------------------------------------------------------------------------------


def lock_text() -> bytes:
    """The content of dvc.lock; empty if there is none."""
    return LOCK.read_bytes() if LOCK.is_file() else b""


def listing_name(text: bytes, suite: str = PAPER, where: str = "dvc.lock") -> str | None:
    """Name of a suite's listing, from the content of a dvc.lock; None if nothing was saved. `where` is for messages."""
    try:
        outs = _document(text)["stages"].get(TRACKED[suite], {}).get("outs", [])
        name = outs[0]["md5"] if outs else None
        if name is not None and not re.fullmatch(r"[0-9a-f]{32}\.dir", name):
            raise ValueError(f"{name} is no folder's checksum")
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        if in_conflict(text):
            raise UserError(f"{where} {IN_CONFLICT}") from None
        raise UserError(
            f"{where} cannot be read ({' '.join(str(error).split())}): `git checkout HEAD dvc.lock` restores it"
        ) from None
    return name


IN_CONFLICT = "has conflict markers of a merge: `fp3o merge` unites both sides"


def in_conflict(text: bytes) -> bool:
    """Whether a file's content has the markers of a conflict of git's."""
    return re.search(rb"^(<{7}|>{7}) ", text, re.MULTILINE) is not None


def _document(text: bytes) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(text, Loader=LOADER) or {"schema": "2.0", "stages": {}}
    return document


def listing(name: str | None, where: Setup) -> Listing | None:
    """The listing with this name (None: an empty one); None if that object is not on this machine."""
    content = b"[]" if name is None else find(name, where)
    return None if content is None else parsed(content, name)


def parsed(content: bytes, name: str | None) -> Listing:
    """The files of a listing's content; UserError if one would be elsewhere than below a suite's runs."""
    files = {entry["relpath"]: entry["md5"] for entry in json.loads(content)}
    for path, md5 in files.items():
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or not re.fullmatch("[0-9a-f]{32}", md5):
            raise UserError(f"object {name} lists {path!r}, which is no file below a suite's runs; nothing was done")
    return files


def locked_listing(where: Setup, suite: str = PAPER, text: bytes | None = None) -> Listing:
    """The saved files of a suite, by dvc.lock or another content of it; a listing in a remote only is fetched."""
    name = listing_name(lock_text() if text is None else text, suite)
    found = listing(name, where)
    if found is None and name is not None and not where.in_git:
        Remote(where).fetch([name])
        found = listing(name, where)
    if found is None:
        raise UserError(
            f"{object_path(STORE, str(name))}, the list of the saved runs, is damaged or not here: "
            f"`git checkout HEAD dvc.lock {STORE}` restores it; nothing was done"
        )
    return found


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


def by_run(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Run → file → md5."""
    runs: dict[str, dict[str, str]] = {}
    for path, md5 in files.items():
        run, _, name = path.rpartition("/")
        runs.setdefault(run, {})[name] = md5
    return runs


def fits(run: str, pattern: str, suite: str) -> bool:
    """Whether a run (cell/digest/seed) fits a cell, part of one or a pattern, with or without its suite's folder."""
    name = pattern.removeprefix(f"{runs_folder(suite).as_posix()}/").rstrip("/")
    return fnmatchcase(run, name) or fnmatchcase(run, f"{name}/*")


def cells_text(pattern: str, paths: Iterable[str]) -> str:
    """For messages: some cells of these paths (cell/digest/seed…), first those that read most like the pattern."""
    cells = sorted({"/".join(path.split("/")[:4]) for path in paths})
    return first_of(difflib.get_close_matches(pattern, cells, len(cells), cutoff=0) if cells else cells)


def saved_runs(suite: str) -> dict[str, str] | None:
    """By run (cell/digest/seed), the md5 of the run.json that dvc.lock names; None if its listing is not here."""
    files = listing(listing_name(lock_text(), suite), setup()) if suite in TRACKED else {}
    return None if files is None else {run_of(path): md5 for path, md5 in files.items() if path.endswith(f"/{RUN}")}


def replaced_runs(suite: str) -> list[Path]:
    """The runs here whose run.json is not the saved one: trained anew and not saved yet, or altered."""
    folders = {runs_folder(suite) / run: md5 for run, md5 in (saved_runs(suite) or {}).items()}
    there = [folder for folder in folders if (folder / RUN).is_file()]
    return [folder for folder in there if md5_of((folder / RUN).read_bytes()) != folders[folder]]


def write_lock(files: Mapping[str, str], where: Setup, suite: str = PAPER) -> None:
    """Make dvc.lock name exactly these files of a suite, with the stage's command as it is now."""
    called = TRACKED[suite]
    try:
        command = str(yaml.load(Path("dvc.yaml").read_bytes(), Loader=LOADER)["stages"][called]["cmd"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(f"dvc.yaml has no usable stage `{called}`: {' '.join(str(error).split())}") from None
    sizes = [_size_of(md5, where) for md5 in files.values()]
    known = [size for size in sizes if size is not None]
    out: dict[str, Any] = {"path": runs_folder(suite).as_posix(), "hash": "md5", "md5": listing_of(files)}
    if len(known) == len(sizes):  # With a remote elsewhere, what was not pulled has no size here.
        out["size"] = sum(known)
    out["nfiles"] = len(files)
    document = _document(lock_text())
    document["stages"][called] = {"cmd": command, "outs": [out]}
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


def commits_in_use() -> list[str]:
    """The last commit, its parents, what is being merged, the heads of branches (remote ones, too) and stashes."""
    questions = (
        ["rev-parse", "--quiet", "--verify", "HEAD"],
        ["rev-parse", "--quiet", "HEAD^@"],
        ["rev-parse", "--quiet", "--verify", "MERGE_HEAD"],
        ["for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes"],
        ["stash", "list", "--format=%H"],
    )
    found: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        for words in questions:
            done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
            found += done.stdout.split() if done.returncode == 0 else []
    return list(dict.fromkeys(found))


def git(command: Iterable[str], paths: Iterable[Path] | None = None) -> str:
    """What git prints when called with these files, of which there may be thousands; UserError if it fails."""
    words, options = list(command), [] if paths is None else ["--pathspec-from-file=-", "--pathspec-file-nul"]
    done = subprocess.run(
        ["git", *words, *options],
        input="\0".join(str(path) for path in paths or ()),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        detail = (done.stderr or done.stdout).strip()
        if "index.lock" in detail:
            detail = "another git process runs here, or one was killed: delete .git/index.lock if none does"
        raise UserError(f"`git {words[0]}` failed: {detail[-300:]}; the runs are stored, the same command completes it")
    return done.stdout
