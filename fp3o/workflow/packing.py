"""`fp3o pack` and `fp3o unpack`: runs from one machine to another, without a remote and without git.

A pack is checked whole before anything is written (fp3o/runs/packs.py). Each run or state is then written beside its
place, verified there and renamed into it: whoever kills this leaves the folder whole or not there.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.errors import UserError, first_of
from fp3o.progress import track
from fp3o.runs import compressed, layout, packs, records, store
from fp3o.runs.atomic import disk_errors, partial_path, sync_folder
from fp3o.runs.folder import RESUME, locked, make_folder
from fp3o.runs.layout import RunId
from fp3o.runs.packs import RUNS, STATES, Item, Pack
from fp3o.runs.store import Outcome
from fp3o.runs.verify import check_distinct, read_tables, read_verified, remedy
from fp3o.workflow import guard, saving

RUN_NAMES = [
    *(name + end for name in (records.EVALUATIONS, records.ITERATIONS, records.FINAL) for end in ("", ".xz")),
    records.CHECKPOINT,
    records.RUN,
]


# --- Packing -------------------------------------------------------------------------------------------------------


def pack(
    out: Path, suites: Sequence[config.Suite], patterns: Sequence[str], states: bool, saved: bool, small: bool = False
) -> Outcome:
    """Write the finished runs of suites that fit a pattern (none: all), and with `states` those that can go on: stopped
    ones, and running ones as they were last saved.

    saved: also runs that are saved in DVC, which every clone can pull. small: as the suite saves them, CSV files
    compressed and without the checkpoints that it does not keep. Damaged runs are named and left out.
    """
    found: dict[Item, tuple[Path, list[str]]] = {}
    lines: list[str] = []
    problems: list[str] = []
    with contextlib.ExitStack() as locks:
        for suite in suites:
            staged = Path(locks.enter_context(tempfile.TemporaryDirectory()))
            # States first: what finishes meanwhile is then found as a run.
            resumable = _states(suite, patterns, locks, staged, lines) if states else {}
            runs = _finished(suite, patterns, saved, lines, problems)
            if small:
                runs = {run: _as_saved(suite, run, folder, staged / run.path) for run, (folder, _) in runs.items()}
            found |= {Item(suite.name, f"{RUNS}/{run.path}"): files for run, files in runs.items()}
            found |= resumable
        if not found:
            raise UserError("; ".join(["nothing to pack", *lines, *problems]))
        size = packs.write(out, found)
    count = sum(item.is_run for item in found)
    about = f"{count} runs" + (f" and {len(found) - count} resume states" if states else "")
    return Outcome([f"{out}: {about}, {size / 1e6:.1f} MB", *lines], problems)


def _finished(
    suite: config.Suite, patterns: Sequence[str], saved: bool, lines: list[str], problems: list[str]
) -> dict[RunId, tuple[Path, list[str]]]:
    """The runs to pack, each with its folder and files; lines about those left out are added to the two lists."""
    root = layout.suite_root(suite.name) / RUNS
    in_store = {} if saved else guard.locked_runs(suite.name) or {}
    found: dict[RunId, tuple[Path, list[str]]] = {}
    pulled, foreign = 0, []
    for folder in track(layout.finished_runs(root), "checking runs", "runs"):
        run = RunId.at(folder)
        if patterns and not any(store.fits(run.path, pattern, suite.name) for pattern in patterns):
            continue
        if suite.why_not_planned(run.cell, run.digest, [run.seed]):
            foreign.append(run.path)
        elif in_store.get(run.path) == store.md5_of((folder / records.RUN).read_bytes()):
            pulled += 1
        else:
            try:
                read_verified(folder, run)
            except UserError as error:
                problems.append(f"not packed: {error}")
                continue
            found[run] = folder, [name for name in RUN_NAMES if (folder / name).is_file()]
    if pulled:
        lines.append(f"{pulled} runs of suite {suite.name} are saved, every clone can pull them: left out (--saved)")
    if foreign:
        lines.append(f"{len(foreign)} runs are not planned by suite {suite.name}: left out, {first_of(foreign)}")
    return found


def _as_saved(suite: config.Suite, run: RunId, folder: Path, staged: Path) -> tuple[Path, list[str]]:
    """Copy a run under the names that `fp3o save` would give its files."""
    staged.mkdir(parents=True)
    contents = saving.checked_contents(folder)
    files = compressed.packed(contents, saving.names_as_saved(suite, run, contents))
    for name, content in files.items():
        (staged / name).write_bytes(content)
    return staged, list(files)


def _states(
    suite: config.Suite, patterns: Sequence[str], locks: contextlib.ExitStack, staged: Path, lines: list[str]
) -> dict[Item, tuple[Path, list[str]]]:
    """The resume states to pack. Seeds of stopped runs stay locked until the pack is written; of runs in training the
    files are copied to `staged`."""
    scratch = layout.suite_root(suite.name) / STATES
    found: dict[Item, tuple[Path, list[str]]] = {}
    # Not Path.glob: in Python 3.11 it fails where a run that ends removes a folder.
    for name in sorted(glob.glob(f"*/*/*/*/*/seeds-*/{RESUME}", root_dir=scratch)):
        block = (scratch / name).parent
        item = Item(suite.name, f"{STATES}/{block.relative_to(scratch).as_posix()}")
        seeds = _seeds(item)
        fits = not patterns or any(store.fits(f"{item.cell}/{item.digest}", each, suite.name) for each in patterns)
        if fits and not suite.why_not_planned(item.cell, item.digest, seeds):
            names = [RESUME, *(log for seed in seeds for log in _logs(seed))]
            try:
                locks.enter_context(locked(block.parent, item.cell, seeds))
            except UserError:
                place = staged / item.folder
                if _copy_running(suite, block, item, place, lines):
                    found[item] = place, names
            else:
                if (block / RESUME).is_file():  # Otherwise it has finished since.
                    found[item] = block, [each for each in names if (block / each).is_file()]
    return found


def _copy_running(suite: config.Suite, block: Path, item: Item, place: Path, lines: list[str]) -> bool:
    """Copy the last saved state of a run in training; adds a line about it. False: it cannot be had.

    The state is replaced atomically, and only after the rows up to it were forced to disk. So rows that are read after
    the state was read hold all of these, and perhaps more, the last one torn: they are cut off here, as at a resume.
    """
    seeds = _seeds(item)
    about = f"{item.cell} seeds {config.seeds_text(seeds)}"
    try:
        make_folder(place)
        (place / RESUME).write_bytes((block / RESUME).read_bytes())
        metadata = _state(place, item)
        for seed in seeds:
            make_folder(place / f"seed-{seed}")
            for name, offset in zip(_logs(seed), metadata["offsets"][str(seed)], strict=True):
                with (block / name).open("rb") as log:
                    (place / name).write_bytes(log.read(offset))
        _check_logs(place, seeds, metadata)
    except FileNotFoundError:
        lines.append(f"no state of {about}: it has finished, or was started afresh, meanwhile")
        return False
    except UserError as error:
        lines.append(f"no state of {about}, which is in training: {error}")
        return False
    plan, _ = suite.run(item.cell)
    steps = plan.settings.rollout_length * plan.settings.rollout_threads
    done, total = metadata["iteration"] * steps, plan.iterations * steps
    lines.append(f"{about} is still in training: its last saved state, after {done:,} of {total:,} steps")
    return True


def _logs(seed: int) -> tuple[str, str]:
    """The CSV files of a seed that a state continues, in the state's order."""
    return f"seed-{seed}/{records.ITERATIONS}", f"seed-{seed}/{records.EVALUATIONS}"


def _seeds(state: Item) -> tuple[int, ...]:
    return config.parse_seeds(state.folder.rpartition("/seeds-")[2])


# --- Unpacking -----------------------------------------------------------------------------------------------------


@dataclass
class _Taken:
    """What came of the items of one suite."""

    suite: config.Suite
    saved: Mapping[str, str]
    seeds: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Of the runs taken, by cell and host."""
    states: list[str] = field(default_factory=list)
    equal: int = 0
    """How many of the runs taken are the saved ones."""
    here: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return layout.suite_root(self.suite.name)

    def lines(self) -> list[str]:
        count = sum(len(seeds) for seeds in self.seeds.values())
        equal = f" ({self.equal} of them are the saved ones)" if self.equal else ""
        text = [f"suite {self.suite.name}: {count} runs taken{equal}, {self.here} were here"]
        for (cell, host), seeds in sorted(self.seeds.items()):
            text.append(f"taken: {cell} seeds {config.seeds_text(seeds)}, trained on {host}")
        return text + [f"taken: the resume state of {state}" for state in self.states]


def unpack(files: Sequence[Path], own: config.Suite | None = None) -> Outcome:
    """Take the runs and states of packs that the suites plan and that are not here; never replaces a file.

    own: take those of this suite only (needed for one of the user's own). UserError, and nothing changes, if a pack was
    truncated or altered; a run that does not belong is named and left out.
    """
    if not files:
        raise UserError("no pack is named: `fp3o unpack FILE …`")
    with contextlib.ExitStack() as opened:
        opening = [opened.enter_context(Pack(file)) for file in track(files, "checking packs", "packs")]
        names = dict.fromkeys(item.suite for each in opening for item in each.items)
        if own is not None and own.name not in names:
            raise UserError(f"the packs hold nothing of suite {own.name}; they hold: {', '.join(names) or 'nothing'}")
        taken = {}
        for name in names if own is None else [own.name]:
            suite = own or _suite(name)
            taken[name] = _Taken(suite, guard.locked_runs(name) or {})
        work = [(each, item) for each in opening for item in each.items if item.suite in taken]
        for each, item in track(work, "taking runs", "runs"):
            _take(each, item, taken[item.suite])
    outcome = Outcome([], [])
    for one in taken.values():
        outcome.lines.extend(one.lines())
        outcome.problems.extend(one.problems)
    return outcome


def _suite(name: str) -> config.Suite:
    if name not in config.suite_names():
        known = ", ".join(config.suite_names())
        raise UserError(f"the pack is of suite {name!r}; allowed: {known}, or with --suite FILE one of your own")
    return config.load_suite(name)


def _take(source: Pack, item: Item, taken: _Taken) -> None:
    """Take one run or state, or add to `taken` why not."""
    try:
        (_take_run if item.is_run else _take_state)(source, item, taken)
    except UserError as error:
        taken.problems.append(f"not taken: {error}")


def _take_run(source: Pack, item: Item, taken: _Taken) -> None:
    folder = taken.root / item.folder
    run = RunId.at(folder)
    if records.RUN not in source.items[item]:
        raise UserError(f"{item} has no {records.RUN}")
    content = source.content(item, records.RUN)
    if reason := taken.suite.why_not_planned(run.cell, run.digest, [run.seed]):
        raise UserError(f"{item}: {reason}{_differences(taken.suite, run.cell, content)}")
    is_saved = taken.saved.get(run.path) == store.md5_of(content)
    if run.path in taken.saved and not is_saved:
        raise UserError(f"{item}: another run of this name is saved in DVC")
    if (folder / records.RUN).is_file():
        if (folder / records.RUN).read_bytes() != content:
            raise UserError(f"{item}: another run of this name is here")
        read_verified(folder, run)
        taken.here += 1
        return

    def check(staged: Path) -> None:
        document = read_verified(staged, run)
        read_tables(staged, document)
        check_distinct({**_siblings(folder), str(item): document})

    with locked(taken.root / STATES / run.cell / run.digest, run.cell, [run.seed]):
        _place(source, item, folder, check)
    host = json.loads(content)["volatile"]["host"]
    taken.seeds.setdefault((run.cell, host), []).append(run.seed)
    taken.equal += is_saved


def _siblings(folder: Path) -> dict[str, dict[str, Any]]:
    """run.json of the other finished seeds of a run's cell, by folder; those that can be read."""
    found = {}
    for path in sorted(folder.parent.glob(f"seed-*/{records.RUN}")):
        with contextlib.suppress(UserError):
            found[str(path.parent)] = records.read_run(path)
    return found


def _differences(suite: config.Suite, cell: str, content: bytes) -> str:
    """For messages: in what a run differs from the plan of its cell; "" where that cannot be said."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        plan, _ = suite.run(cell)
        found = [str(change) for change in config.changes(json.loads(content), plan.configuration())]
        return f" ({first_of(found)})" if found else ""
    return ""


def _take_state(source: Pack, item: Item, taken: _Taken) -> None:
    block = taken.root / item.folder
    seeds = _seeds(item)
    if config.seeds_text(seeds) != block.name.removeprefix("seeds-"):
        raise UserError(f"{item} is no name of a state; allowed: …/seeds-{config.seeds_text(seeds)}")
    if reason := taken.suite.why_not_planned(item.cell, item.digest, seeds):
        raise UserError(f"{item}: {reason}")
    if RESUME not in source.items[item]:
        raise UserError(f"{item} has no {RESUME}")
    runs = [RunId(item.cell, item.digest, seed) for seed in seeds]
    if all((taken.root / RUNS / run.path / records.RUN).is_file() for run in runs):
        taken.here += len(runs)  # They are finished here: nothing goes on from the state.
        return
    with locked(block.parent, item.cell, seeds):
        if (block / RESUME).is_file():
            if (block / RESUME).read_bytes() != source.content(item, RESUME):
                raise UserError(f"{item}: another state of these seeds is here; finish them, or delete it")
            return
        _place(source, item, block, lambda staged: _check_logs(staged, seeds, _state(staged, item)))
    taken.states.append(f"{item.cell} seeds {config.seeds_text(seeds)}")


def _state(folder: Path, item: Item) -> dict[str, Any]:
    """What a state says of itself; UserError if it is damaged or another's."""
    from fp3o.runs import checkpoint  # Imports torch, which finished runs do without.

    _, metadata = checkpoint.load(folder / RESUME)
    identity: dict[str, Any] = {"cell": item.cell, "digest": item.digest, "seeds": list(_seeds(item))}
    checkpoint.require(metadata, identity, folder / RESUME)
    return metadata


def _check_logs(folder: Path, seeds: Sequence[int], metadata: Mapping[str, Any]) -> None:
    """UserError unless training could go on with these CSV files, each as far as the state knows it."""
    for seed in seeds:
        for name, offset, checksum in zip(
            _logs(seed), metadata["offsets"][str(seed)], metadata["checksums"][str(seed)], strict=True
        ):
            path = folder / name
            content = path.read_bytes()[:offset] if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != checksum:
                raise UserError(f"{path} is not the file that the state continues")


def _place(source: Pack, item: Item, folder: Path, check: Callable[[Path], None]) -> None:
    """Write an item beside its folder, check it, and rename it. Under the locks of its seeds."""
    staged = partial_path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} has files of an unfinished run: finish it, or delete them")
    try:
        with disk_errors(folder), _telling(staged, item):
            shutil.rmtree(staged, ignore_errors=True)  # of a killed one
            for name in source.items[item]:
                make_folder((staged / name).parent)
                with (staged / name).open("wb") as file:
                    file.write(source.content(item, name))
                    file.flush()
                    os.fsync(file.fileno())
            check(staged)
            os.rename(staged, folder)
            sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


@contextlib.contextmanager
def _telling(staged: Path, item: Item) -> Iterator[None]:
    """Messages name the item in the pack, not the folder that will be gone when they are read."""
    try:
        yield
    except UserError as error:
        text = str(error).removesuffix(f"; {remedy(staged)}").replace(str(staged), str(item))
        raise UserError(text) from error
