"""The folders of one seed block: locks, files in progress (scratch), finished runs (output).

<runs_root>/<cell>/<digest>/seed-<k>/       evaluations.csv iterations.csv [final.csv] checkpoint.safetensors run.json
<scratch_root>/<cell>/<digest>/seed-<k>.lock
<scratch_root>/<cell>/<digest>/seeds-<block>/resume.safetensors, seed-<k>/…
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fp3o.config import Plan, parse_seeds
from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.atomic import disk_errors, partial_path, write_atomically
from fp3o.runs.layout import RunId, run_directory, scratch_directory
from fp3o.runs.verify import needed, read_verified

RESUME = "resume.safetensors"
# Free space that is checked before a run starts; a run's files have about this size.
_PROBE_BYTES = 1 << 20
_MOST_TRIES = 100


class Lock:
    """A locked file that says which process holds it; the kernel frees the lock when that process ends.

    A record lock (lockf), because forked children do not inherit it: orphaned workers of a killed run cannot hold it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        with disk_errors(path):
            while True:
                try:
                    self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                except FileNotFoundError:
                    # Another run has ended and removed the folder it left empty.
                    make_folder(path.parent)
                    continue
                try:
                    fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = os.pread(self._descriptor, 4096, 0)
                    os.close(self._descriptor)
                    raise UserError(f"{what} is already being trained by {_holder_text(holder)}") from None
                if self._still_at_path():
                    break
                # The previous holder removed the file between our open and our lock.
                os.close(self._descriptor)
            document = {"pid": os.getpid(), "host": socket.gethostname(), "since": now()}
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(document).encode(), 0)

    def _still_at_path(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _holder_text(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


class RunFolder:
    """The files of one seed block, from before its first step until every seed is published. Use as a context."""

    def __init__(self, plan: Plan, seeds: Sequence[int], runs_root: Path, scratch_root: Path) -> None:
        if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise UserError(f"{plan.cell.id}: seeds must be different and not negative, not {list(seeds)}")
        self.plan = plan
        self.requested = tuple(sorted(seeds))
        self._runs_root = runs_root
        self._scratch_root = scratch_root
        self._there = _existing(runs_root), _existing(scratch_root)
        """The two roots, or where they do not exist yet, the nearest folders above them that do."""
        self._locks = contextlib.ExitStack()
        self.seeds: tuple[int, ...] = ()
        """Seeds to train, in this order; set when the context is entered. Empty: everything is finished."""

    def output(self, seed: int) -> Path:
        """The folder of a seed's finished run."""
        return run_directory(self._runs_root, self.plan, seed)

    def finished(self, seed: int) -> bool:
        """Whether the seed's run is complete and unaltered; UserError for a run that is there but damaged."""
        folder = self.output(seed)
        if not (folder / records.RUN).exists():
            return False
        read_verified(folder, RunId(self.plan.cell.id, self.plan.digest, seed))
        return True

    def unfinished(self) -> tuple[int, ...]:
        """The requested seeds still to be trained. Needs no lock and writes nothing."""
        return tuple(seed for seed in self.requested if not self.finished(seed))

    def __enter__(self) -> Self:
        """Lock every requested seed, check that results can be written, choose `seeds` to train."""
        try:
            whole_block = scratch_directory(self._scratch_root, self.plan, self.requested)
            _lock_all(self._locks, whole_block.parent, self.plan.cell.id, self.requested)
            left = self.unfinished()
            # A block interrupted while publishing has some finished seeds: its saved state still holds all of them.
            self.seeds = self.requested if left and (whole_block / RESUME).exists() else left
            self._remove_leftovers(set(self.requested) - set(left))
            if left:
                _probe(self.output(left[0]).parent, left[0])
                _probe(self.block, left[0])
                for seed in self.seeds:
                    make_folder(self.scratch(seed))
        except BaseException:
            self._locks.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.seeds and not self.resume_path.exists():
            # Stopped before anything was saved, or everything is published: nothing here is needed.
            shutil.rmtree(self.block, ignore_errors=True)
        self._locks.close()
        # A run that was refused (UserError) leaves no folder behind, not even the roots.
        runs, scratch = self._there if isinstance(error, UserError) else (self._runs_root, self._scratch_root)
        for seed in self.seeds:
            drop_empty(self.scratch(seed), scratch)
            drop_empty(self.output(seed).parent, runs)
        drop_empty(scratch_directory(self._scratch_root, self.plan, self.requested).parent, scratch)

    def tidy(self) -> None:
        """For a finished block: remove scratch files that its process was killed before removing."""
        if scratch_directory(self._scratch_root, self.plan, self.requested).parent.exists():
            # Held by another process, or a read-only disk: the files stay and do no harm.
            with contextlib.suppress(UserError), self:
                pass

    def _remove_leftovers(self, finished: set[int]) -> None:
        """Remove scratch files of finished runs, and probe files of runs killed while starting. Needs the locks."""
        parent = scratch_directory(self._scratch_root, self.plan, self.requested).parent
        for block in parent.glob("seeds-*"):
            with contextlib.suppress(UserError):
                seeds = set(parse_seeds(block.name.removeprefix("seeds-")))
                if seeds <= finished:
                    shutil.rmtree(block, ignore_errors=True)
        for seed in self.requested:
            for folder in (self.output(seed).parent, *parent.glob("seeds-*")):
                for probe in (_probe_path(folder, seed), partial_path(_probe_path(folder, seed))):
                    with contextlib.suppress(OSError):
                        probe.unlink(missing_ok=True)

    @property
    def block(self) -> Path:
        """Scratch folder of the seeds trained together."""
        return scratch_directory(self._scratch_root, self.plan, self.seeds)

    @property
    def resume_path(self) -> Path:
        """The saved state of the whole block, replaced at every save."""
        return self.block / RESUME

    def scratch(self, seed: int) -> Path:
        """Folder of a seed's files in progress."""
        return self.block / f"seed-{seed}"

    def publish(self, seed: int, document: Mapping[str, Any]) -> Path:
        """Copy a seed's files from scratch to its output folder, run.json (with their sha256 added) last.

        Copied, not moved: a process killed half-way must find everything in scratch again.
        """
        target = self.output(seed)
        if self.finished(seed):
            return target
        make_folder(target)
        checksums: dict[str, str] = {}
        for name in sorted(needed(document)):
            content = (self.scratch(seed) / name).read_bytes()
            write_atomically(target / name, content)
            checksums[name] = hashlib.sha256(content).hexdigest()
        records.write_run(target / records.RUN, {**document, "sha256": checksums})
        return target

    def discard_scratch(self) -> None:
        """Remove the block's files in progress once every seed is published."""
        if all(self.finished(seed) for seed in self.seeds):
            shutil.rmtree(self.block, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: Path, cell: str, seeds: Iterable[int]) -> Iterator[None]:
    """Hold the locks of seeds, so that nobody trains them meanwhile; UserError if somebody does.

    folder: `<scratch_root>/<cell>/<digest>`, which is removed again if it is left empty.
    """
    there = _existing(folder)
    with contextlib.ExitStack() as held:
        if there != folder:
            held.callback(drop_empty, folder, there)
        _lock_all(held, folder, cell, seeds)
        yield


def _lock_all(held: contextlib.ExitStack, folder: Path, cell: str, seeds: Iterable[int]) -> None:
    make_folder(folder)
    for seed in seeds:
        held.callback(Lock(folder / f"seed-{seed}.lock", f"seed {seed} of {cell}").release)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, also while others remove theirs that they left empty."""
    for _ in range(_MOST_TRIES):
        with disk_errors(folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                return
            except FileExistsError:
                raise UserError(f"cannot write {folder}: it is a file, not a folder") from None
            except FileNotFoundError:
                continue  # Another run has removed a folder above that it left empty; or none can be made there.
    raise UserError(f"cannot write {folder}: no folder can be made in {_existing(folder)}")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if place.exists()), folder)


def drop_empty(folder: Path, root: Path) -> None:
    """Remove the folder and its parents below root, as far as they are empty."""
    with contextlib.suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _probe(folder: Path, seed: int) -> None:
    """UserError for a read-only or full disk, before hours are spent on a run that could not be saved."""
    make_folder(folder)
    probe = _probe_path(folder, seed)
    write_atomically(probe, bytes(_PROBE_BYTES))
    with disk_errors(folder):
        probe.unlink()


def _probe_path(folder: Path, seed: int) -> Path:
    """Named after a seed whose lock is held, so that the next holder of that lock can remove what a killed one left."""
    return folder / f".probe-seed-{seed}"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
