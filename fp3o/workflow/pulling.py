"""`fp3o pull`: saved runs that are not here out of DVC, and checkpoints out of the remote for them.

A file that is here is never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fp3o.errors import UserError
from fp3o.progress import track
from fp3o.runs import checkpoint_list, layout, records, store
from fp3o.runs.atomic import disk_errors
from fp3o.runs.store import STORE, TRACKED, Listing, Outcome, Setup, by_run, fits, locked_listing, store_lock


def pull(patterns: Sequence[str] = (), suites: Sequence[str] = tuple(TRACKED), checkpoints: bool = False) -> Outcome:
    """Get the saved runs of these cells (default: all) that are not here, every file checked against dvc.lock.

    Never removes or replaces a file: a run with a file that differs from the saved one is left as it is. A run of which
    an object is damaged is not written at all. checkpoints: also those that are in the remote for checkpoints.
    """
    with store_lock():
        where = store.setup()
        there = where.checkpoints if checkpoints else None
        if checkpoints and there is None:
            raise UserError(
                "no remote for checkpoints is set up: `dvc remote add --local checkpoints URL`, where URL is a folder, "
                "s3://… or https://… (docs/workflow.md)"
            )
        listings = {suite: locked_listing(where, suite) for suite in suites}
        runs = _locked_runs(listings, patterns)
        absent: dict[Path, dict[str, str]] = {}
        different: list[Path] = []
        for folder, files in track(runs.items(), "comparing with what is here", "runs"):
            missing = _not_here(folder, files)
            if missing is None:
                different.append(folder)
            elif missing:
                absent[folder] = missing
        if not where.in_git:
            wanted = {md5 for files in absent.values() for md5 in files.values()}
            if lacking := [md5 for md5 in wanted if store.find(md5, where) is None]:
                store.Remote(where).fetch(lacking)
        problems = []
        brought = 0
        for folder, files in track(absent.items(), "bringing runs", "runs"):
            damaged = _bring(folder, files, where)
            problems += damaged
            brought += not damaged
        for suite, listing in listings.items():  # For `dvc status`.
            store.put(where.cache, store.listing_of(listing), store.listing_bytes(listing))
            with disk_errors(store.runs_folder(suite)):
                store.runs_folder(suite).mkdir(parents=True, exist_ok=True)
        more = _bring_checkpoints(runs, suites, there) if there else Outcome([], [])
    lines = [f"{brought} runs brought, {len(runs) - len(absent) - len(different)} were here"]
    if different:
        lines.append(f"{len(different)} runs differ from the saved ones and were left as they are, e.g. {different[0]}")
    return Outcome(lines + more.lines, problems + more.problems)


def _bring_checkpoints(runs: Mapping[Path, Mapping[str, str]], suites: Iterable[str], there: Setup) -> Outcome:
    """Get checkpoints of runs saved without out of the remote for them, each checked against the run's run.json."""
    listed = {key: entry for suite in suites for key, entry in checkpoint_list.read(layout.suite_root(suite)).items()}
    checksums: dict[Path, str] = {}
    for folder, files in runs.items():
        content = _content(folder / records.RUN)
        if content and records.CHECKPOINT not in files and store.md5_of(content) == files[records.RUN]:
            checksums[folder] = json.loads(content)["sha256"][records.CHECKPOINT]
    absent = {folder: key for folder, key in checksums.items() if not (folder / records.CHECKPOINT).exists()}
    known = {folder: listed[key] for folder, key in absent.items() if key in listed}
    lacking = {entry.md5 for entry in known.values() if store.find(entry.md5, there) is None}
    lost = store.Remote(there).fetch(lacking) if lacking else set()
    problems = []
    brought = 0
    if named := [entry.file for entry in known.values() if entry.md5 in lost]:
        # To DVC, a server that does not answer and a disk that is not mounted have no files.
        problems.append(
            f"{there.place} ({there.url}) cannot be reached, or lacks {len(named)} checkpoints, e.g. {named[0]}: "
            "`fp3o save` where these runs are puts them back"
        )
    for folder, entry in track(known.items(), "bringing checkpoints", "checkpoints"):
        if entry.md5 in lost:
            continue
        content = store.find(entry.md5, there)
        if content is not None and hashlib.sha256(content).hexdigest() != entry.sha256:
            path = folder.parents[6] / checkpoint_list.NAME
            problems.append(f"{path} names another file as {entry.file}: `git checkout HEAD {path}` restores it")
            continue
        damaged = _bring(folder, {records.CHECKPOINT: entry.md5}, there)
        problems += damaged
        brought += not damaged
    lines = [f"{brought} checkpoints brought, {len(checksums) - len(absent)} were here"]
    if unlisted := [folder for folder in absent if folder not in known]:
        lines.append(f"{len(unlisted)} checkpoints were never saved, e.g. of {unlisted[0]}")
    return Outcome(lines, problems)


def _locked_runs(listings: Mapping[str, Listing], patterns: Sequence[str]) -> dict[Path, dict[str, str]]:
    """Folder → file → md5, for the runs whose cell fits one of the patterns (none: all runs). listings: by suite."""
    found: dict[Path, dict[str, str]] = {}
    fitting: set[str] = set()
    for suite, listing in listings.items():
        for run, files in by_run(listing).items():
            chosen_by = {pattern for pattern in patterns if fits(run, pattern, suite)}
            fitting |= chosen_by
            if chosen_by or not patterns:
                found[store.runs_folder(suite) / run] = files
    for pattern in patterns:
        if pattern not in fitting:
            cells = store.cells_text(pattern, (path for listing in listings.values() for path in listing))
            raise UserError(f"no saved run fits {pattern}; saved cells: {cells or 'none'}")
    return found


def _not_here(folder: Path, files: Mapping[str, str]) -> dict[str, str] | None:
    """Those of a saved run's files that its folder lacks; None where it has a file that differs from the saved one.

    A plain file stands for the compressed one that was saved if run.json, which has its checksum, is the saved one.
    """
    here = {name: store.md5_of(content) for name in files if (content := _content(folder / name)) is not None}
    plain = {name for name in files.keys() - here if (folder / name.removesuffix(records.COMPRESSED)).exists()}
    if any(files[name] != md5 for name, md5 in here.items()) or (plain and records.RUN not in here):
        return None
    return {name: md5 for name, md5 in files.items() if name not in here and name not in plain}


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _bring(folder: Path, files: Mapping[str, str], where: Setup) -> list[str]:
    """Write the missing files of one run, run.json (which makes it a finished run) last.

    If an object is damaged nothing is written; returns a line for each of those.
    """
    contents: dict[str, bytes] = {}
    problems = []
    for name, md5 in files.items():
        content = store.find(md5, where)
        if content is None:
            path = store.object_path(STORE, md5)
            if where.in_git:
                about, remedy = str(path), f"`git checkout HEAD {path}` restores it"
            else:
                about = f"object {path.relative_to(STORE)} of {where.place}"
                remedy = "delete it there if it is; `fp3o save` where the run is puts it back"
            problems.append(f"{about} is damaged or missing, {folder / name} was not brought: {remedy}")
        else:
            contents[name] = content
    if problems:
        return problems
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(contents, key=lambda name: (name == records.RUN, name)):
        store.put(where.cache, files[name], contents[name])
        _write_new(folder / name, contents[name])
    return []


def _write_new(path: Path, content: bytes) -> None:
    """Write a file unless it exists by now."""
    partial = path.with_name(f".{path.name}.pulled.partial")
    with disk_errors(path):
        partial.write_bytes(content)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)  # Unlike a rename it replaces nothing.
        partial.unlink()
