"""`fp3o prune`: the only command that removes runs; without --delete it lists what it would remove.

prune(suite, delete=False)    superseded and replaced runs, leftovers, stored objects nothing needs; lines to print
                              kept=True: also what runs kept on request (--keep-state), which is listed in any case
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, records, store
from fp3o.runs.folder import drop_empty, locked
from fp3o.runs.layout import RunId
from fp3o.runs.store import STORE, TRACKED, Listing, Setup
from fp3o.runs.verify import read_verified
from fp3o.workflow import saving

LEFTOVERS = (".*.tmp", ".*.partial", ".probe-*")
"""What a killed `dvc pull`, `fp3o pull`, `fp3o unpack` or training leaves beside finished runs."""
LEFTOVER_SECONDS = 3600.0


def prune(suite: config.Suite, delete: bool = False, kept: bool = False) -> list[str]:
    """List what is superseded, one line each; with `delete`, remove it. What was kept on request stays without `kept`.

    A run is superseded by a later one of the same cell and seed with the settings planned now, a run in replaced/ by a
    later one that is here and unaltered, scratch once all its seeds are finished. What is being trained is left alone.
    An object of artifacts/ is removed once neither dvc.lock names it nor that of a commit in use (the last one, its
    parents, heads of branches, stashes), so never in the same call as its run. Runs saved before stay in git's history.
    """
    root = layout.suite_root(suite.name)
    if suite.name not in TRACKED:
        return _prune_folders(suite, root, {}, delete)[0] + _kept(root / "scratch", delete and kept)
    with store.store_lock():
        if store.listing_name(store.lock_text(), suite.name) is None:
            stage = TRACKED[suite.name]
            raise UserError(f"dvc.lock has no stage `{stage}`: `fp3o save` writes it; nothing was removed")
        where = store.setup()
        locked = store.locked_listing(where, suite.name)
        documents = {path: md5 for path, md5 in locked.items() if fnmatchcase(path, f"*/*/*/*/*/seed-*/{records.RUN}")}
        needed = _needed(where) if where.in_git else set()
        lines, gone = _prune_folders(suite, root, documents, delete)
        rest = {path: md5 for path, md5 in locked.items() if store.run_of(path) not in gone}
        if delete and rest != locked:
            saving.record(rest, where, suite.name)
        lines += _kept(root / "scratch", delete and kept)
        if where.in_git:
            lines += _prune_store(needed | {store.listing_of(rest)}, delete)
    return lines


def _prune_folders(suite: config.Suite, root: Path, locked: Listing, delete: bool) -> tuple[list[str], set[str]]:
    """List (and remove) superseded runs, scratch of finished runs and leftovers; the lines to print, and those runs."""
    planned = {plan.cell.id: plan.digest for plan, _ in suite.runs()}
    runs, scratch = root / "runs", root / "scratch"
    found = {RunId.at(folder) for folder in runs.glob("*/*/*/*/*/seed-*")}
    found |= {RunId.at(store.run_of(path)) for path in locked}
    lines = []
    gone: set[str] = set()
    for run in sorted(found):
        later = run._replace(digest=planned.get(run.cell, run.digest))
        ends = [_ended(runs / one.path, locked.get(f"{one.path}/{records.RUN}")) for one in (run, later)]
        if ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
            continue  # It is the planned one, or that is older, not there or not known.
        with _unlocked(scratch / run.cell / run.digest, [run.seed], delete) as free:
            if free:
                folder = runs / run.path
                lines.append(_pruned(folder, runs, delete) if folder.exists() else f"{folder} (in DVC)")
                gone.add(run.path)
    for block in sorted(scratch.glob("*/*/*/*/*/seeds-*")):
        cell, digest = str(block.parents[1].relative_to(scratch)), block.parent.name
        try:
            seeds = list(config.parse_seeds(block.name.removeprefix("seeds-")))
        except UserError:
            continue  # Not a folder of ours.
        finished = [runs / cell / planned.get(cell, digest) / f"seed-{seed}" / records.RUN for seed in seeds]
        with _unlocked(block.parent, seeds, delete) as free:
            if free and all(path.is_file() for path in finished):
                filled = any(path.is_file() for path in block.rglob("*"))  # Empty folders are not worth a line.
                line = _pruned(block, scratch, delete)
                lines += [line] if filled else []
    return lines + _replaced(root, planned, delete) + _leftovers(runs, delete) + _leftovers(scratch, delete), gone


def _kept(scratch: Path, delete: bool) -> list[str]:
    """List (and remove) what runs kept on request (callbacks/checkpoints.py), unless their training can go on."""
    lines = []
    for folder in sorted(scratch.glob("*/*/*/*/*/kept")):
        if any(folder.parent.glob("seeds-*/resume*")):
            continue
        names = [path.stem.removeprefix("seed-") for path in folder.parent.glob("seed-*.lock")]
        with _unlocked(folder.parent, [int(name) for name in names if name.isdecimal()], delete) as free:
            if free:
                lines.append(_pruned(folder, scratch, delete, ", kept on request: goes only with --kept"))
    return lines


def _replaced(root: Path, planned: Mapping[str, str], delete: bool) -> list[str]:
    """List (and remove) the old runs that `fp3o rerun` has kept (fp3o/workflow/replacing.py), each with its age."""
    kept, runs = root / "replaced", root / "runs"
    lines = []
    for folder in sorted(kept.glob("*/*/*/*/*/seed-*.*")):
        ended, old = _ended(folder), RunId.at(folder.with_name(folder.name.partition(".")[0]))
        later = {old, old._replace(digest=planned.get(old.cell, old.digest))}
        if ended is not None and any(_replaces(run, ended, runs) for run in later):
            days = (datetime.now(UTC) - ended).days
            lines.append(_pruned(folder, kept, delete, f", {days} days old"))
    return lines


def _replaces(run: RunId, ended: datetime, runs: Path) -> bool:
    """Whether this run is here and unaltered, and ended after the given time."""
    later = _ended(runs / run.path)
    with contextlib.suppress(UserError):
        return later is not None and later > ended and bool(read_verified(runs / run.path, run))
    return False


def _ended(folder: Path, saved: str | None = None) -> datetime | None:
    """When the run in a folder ended, or if it is not there, the saved one whose run.json is this object."""
    try:
        content: bytes | None = (folder / records.RUN).read_bytes()
    except FileNotFoundError:
        content = store.find(saved, store.setup()) if saved else None
    if content is None:
        return None
    try:
        ended = datetime.fromisoformat(json.loads(content)["volatile"]["ended"])
    except (ValueError, KeyError, TypeError):
        return None
    return ended if ended.tzinfo else None  # A time without its zone cannot be compared.


@contextlib.contextmanager
def _unlocked(folder: Path, seeds: list[int], delete: bool) -> Iterator[bool]:
    """Whether none of these seeds is being trained; with `delete` their locks are held, so that none can start."""
    with contextlib.ExitStack() as held:
        try:
            if delete and folder.is_dir():
                held.enter_context(locked(folder, "", seeds))
            free = delete or not any(_is_locked(folder / f"seed-{seed}.lock") for seed in seeds)
        except UserError:
            free = False
        yield free
    if delete:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # Held, or somebody else's file.
        return True
    return False


def _leftovers(runs: Path, delete: bool) -> list[str]:
    """List (and remove) files and folders of killed writers; younger ones may still be being written."""
    found = sorted(path for pattern in LEFTOVERS for path in runs.rglob(pattern))
    old = [path for path in found if path.stat().st_mtime < time.time() - LEFTOVER_SECONDS]
    return [_pruned(path, path.parent, delete) for path in old]


def _pruned(path: Path, root: Path, delete: bool, about: str = "") -> str:
    """The line on a file or folder that can go; with `delete` it goes, with parents below root that it leaves empty."""
    size = sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
    if delete and path.is_file():
        path.unlink(missing_ok=True)
    elif delete:
        shutil.rmtree(path, ignore_errors=True)
        drop_empty(path.parent, root)
    return f"{path} ({size / 1e6:.1f} MB{about})"


def _needed(where: Setup) -> set[str]:
    """Objects of all suites that dvc.lock names, or that of a commit in use: clones and colleagues need them."""
    names: set[str] = set()
    locks = {store.lock_text(): ""}
    for revision in store.commits_in_use():
        locks.setdefault(store.committed(store.LOCK, revision) or b"", revision)
    for text, revision in locks.items():
        for suite in TRACKED:
            name = store.listing_name(text, suite, f"dvc.lock of commit {revision}" if revision else "dvc.lock")
            files = store.listing(name, where)
            if files is None and name is not None and revision:
                content = store.committed(store.object_path(STORE, name), revision)
                files = {} if content is None else store.parsed(content, name)  # None: saved to another remote.
            if files is None:
                raise UserError(f"object {name}, the list of dvc.lock, is damaged or not here; nothing was removed")
            names |= {*files.values(), *([name] if name else [])}
    return names


def stored(suite: config.Suite) -> str:
    """For the end of a message: what artifacts/ holds, where nothing of it can go; "" for a suite that is not in it."""
    if suite.name not in TRACKED:
        return ""
    sizes = [path.stat().st_size for path in (STORE / "files" / "md5").glob("??/*")]
    return f"; artifacts/ holds {len(sizes):,} objects, {sum(sizes) / 1e6:.0f} MB, all in use" if sizes else ""


def _prune_store(needed: set[str], delete: bool) -> list[str]:
    """List (and remove) objects in artifacts/ that are not needed."""
    wanted = {store.object_path(STORE, name) for name in needed}
    unneeded = [path for path in sorted((STORE / "files" / "md5").glob("??/*")) if path not in wanted]
    lines = [f"{path} ({path.stat().st_size / 1e6:.1f} MB)" for path in unneeded]
    if delete and unneeded:
        for path in unneeded:
            path.unlink()
        if Path(".git").exists():
            store.git(["rm", "--quiet", "--cached", "--ignore-unmatch"], unneeded)
    return lines
