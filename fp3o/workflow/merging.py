"""`fp3o merge`: unites the saved runs of both sides after a merge, rebase or stash that ended in conflicts.

Two people who save runs both change the line of dvc.lock that names the listing. Git cannot unite two listings, and the
united one is a new object in artifacts/, which a merge driver could not add to the commit: so this is a command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fp3o import config
from fp3o.errors import UserError, first_of
from fp3o.runs import layout, store
from fp3o.runs.atomic import write_atomically
from fp3o.runs.store import LOCK, STORE, TRACKED, Listing, Outcome, Setup, by_run
from fp3o.workflow import manifest, saving

BASE, OURS, THEIRS = 1, 2, 3
"""Git's numbers for the versions of a file in conflict: of the common ancestor, this side and the other one."""


class United(NamedTuple):
    """The runs of both sides."""

    files: Listing
    differing: list[str]
    """Runs that were saved on both sides with different files."""


def merge(prefer: Literal["", "ours", "theirs"] = "", revision: str = "") -> Outcome:
    """Resolve conflicts in dvc.lock, manifests and tables, and stage the result; the commit is left to the user.

    A run that both sides saved differently is a UserError, unless `prefer` says whose to take. Conflicts in other files
    must be resolved before: they decide what is planned. revision: unite with the runs that a commit saved instead.
    """
    with store.store_lock():
        if revision:
            return _add_runs_of(revision, prefer)
        conflicts = _conflicts()
        if not conflicts:
            for path in (LOCK, *map(manifest.manifest_path, TRACKED)):
                if path.is_file() and store.in_conflict(path.read_bytes()):
                    raise UserError(f"{path} has conflict markers, and git has forgotten the conflict: merge again")
            return Outcome(["nothing to unite: no file is in conflict"], [])
        manifests = {manifest.manifest_path(suite): suite for suite in TRACKED}
        made = [path for path in conflicts if any(path.is_relative_to(layout.suite_root(suite)) for suite in TRACKED)]
        tables = [path for path in made if path not in manifests]
        if others := [path for path in conflicts if path not in (LOCK, *manifests, *tables)]:
            raise UserError(f"{first_of(others)}: resolve these conflicts first, `git add` them, then `fp3o merge`")
        where = store.setup()
        united: dict[str, Listing] = {}
        if LOCK in conflicts:
            texts = [_version(LOCK, version) for version in (BASE, OURS, THEIRS)]
            united = _unite_all(where, prefer, *texts)
            write_atomically(LOCK, texts[1])
        staged, lines = _record(united, where)
        staged |= {LOCK} & conflicts
        for path, suite in manifests.items():
            if path in conflicts or suite in united:
                known: dict[str, Any] = {}
                for version in (BASE, OURS, THEIRS) if path in conflicts else (0,):
                    known |= manifest.entries(_version(path, version), path)
                document = manifest.manifest(config.load_suite(suite), known=known, here=False)
                manifest.write_json(path, document)
                staged.add(path)
        if tables:
            _take(tables)
            lines.append(f"{first_of(tables)}: of one side so far; `fp3o pull`, `snakemake available` and `fp3o save`")
        store.git(["add"], [path for path in staged if path.exists()])
    return Outcome([*lines, "staged in git; `git commit` (or `git rebase --continue`) completes the merge"], [])


def _add_runs_of(revision: str, prefer: str) -> Outcome:
    """Add the runs that a commit saved, and that were dropped since, to those of dvc.lock."""
    theirs, where = store.committed(LOCK, revision), store.setup()
    if theirs is None:
        raise UserError(f"{revision} is no commit with a dvc.lock")
    names = [name for suite in TRACKED if (name := store.listing_name(theirs, suite, f"dvc.lock of {revision}"))]
    for name in names:
        _restore([name], revision, where)
        _restore((store.listing(name, where) or {}).values(), revision, where)
    staged, lines = _record(_unite_all(where, prefer, b"", store.lock_text(), theirs), where)
    return Outcome([*lines, "`fp3o save` stages them"] if staged else [f"dvc.lock has every run of {revision}"], [])


def _restore(names: Iterable[str], revision: str, where: Setup) -> None:
    """Put those objects that are not on this machine, and that a commit's artifacts/ has, into the cache."""
    for name in names:
        if store.find(name, where) is None:
            content = store.committed(store.object_path(STORE, name), revision)
            if content is not None:
                store.put(where.cache, name, content)


def _record(united: Mapping[str, Listing], where: Setup) -> tuple[set[Path], list[str]]:
    """Write united listings to dvc.lock and the store; the files to stage, and lines to print."""
    lines = []
    for suite, files in united.items():
        saving.record(files, where, suite)
        lines.append(f"{suite}: {len(by_run(files))} runs of both sides are in dvc.lock")
    return {store.object_path(STORE, store.listing_of(files)) for files in united.values()}, lines


def _unite_all(where: Setup, prefer: str, before: bytes, mine: bytes, yours: bytes) -> dict[str, Listing]:
    """By suite, the united listing where it is not that of this side; UserError for runs that differ.

    before, mine, yours: dvc.lock of the common ancestor, of this side and of the other one.
    """
    united: dict[str, Listing] = {}
    differing: list[str] = []
    for suite in TRACKED:
        ours, theirs = (store.locked_listing(where, suite, text) for text in (mine, yours))
        base: Listing = {}
        with contextlib.suppress(UserError):  # Pruned since: then nothing counts as removed.
            base = store.locked_listing(where, suite, before)
        both = unite(base, ours, theirs, prefer)
        differing += [f"{store.runs_folder(suite)}/{run}" for run in both.differing]
        if both.files != ours:
            united[suite] = both.files
    if differing:
        raise UserError(
            f"{len(differing)} runs were saved on both sides and differ: {first_of(differing)}; nothing was changed: "
            "`fp3o merge --prefer ours` or `--prefer theirs` says whose to take"
        )
    return united


def unite(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], prefer: str = "") -> United:
    """The runs of both listings. One that only one side changed since `base`, or removed, is as that side has it."""
    before, mine, yours = by_run(base), by_run(ours), by_run(theirs)
    files: Listing = {}
    differing = []
    for run in sorted({*mine, *yours}):
        here, there, old = mine.get(run), yours.get(run), before.get(run)
        if here == there or there == old:
            taken = here
        elif here == old:
            taken = there
        elif here is None or there is None:
            taken = here or there  # Removed on one side, saved anew on the other.
        else:
            taken = there if prefer == "theirs" else here
            differing += [] if prefer else [run]
        files |= {f"{run}/{name}": md5 for name, md5 in (taken or {}).items()}
    return United(files, differing)


def _conflicts() -> set[Path]:
    """The files that git cannot merge."""
    return {Path(line.split("\t", 1)[1]) for line in store.git(["ls-files", "--unmerged", "-z"]).split("\0") if line}


def _version(path: Path, version: int) -> bytes:
    """A version of a file in conflict (0: of one that is not); empty where that side has no such file."""
    return store.committed(path, f":{version}") or b""


def _take(paths: list[Path]) -> None:
    """Take this side's version of files that are made anew anyway, or the other's where this side has none."""
    for path in paths:
        side = "--ours" if store.committed(path, f":{OURS}") is not None else "--theirs"
        store.git(["checkout", side], [path])
    store.git(["add"], paths)
