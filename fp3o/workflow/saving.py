"""`fp3o save`: the finished runs of the suites under DVC into it; removes nothing.

They are added to those that dvc.lock names. A run that it names already is replaced, a saved run that is not here
stays; new ones are saved as `saving` of their suite says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.errors import UserError, more_said
from fp3o.progress import track
from fp3o.runs import checkpoint_list, compressed, layout, records, store
from fp3o.runs.atomic import disk_errors
from fp3o.runs.checkpoint_list import Entry
from fp3o.runs.layout import RunId
from fp3o.runs.store import PAPER, STORE, TRACKED, Listing, Outcome, Setup, by_run, fits, locked_listing
from fp3o.runs.verify import copies, read_verified
from fp3o.workflow import guard, manifest

# Bytes. The store is part of the git repository, so it stays small; for more, a DVC remote is needed.
STORE_LIMIT = 200_000_000

TABLES = ("metrics.json", "curves", "scorecard.json", "tables", "cost", "cost.csv")
"""What git holds of a suite beside its manifest."""


def save(message: str = "", suites: Sequence[str] = tuple(TRACKED), again: Sequence[str] = ()) -> Outcome:
    """Put the finished runs of these suites into DVC and the store, and stage dvc.lock, manifests and tables in git.

    One process at a time: others wait. Runs that are being written are left for the next save, damaged ones are left
    out and named. With a message the staged files are committed. again: patterns of cells.
    """
    chosen = [config.load_suite(name) for name in suites]
    runs = [(suite.name, run) for suite in chosen for run in _runs_here(suite)]
    for pattern in again:
        if not any(fits(run, pattern, suite) for suite, run in runs):
            cells = store.cells_text(pattern, (run for _, run in runs))
            raise UserError(f"no run here fits {pattern}; cells here: {cells or 'none (`fp3o pull`)'}")
    with store.store_lock():
        where = store.setup()
        lines: list[str] = []
        problems: list[str] = []
        stored: list[tuple[config.Suite, Listing]] = []
        for suite in chosen:
            try:
                wanted, done = _save_suite(suite, where, again)
            except UserError as error:
                if not stored:
                    raise
                problems.append(f"suite {suite.name} was not saved: {error}")  # what was saved before is still staged
                continue
            stored.append((suite, wanted))
            lines += done.lines
            problems += done.problems
        return Outcome(lines + _stage_in_git(message, stored, where), problems)


def _save_suite(suite: config.Suite, where: Setup, again: Sequence[str]) -> tuple[Listing, Outcome]:
    """Store the finished runs of a suite, write dvc.lock and its manifest; all saved files, and what was done."""
    locked = locked_listing(where, suite.name)
    here, left_out, problems = _finished_here(suite, locked, where, again)
    present = {store.run_of(path) for path in here}
    wanted = {path: md5 for path, md5 in locked.items() if store.run_of(path) not in present} | here
    changed = [path for path in here if path.endswith(f"/{records.RUN}") and locked.get(path, here[path]) != here[path]]
    record(wanted, where, suite.name)
    lines = []
    if wanted or suite.name == PAPER:
        manifest.write_json(manifest.manifest_path(suite.name), manifest.manifest(suite, problems))
        runs = {store.run_of(path) for path in wanted}
        lines.append(f"{len(wanted)} files of {len(runs)} runs are in {where.place}")
        if away := runs - present:
            lines.append(f"{len(away)} of these runs are not here and stay as they were saved")
        lines += [f"replaced: {store.run_of(path)}, which was saved before as another run" for path in changed]
    about = "" if suite.name == PAPER else f"{suite.name}: "
    named = [f"not saved: {text}" for text in problems.values()]
    if left_out and (there := where.checkpoints):
        try:
            lines.append(_save_checkpoints(suite.name, left_out, there))
        except UserError as error:
            named.append(f"{about}{len(left_out)} checkpoints were not saved, only their runs: {error}")
    return wanted, Outcome([f"{about}{line}" for line in lines], named)


def _finished_here(
    suite: config.Suite, locked: Listing, where: Setup, again: Sequence[str]
) -> tuple[Listing, list[Entry], dict[str, str]]:
    """The files of every finished run of this checkout, after copying them to the cache; the checkpoints that are not
    among them, if there is a remote for checkpoints; and by run what is damaged.

    locked: what is saved already; such a run stays as it was saved, to the byte (another library may compress
    otherwise), unless it fits one of the patterns of `again`: then it is saved by the suite's rules of today.
    """
    files: Listing = {}
    left_out: list[Entry] = []
    problems: dict[str, str] = {}
    root = store.runs_folder(suite.name)
    known_runs = by_run(locked)
    doubles = copies(_documents(suite, locked, where))
    wanted = where.checkpoints is not None
    for run in track(_runs_here(suite), "checking runs here", "runs"):
        folder = root / run
        known = known_runs.get(run, {})
        try:
            contents = checked_contents(folder)
            is_saved = known.get(records.RUN) == store.md5_of(contents[records.RUN])
            if str(folder) in doubles and not is_saved:
                raise UserError(doubles[str(folder)])
            by_rules = not is_saved or any(fits(run, pattern, suite.name) for pattern in again)
            names = names_as_saved(suite, RunId.at(folder), contents) if by_rules else list(known)
            if wanted and records.CHECKPOINT not in names and records.CHECKPOINT in contents:
                left_out.append(Entry.of(f"{run}/{records.CHECKPOINT}", contents[records.CHECKPOINT]))
            unchanged = is_saved and set(names) == set(known)
            if unchanged and all(store.find(md5, where) is not None for md5 in known.values()):
                files |= {f"{run}/{name}": md5 for name, md5 in known.items()}
                continue
            if records.CHECKPOINT in names and records.CHECKPOINT not in contents:
                raise UserError(compressed.without_checkpoint(folder, RunId.at(run).cell, RunId.at(run).seed))
        except UserError as error:
            problems[run] = str(error)
            continue
        except FileNotFoundError:
            continue  # A sweep is training it again: left for the next save.
        for name, content in compressed.packed(contents, names).items():
            md5 = store.md5_of(content)
            store.put(where.cache, md5, content)
            files[f"{run}/{name}"] = md5
    return files, left_out, problems


def _documents(suite: config.Suite, locked: Listing, where: Setup) -> dict[str, dict[str, Any]]:
    """run.json of the finished runs here and of the saved ones that are away, by folder; those that can be read."""
    root = store.runs_folder(suite.name)
    away = {root / run: files.get(records.RUN) for run, files in by_run(locked).items()}
    documents = {}
    for folder in sorted({*away, *layout.finished_runs(root)}):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # Damaged: named where it is checked.
            here, md5 = folder / records.RUN, away.get(folder)
            content = here.read_bytes() if here.is_file() else store.find(md5, where) if md5 else None
            document = json.loads(content or b"null")
            if RunId.of(document) == RunId.at(folder):
                documents[str(folder)] = document
    return documents


def _runs_here(suite: config.Suite) -> list[str]:
    """Every finished run of this checkout, as cell/digest/seed."""
    root = store.runs_folder(suite.name)
    return [folder.relative_to(root).as_posix() for folder in layout.finished_runs(root)]


def names_as_saved(suite: config.Suite, run: RunId, contents: Mapping[str, bytes]) -> list[str]:
    """The names of the files as which a new run is saved, by the suite's rule for its cell."""
    whole = [*dict.fromkeys((*contents, records.CHECKPOINT))]
    rule = suite.saving_of(run.cell)
    if rule is None:
        return whole
    checkpoint = contents.get(records.CHECKPOINT)
    size = math.inf if checkpoint is None else len(checkpoint)  # Absent: it was left out elsewhere.
    return compressed.names(whole, rule.keeps(suite.is_first(run.cell, run.seed), size))


def checked_contents(folder: Path) -> dict[str, bytes]:
    """The contents of an unaltered run's files. Read once, checked and returned: a sweep may change them meanwhile.

    Compressed files under the names of the plain ones; without the checkpoint if the run was saved without.
    """
    checksums = read_verified(folder, RunId.at(folder))["sha256"]
    left_out = records.CHECKPOINT if compressed.lacks_checkpoint(folder) else ""
    contents = {name: records.read_bytes(folder / name) for name in checksums if name != left_out}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != checksums[name]:
            raise UserError(f"{folder / name} is being changed")
    return {**contents, records.RUN: (folder / records.RUN).read_bytes()}


def record(wanted: Mapping[str, str], where: Setup, suite: str = PAPER) -> None:
    """Put these files into the default remote, then make dvc.lock name exactly these for the suite.

    In this order, so that a process killed in between leaves the old dvc.lock and some unused objects.
    """
    name = store.listing_of(wanted)
    store.put(where.cache, name, store.listing_bytes(wanted))
    if where.in_git:
        _store_in_git({*wanted.values(), name}, wanted, where)
    else:
        with more_said(after="; dvc.lock was not changed"):
            _push({*wanted.values(), name}, wanted, where, lambda name: store.find(name, where))
    with store.file_lock(Path(".dvc/tmp/lock")):  # DVC's own: a running DVC command would write the old dvc.lock back.
        store.write_lock(wanted, where, suite)
    with disk_errors(store.runs_folder(suite)):
        store.runs_folder(suite).mkdir(parents=True, exist_ok=True)  # DVC misses a folder that holds nothing, too.


def _save_checkpoints(suite: str, left_out: Sequence[Entry], there: Setup) -> str:
    """Put checkpoints that are not saved with their runs into the remote for them, then list them; a line to print."""
    files = {entry.file: entry.md5 for entry in left_out}
    paths = {entry.md5: store.runs_folder(suite) / entry.file for entry in left_out}
    _push(set(paths), files, there, lambda name: store.intact(paths[name], name))
    checkpoint_list.add(layout.suite_root(suite), left_out)
    return f"{len(left_out)} checkpoints are in {there.place}"


def _push(names: set[str], wanted: Mapping[str, str], where: Setup, find: Callable[[str], bytes | None]) -> None:
    """Push the objects that the remote lacks; UserError if one is not on this machine, or still lacking afterwards."""
    remote = store.Remote(where)
    lacking = remote.lacks(names)
    here = []
    for name in lacking:
        if (content := find(name)) is not None:
            store.put(where.cache, name, content)  # DVC pushes from its cache; files may be elsewhere only.
            here.append(name)
    remote.push(here)
    if absent := remote.lacks(lacking):
        example = _path_of(min(absent), wanted)
        raise UserError(f"{where.place} lacks {len(absent)} files, e.g. {example}: save again where these runs are")


def _path_of(name: str, wanted: Mapping[str, str]) -> str:
    """The file of a run that an object is; the object's name for the listing."""
    return next((path for path, md5 in wanted.items() if md5 == name), name)


def _store_in_git(names: set[str], wanted: Mapping[str, str], where: Setup) -> None:
    """Add the objects to artifacts/. UserError if that would make it too large, or an object is nowhere to be found."""
    added: list[str] = []
    for name in sorted(names):
        if store.intact(store.object_path(STORE, name), name) is None:
            if store.find(name, where) is None:
                raise UserError(
                    f"{store.object_path(STORE, name)} is damaged or not here, and {_path_of(name, wanted)} needs it: "
                    f"`git checkout HEAD {STORE}` restores it; dvc.lock was not changed"
                )
            added.append(name)
    _refuse_if_too_large(added, wanted, where)
    for name in track(added, f"adding to {STORE}/", "files"):
        content = store.find(name, where)
        assert content is not None
        store.put(STORE, name, content)


def _refuse_if_too_large(added: Sequence[str], wanted: Mapping[str, str], where: Setup) -> None:
    if all(name.endswith(".dir") for name in added):
        return  # A merge unites what both sides have stored already.
    sizes = {name: store.object_path(where.cache, name).stat().st_size for name in added}
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


def _stage_in_git(message: str, suites: Sequence[tuple[config.Suite, Listing]], where: Setup) -> list[str]:
    """Stage dvc.lock, manifests, tables and objects in git or, with a message, commit them; lines to print.

    Objects are named one by one: other changes in artifacts/ are not staged. Tables are staged only where all saved
    runs are here: others would have gaps that the committed ones do not have.
    """
    if not Path(".git").exists():
        return ["no git here: nothing staged"]
    notes = []
    shown = [store.LOCK]
    stored: set[str] = set()
    for suite, wanted in suites:
        stored |= {*wanted.values(), store.listing_of(wanted)}
        root = layout.suite_root(suite.name)
        if not wanted and suite.name != PAPER:
            continue  # Never saved: what lies there is its user's.
        shown += [manifest.manifest_path(suite.name), root / checkpoint_list.NAME]
        if away := guard.not_pulled(suite):
            about = "" if suite.name == PAPER else f" --config suite={suite.name}"
            notes.append(
                f"tables not staged: {len(away)} runs are not here (`fp3o pull`, then `snakemake available{about}`)"
            )
        else:
            shown += [root / name for name in TABLES]
    shown = [path for path in shown if path.exists()]
    paths = list(shown)
    if where.in_git:
        paths += [store.object_path(STORE, name) for name in sorted(stored)]
        shown.append(STORE)
    text = " ".join(str(path) for path in shown)
    store.git(["add"], paths)
    if not message:
        return [f"staged in git: {text}", *notes]
    if subprocess.run(["git", "diff", "--cached", "--quiet", "--", *map(str, shown)], check=False).returncode == 0:
        return ["nothing to commit", *notes]
    store.git(["commit", "--quiet", "-m", message], paths)
    return [f"committed: {text}", *notes]
