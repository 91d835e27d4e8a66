"""Behind `fp3o save` and `fp3o prune`.

save(message="")              runs of the paper suite into DVC and its store, once per sweep; lines to print
prune(suite, delete=False)    runs, scratch and stored objects nothing refers to; lines to print
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.workflow import jobs, manifest

# The store travels with the repository, so it stays small; a larger one is a remote of one's own.
STORE = Path("artifacts")
STORE_LIMIT = 80_000_000
STAGE = "runs"
TRACKED = "paper"
"""The suite under DVC (dvc.yaml); quick and smoke are rebuilt in minutes."""

LOCK_WAIT_SECONDS = 600.0
RETRY_SECONDS = 1.0


# --- save ----------------------------------------------------------------------------------------------------------


def save(message: str = "") -> list[str]:
    """Put the finished runs of the paper suite into DVC and the store, and stage dvc.lock, manifest and tables in git.

    One process at a time: others wait. Runs that are being written are left for the next save. With a message the
    staged files are committed.
    """
    jobs.reach_commands()
    suite = config.load_suite(TRACKED)
    with _alone():
        objects = _finished_objects(layout.suite_root(TRACKED) / "runs")
        _refuse_if_too_large(objects)
        manifest.write_json(manifest.manifest_path(TRACKED), manifest.manifest(suite))
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            _dvc("commit", "--force", STAGE)
            _dvc("push", STAGE)
            if not (absent := _locked_objects()[1]):
                break
            # A sweep published a run between DVC's two readings of the folder: what it locked is not what it stored.
            if time.monotonic() > deadline:
                raise UserError(f"{len(absent)} files could not be stored, e.g. {absent[0]}: they keep changing")
            time.sleep(RETRY_SECONDS)
        removed = _prune_store(delete=True)
        lines = [f"{len(objects)} files of {len(manifest.manifest(suite)['runs'])} runs are in {STORE}/"]
        lines += [f"{len(removed)} superseded objects removed from {STORE}/"] if removed else []
        return lines + _stage_in_git(message)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of `fp3o save` and `fp3o prune`, waiting for whoever has it."""
    if not Path(".dvc").is_dir():
        raise UserError("no .dvc folder here: run this in the repository's root folder")
    folder = Path(".dvc/tmp")
    folder.mkdir(exist_ok=True)
    with (folder / "fp3o-save.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _dvc(*arguments: str) -> None:
    """Call DVC; where its repository lock is held, or a sweep moved a file under it, try again."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        command = ["dvc", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        text = done.stderr + done.stdout
        passing = "lock" in text.lower() or "No such file" in text or "FileNotFound" in text
        if not passing or time.monotonic() > deadline:
            detail = next(
                (line for line in reversed(text.splitlines()) if line.startswith("ERROR")), text.strip()[-300:]
            )
            raise UserError(f"`{shlex.join(command)}` failed: {detail}")
        time.sleep(RETRY_SECONDS)


def _finished_objects(folder: Path) -> dict[str, tuple[Path, int]]:
    """Distinct contents below a folder: md5 → an example and its size."""
    objects: dict[str, tuple[Path, int]] = {}
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # A sweep may be at work.
            if path.is_file():
                content = path.read_bytes()
                objects[hashlib.md5(content, usedforsecurity=False).hexdigest()] = (path, len(content))
    return objects


def _refuse_if_too_large(objects: dict[str, tuple[Path, int]]) -> None:
    total = sum(size for _, size in objects.values())
    if total <= STORE_LIMIT:
        return
    by_cell: dict[str, int] = {}
    for path, size in objects.values():
        cell = "/".join(path.parts[3:7])
        by_cell[cell] = by_cell.get(cell, 0) + size
    largest = sorted(by_cell.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{cell} {size / 1e6:.1f} MB" for cell, size in largest)
    raise UserError(
        f"{STORE}/ would hold {total / 1e6:.1f} MB, more than {STORE_LIMIT / 1e6:.0f} MB (largest: {named}); "
        "`fp3o prune` removes superseded runs, or push to a remote of your own: `dvc remote add -d`"
    )


def _stage_in_git(message: str) -> list[str]:
    if not Path(".git").exists():
        return ["no git here: nothing staged"]
    root = layout.suite_root(TRACKED)
    wanted = [
        Path("dvc.lock"),
        STORE,
        manifest.manifest_path(TRACKED),
        *(root / name for name in ("metrics.json", "scorecard.json", "tables", "cost", "cost.csv")),
    ]
    paths = [str(path) for path in wanted if path.exists()]
    subprocess.run(["git", "add", "--", *paths], check=True)
    if not message:
        return [f"staged in git: {' '.join(paths)}"]
    done = subprocess.run(["git", "commit", "--quiet", "-m", message, "--", *paths], check=False)
    return [f"committed: {' '.join(paths)}" if done.returncode == 0 else "nothing to commit"]


# --- prune ---------------------------------------------------------------------------------------------------------


def prune(suite: config.Suite, delete: bool = False) -> list[str]:
    """List what nothing refers to any more, one line each; with `delete`, remove it.

    Run and scratch folders whose digest the suite does not plan; for the suite under DVC also objects of the store that
    no current run has. Runs saved earlier stay in git's history.
    """
    root = layout.suite_root(suite.name)
    planned = {(resolved.cell.id, resolved.digest) for resolved, _ in suite.runs()}
    old = [
        path
        for part in ("runs", "scratch")
        for path in sorted((root / part).glob("*/*/*/*/*"))
        if path.is_dir() and (str(path.parent.relative_to(root / part)), path.name) not in planned
    ]
    lines = [f"{path} ({_size(path) / 1e6:.1f} MB)" for path in old if any(p.is_file() for p in path.rglob("*"))]
    if delete:
        for path in old:
            shutil.rmtree(path)
    if suite.name == TRACKED and STORE.is_dir():
        with _alone():
            lines += [f"{path} ({size / 1e6:.1f} MB)" for path, size in _prune_store(delete)]
    return lines


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _prune_store(delete: bool) -> list[tuple[Path, int]]:
    """Objects in the store that dvc.lock does not refer to."""
    wanted, absent = _locked_objects()
    if absent:
        raise UserError(f"{absent[0]} is in dvc.lock and not in the store: `fp3o save` first; nothing was removed")
    unwanted = []
    for path in sorted((STORE / "files" / "md5").glob("??/*")):
        if path not in wanted:
            unwanted.append((path, path.stat().st_size))
            if delete:
                path.unlink()
    return unwanted


def _locked_objects() -> tuple[set[Path], list[Path]]:
    """Where the objects of the runs in dvc.lock belong in the store, and which of them are not there."""
    lock = Path("dvc.lock")
    if not lock.is_file():
        return set(), []
    wanted: set[Path] = set()
    document: dict[str, Any] = yaml.safe_load(lock.read_text())
    for out in document["stages"].get(STAGE, {}).get("outs", []):
        listing = _object(out["md5"])
        wanted.add(listing)
        if listing.is_file():
            wanted.update(_object(entry["md5"]) for entry in json.loads(listing.read_text()))
    return wanted, sorted(path for path in wanted if not path.is_file())


def _object(name: str) -> Path:
    return STORE / "files" / "md5" / name[:2] / name[2:]
