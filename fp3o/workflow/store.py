"""`fp3o save` and `fp3o pull`: runs of the paper suite into DVC and back. Neither removes anything.

save(message="")    add the finished runs of this checkout to those that dvc.lock names; a run that it names already is
                    replaced, a saved run that is not here stays
pull(patterns)      get the saved runs that are not here; a file that is here is never touched
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from fp3o import config
from fp3o.errors import UserError
from fp3o.progress import track
from fp3o.runs import layout, records
from fp3o.runs.atomic import disk_errors
from fp3o.runs.verify import RunId, read_verified
from fp3o.workflow import guard, jobs, manifest, objects
from fp3o.workflow.objects import STAGE, STORE, TRACKED, Listing, Setup

# Bytes. The store is part of the git repository, so it stays small; for more, a DVC remote is needed.
STORE_LIMIT = 200_000_000

LOCK_WAIT_SECONDS = 600.0
RETRY_SECONDS = 1.0


class Outcome(NamedTuple):
    """What was done, and what could not be: lines to print."""

    lines: list[str]
    problems: list[str]


# --- save ----------------------------------------------------------------------------------------------------------


def save(message: str = "") -> Outcome:
    """Put the finished runs of the paper suite into DVC and the store, and stage dvc.lock, manifest and tables in git.

    One process at a time: others wait. Runs that are being written are left for the next save, damaged ones are left
    out and named. With a message the staged files are committed.
    """
    suite = config.load_suite(TRACKED)
    with alone():
        where = objects.setup()
        locked = locked_listing(where)
        here, problems = _finished_here(where)
        replaced = {objects.run_of(path) for path in here}
        wanted = {path: md5 for path, md5 in locked.items() if objects.run_of(path) not in replaced} | here
        record(wanted, where)
        manifest.write_json(manifest.manifest_path(TRACKED), manifest.manifest(suite, problems))
        runs = {objects.run_of(path) for path in wanted}
        place = f"{STORE}/" if where.in_git else f"DVC's remote {where.remote}"
        lines = [f"{len(wanted)} files of {len(runs)} runs are in {place}"]
        if away := runs - replaced:
            lines.append(f"{len(away)} of these runs are not here and stay as they were saved")
        named = [f"not saved: {text}" for text in problems.values()]
        return Outcome(lines + _stage_in_git(message, wanted, where, suite), named)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock that `fp3o save`, `fp3o pull` and `fp3o prune` share; waits while another process holds it."""
    if not Path(".dvc").is_dir():
        raise UserError("no .dvc folder here: run this in the repository's root folder")
    with _file_lock(Path(".dvc/tmp/fp3o-save.lock")):
        yield


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def locked_listing(where: Setup) -> Listing:
    """The saved files; where the listing is in a remote only, it is fetched."""
    name = objects.listing_name(objects.lock_text())
    listing = objects.listing(name, where)
    if listing is None and not where.in_git:
        # With any file DVC fetches the listing as well; run.json is a small file.
        _dvc("fetch", next((str(path) for path in _saved_documents()), STAGE))
        listing = objects.listing(name, where)
    if listing is None:
        raise UserError(
            f"{objects.object_path(STORE, str(name))}, the list of the saved runs, is damaged or not here: "
            f"`git checkout HEAD dvc.lock {STORE}` restores it; nothing was done"
        )
    return listing


def _saved_documents() -> Iterator[Path]:
    """Path of the run.json of every run in the committed manifest."""
    path = manifest.manifest_path(TRACKED)
    for run in manifest.entries(objects.committed(path) or b"", path).values():
        yield objects.runs_folder() / run["cell"] / run["digest"] / f"seed-{run['seed']}" / records.RUN


def _finished_here(where: Setup) -> tuple[Listing, dict[str, str]]:
    """The files of every finished run of this checkout, after copying them to the cache; and by run what is damaged."""
    files: Listing = {}
    problems: dict[str, str] = {}
    root = objects.runs_folder()
    for document in track(sorted(root.glob(f"*/*/*/*/*/*/{records.RUN}")), "checking runs here", "runs"):
        folder = document.parent
        try:
            contents = _checked_contents(folder)
        except UserError as error:
            problems[folder.relative_to(root).as_posix()] = str(error)
            continue
        except FileNotFoundError:
            continue  # A sweep is training it again: left for the next save.
        for name, content in contents.items():
            md5 = objects.md5_of(content)
            objects.put(where.cache, md5, content)
            files[(folder / name).relative_to(root).as_posix()] = md5
    return files, problems


def _checked_contents(folder: Path) -> dict[str, bytes]:
    """The contents of an unaltered run's files. Read once, checked and returned: a sweep may change them meanwhile."""
    document = read_verified(folder, RunId.at(folder))
    contents = {name: (folder / name).read_bytes() for name in (*document["sha256"], records.RUN)}
    for name, checksum in document["sha256"].items():
        if hashlib.sha256(contents[name]).hexdigest() != checksum:
            raise UserError(f"{folder / name} is being changed")
    return contents


def record(wanted: Mapping[str, str], where: Setup) -> None:
    """Put these files into the default remote, then make dvc.lock name exactly these.

    In this order, so that a process killed in between leaves the old dvc.lock and some unused objects.
    """
    content = objects.listing_bytes(wanted)
    name = f"{objects.md5_of(content)}.dir"
    objects.put(where.cache, name, content)
    if where.in_git:
        _store_in_git({**dict.fromkeys(wanted.values(), ""), name: ""}, wanted, where)
    with _file_lock(Path(".dvc/tmp/lock")):  # DVC's own lock: a running DVC command would write the old dvc.lock back.
        objects.write_lock(name, wanted, where)
    if not where.in_git:
        for md5 in set(wanted.values()):  # DVC pushes from its cache, and shipped runs may be in artifacts/ only.
            if (stored := objects.find(md5, where)) is not None:
                objects.put(where.cache, md5, stored)
        _dvc("push", STAGE)
        states: dict[str, str] = json.loads(_dvc("status", "--cloud", "--json", STAGE) or "{}")
        absent = [path for path, state in states.items() if state in ("new", "missing")]
        if absent:
            raise UserError(f"{len(absent)} files are not in DVC's remote {where.remote}, e.g. {absent[0]}: save again")


def _store_in_git(names: Iterable[str], wanted: Mapping[str, str], where: Setup) -> None:
    """Add the objects to artifacts/. UserError if that would make it too large, or an object is nowhere to be found."""
    added: list[str] = []
    for name in names:
        if objects.intact(objects.object_path(STORE, name), name) is None:
            if objects.find(name, where) is None:
                path = next((path for path, md5 in wanted.items() if md5 == name), name)
                raise UserError(
                    f"{objects.object_path(STORE, name)} is damaged or not here, and {path} needs it: "
                    f"`git checkout HEAD {STORE}` restores it; dvc.lock was not changed"
                )
            added.append(name)
    _refuse_if_too_large(added, wanted, where)
    for name in track(added, f"adding to {STORE}/", "files"):
        content = objects.find(name, where)
        assert content is not None
        objects.put(STORE, name, content)


def _refuse_if_too_large(added: Sequence[str], wanted: Mapping[str, str], where: Setup) -> None:
    sizes = {name: objects.object_path(where.cache, name).stat().st_size for name in added}
    total = sum(path.stat().st_size for path in STORE.rglob("*") if path.is_file()) + sum(sizes.values())
    if total <= STORE_LIMIT:
        return
    by_cell: dict[str, int] = {}
    for path, md5 in wanted.items():
        if md5 in sizes:
            cell = "/".join(path.split("/")[:4])
            by_cell[cell] = by_cell.get(cell, 0) + sizes[md5]
    largest = sorted(by_cell.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{cell} {size / 1e6:.1f} MB" for cell, size in largest)
    raise UserError(
        f"{STORE}/ would hold {total / 1e6:.1f} MB, more than {STORE_LIMIT / 1e6:.0f} MB (largest: {named}); "
        "nothing was stored: `fp3o prune` lists what is superseded, or use a remote of your own: `dvc remote add -d`"
    )


def _stage_in_git(message: str, wanted: Mapping[str, str], where: Setup, suite: config.Suite) -> list[str]:
    """Stage dvc.lock, manifest, tables and objects in git or, with a message, commit them; lines to print.

    Objects are named one by one: other changes in artifacts/ are not staged. Tables are staged only where all saved
    runs are here: others would have gaps that the committed ones do not have.
    """
    if not Path(".git").exists():
        return ["no git here: nothing staged"]
    root = layout.suite_root(TRACKED)
    notes = []
    shown = [objects.LOCK, manifest.manifest_path(TRACKED)]
    if away := guard.not_pulled(suite):
        notes.append(f"tables not staged: {len(away)} runs are not here (`fp3o pull`, then `snakemake available`)")
    else:
        shown += [root / name for name in ("metrics.json", "curves", "scorecard.json", "tables", "cost", "cost.csv")]
    shown = [path for path in shown if path.exists()]
    paths = list(shown)
    if where.in_git:
        name = objects.listing_name(objects.lock_text())
        paths += [objects.object_path(STORE, md5) for md5 in sorted({*wanted.values(), str(name)})]
        shown.append(STORE)
    text = " ".join(str(path) for path in shown)
    git(["add"], paths)
    if not message:
        return [f"staged in git: {text}", *notes]
    if subprocess.run(["git", "diff", "--cached", "--quiet", "--", *map(str, shown)], check=False).returncode == 0:
        return ["nothing to commit", *notes]
    git(["commit", "--quiet", "-m", message], paths)
    return [f"committed: {text}", *notes]


def git(command: Sequence[str], paths: Iterable[Path]) -> None:
    """Call git with these files, of which there may be thousands; UserError if it fails."""
    done = subprocess.run(
        ["git", *command, "--pathspec-from-file=-", "--pathspec-file-nul"],
        input="\0".join(str(path) for path in paths),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        detail = (done.stderr or done.stdout).strip()[-300:]
        if "index.lock" in (done.stderr or done.stdout):
            detail = "another git process runs here, or one was killed: delete .git/index.lock if none does"
        raise UserError(f"`git {command[0]}` failed: {detail}; the runs are stored, the same command completes it")


def _dvc(*arguments: str) -> str:
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


# --- pull ----------------------------------------------------------------------------------------------------------


def pull(patterns: Sequence[str] = ()) -> Outcome:
    """Get the saved runs of these cells (default: all) that are not here, every file checked against dvc.lock.

    Never removes or replaces a file: a run with a file that differs from the saved one is left as it is. A run of which
    an object is damaged is not written at all.
    """
    with alone():
        where = objects.setup()
        listing = locked_listing(where)
        runs = _locked_runs(listing, patterns)
        root = objects.runs_folder()
        absent: dict[str, dict[str, str]] = {}
        different: list[str] = []
        for run, files in track(runs.items(), "comparing with what is here", "runs"):
            contents = {name: _content(root / run / name) for name in files}
            if any(content is not None and objects.md5_of(content) != files[n] for n, content in contents.items()):
                different.append(run)
            elif None in contents.values():
                absent[run] = {name: md5 for name, md5 in files.items() if contents[name] is None}
        if not where.in_git:
            _fetch(absent, where)
        problems = []
        brought = 0
        for run, files in track(absent.items(), "bringing runs", "runs"):
            missing = _bring(root / run, files, where)
            problems += missing
            brought += not missing
        content = objects.listing_bytes(listing)
        objects.put(where.cache, f"{objects.md5_of(content)}.dir", content)  # For `dvc status`.
    lines = [f"{brought} runs brought, {len(runs) - len(absent) - len(different)} were here"]
    if different:
        lines.append(f"{len(different)} runs differ from the saved ones and were left as they are, e.g. {different[0]}")
    return Outcome(lines, problems)


def _locked_runs(listing: Listing, patterns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run → file → md5, for the runs whose cell fits one of the patterns (none: all runs)."""
    runs: dict[str, dict[str, str]] = {}
    fitting: set[str] = set()
    prefix = f"{objects.runs_folder().as_posix()}/"
    wanted = [pattern.removeprefix(prefix).rstrip("/") for pattern in patterns]
    for path, md5 in listing.items():
        run, _, name = path.rpartition("/")
        fits = {p for p in wanted if fnmatchcase(run, p) or fnmatchcase(run, f"{p}/*")}
        fitting |= fits
        if fits or not wanted:
            runs.setdefault(run, {})[name] = md5
    for pattern in wanted:
        if pattern not in fitting:
            cells = sorted({"/".join(path.split("/")[:4]) for path in listing})
            raise UserError(f"no saved run fits {pattern}; saved cells: {', '.join(cells) or 'none'}")
    return runs


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _fetch(absent: Mapping[str, Mapping[str, str]], where: Setup) -> None:
    """Let DVC fetch from its remote the objects that are missing on this machine."""
    lacking = [run for run, files in absent.items() if any(objects.find(md5, where) is None for md5 in files.values())]
    if lacking:
        _dvc("fetch", *(str(objects.runs_folder() / run) for run in lacking))


def _bring(folder: Path, files: Mapping[str, str], where: Setup) -> list[str]:
    """Write the missing files of one run, run.json (which makes it a finished run) last.

    If an object is damaged nothing is written; returns a line for each of those.
    """
    contents: dict[str, bytes] = {}
    problems = []
    for name, md5 in files.items():
        content = objects.find(md5, where)
        if content is None:
            path = objects.object_path(STORE if where.in_git else where.cache, md5)
            remedy = f"`git checkout HEAD {path}` restores it" if where.in_git else "`dvc fetch` again"
            problems.append(f"{path} is damaged or not here, {folder / name} was not brought: {remedy}")
        else:
            contents[name] = content
    if problems:
        return problems
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(contents, key=lambda name: (name == records.RUN, name)):
        objects.put(where.cache, files[name], contents[name])
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
