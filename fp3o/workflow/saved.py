"""What `fp3o save`, `fp3o pull` and `fp3o prune` share: the saved runs that dvc.lock names, one process at a time."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from fp3o.errors import UserError, first_of
from fp3o.runs import records
from fp3o.runs.atomic import disk_errors
from fp3o.workflow import jobs, manifest, objects
from fp3o.workflow.objects import PAPER, STORE, TRACKED, Listing, Setup

LOCK_WAIT_SECONDS = 600.0
RETRY_SECONDS = 1.0


class Outcome(NamedTuple):
    """What was done, and what could not be: lines to print."""

    lines: list[str]
    problems: list[str]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock that `fp3o save`, `fp3o pull` and `fp3o prune` share; waits while another process holds it."""
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


def locked_listing(where: Setup, suite: str = PAPER) -> Listing:
    """The saved files of a suite; where the listing is in a remote only, it is fetched."""
    name = objects.listing_name(objects.lock_text(), suite)
    listing = objects.listing(name, where)
    if listing is None and not where.in_git:
        # With any file DVC fetches the listing as well; run.json is a small file.
        dvc("fetch", next((str(path) for path in _saved_documents(suite)), TRACKED[suite]))
        listing = objects.listing(name, where)
    if listing is None:
        raise UserError(
            f"{objects.object_path(STORE, str(name))}, the list of the saved runs, is damaged or not here: "
            f"`git checkout HEAD dvc.lock {STORE}` restores it; nothing was done"
        )
    return listing


def _saved_documents(suite: str) -> Iterator[Path]:
    """Path of the run.json of every run in the committed manifest."""
    path = manifest.manifest_path(suite)
    for run in manifest.entries(objects.committed(path) or b"", path).values():
        yield objects.runs_folder(suite) / run["cell"] / run["digest"] / f"seed-{run['seed']}" / records.RUN


def by_run(listing: Listing) -> dict[str, dict[str, str]]:
    """Run → file → md5."""
    runs: dict[str, dict[str, str]] = {}
    for path, md5 in listing.items():
        run, _, name = path.rpartition("/")
        runs.setdefault(run, {})[name] = md5
    return runs


def fits(run: str, pattern: str, suite: str) -> bool:
    """Whether a run (cell/digest/seed) is one of the cell, part of a cell's name or pattern; the folder of the suite's
    runs may stand before it."""
    name = pattern.removeprefix(f"{objects.runs_folder(suite).as_posix()}/").rstrip("/")
    return fnmatchcase(run, name) or fnmatchcase(run, f"{name}/*")


def cells_text(pattern: str, paths: Iterable[str]) -> str:
    """For messages: the cells of runs or their files (cell/digest/seed…), first those that read most like the pattern;
    of many not all."""
    cells = sorted({"/".join(path.split("/")[:4]) for path in paths})
    return first_of(difflib.get_close_matches(pattern, cells, len(cells), cutoff=0) if cells else cells)


def on_this_machine(files: Mapping[str, str], where: Setup) -> bool:
    """Whether the objects of all files (name → md5) are in the cache or the store here."""
    return all(objects.find(md5, where) is not None for md5 in files.values())


def dvc(*arguments: str) -> str:
    """Call DVC, again and again while its repository lock is held; returns what it printed."""
    jobs.reach_commands()
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    command = ["dvc", *arguments]
    while True:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UserError("DVC is not installed: pip install 'dvc>=3.60'") from None
        if done.returncode == 0:
            return done.stdout
        text = done.stderr + done.stdout
        if "lock" not in text.lower() or time.monotonic() > deadline:
            detail = next(
                (line for line in reversed(text.splitlines()) if line.startswith("ERROR")), text.strip()[-300:]
            )
            raise UserError(f"`{shlex.join(command)}` failed: {detail}")
        time.sleep(RETRY_SECONDS)
