"""Where the runs of one seed block live: locks, files in progress (scratch), finished runs (declared outputs).

<runs_root>/<cell>/<cfg10>/seed-<k>/        evaluations.csv iterations.csv [final.csv] checkpoint.safetensors run.json
<scratch_root>/<cell>/<cfg10>/seed-<k>.lock
<scratch_root>/<cell>/<cfg10>/seeds-<block>/resume.safetensors, seed-<k>/…
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from fp3o.config import Plan
from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.atomic import disk_errors, write_atomically
from fp3o.runs.layout import run_directory, scratch_directory

RESUME = "resume.safetensors"
# What a full disk must still take before a run starts; a run's files are of this order.
_PROBE_BYTES = 1 << 20


class Lock:
    """A file locked by this process: freed by the kernel when it dies, readable for whoever is refused.

    A record lock, because children made by fork do not inherit it: a killed run's orphaned workers cannot hold it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        with disk_errors(path):
            while True:
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
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
            mark = {"pid": os.getpid(), "host": socket.gethostname(), "since": now()}
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(mark).encode(), 0)

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
        mark = json.loads(content)
        return f"process {mark['pid']} on {mark['host']} since {mark['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


class RunFolder:
    """The files of one seed block from before its first step until every seed is published. Use as a context."""

    def __init__(self, plan: Plan, seeds: Sequence[int], runs_root: Path, scratch_root: Path) -> None:
        if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise UserError(f"{plan.cell.id}: seeds must be different and not negative, not {list(seeds)}")
        self.plan = plan
        self.requested = tuple(sorted(seeds))
        self._runs_root = runs_root
        self._scratch_root = scratch_root
        self._locks: list[Lock] = []
        self.seeds: tuple[int, ...] = ()
        """What is to be trained, in this order; known once entered. Empty: everything is finished."""

    def output(self, seed: int) -> Path:
        """The declared output folder of a seed."""
        return run_directory(self._runs_root, self.plan, seed)

    def finished(self, seed: int) -> bool:
        """Whether the seed's run is complete and untouched; a run that is there but damaged is an error, not a no."""
        folder = self.output(seed)
        if not (folder / records.RUN).exists():
            return False
        document = records.read_run(folder / records.RUN)
        for name, value in (("cell", self.plan.cell.id), ("digest", self.plan.digest), ("seed", seed)):
            if document[name] != value:
                raise UserError(f"{folder / records.RUN} is another run: its {name} is {document[name]}, not {value}")
        for name, checksum in document["sha256"].items():
            if not (folder / name).exists():
                raise UserError(
                    f"{folder} has run.json but no {name}: `dvc pull` it, or delete the folder to train again"
                )
            if records.sha256_of(folder / name) != checksum:
                raise UserError(f"{folder / name} does not match run.json; delete the folder to train again")
        return True

    def unfinished(self) -> tuple[int, ...]:
        """The requested seeds still to be trained. Needs no lock and writes nothing."""
        return tuple(seed for seed in self.requested if not self.finished(seed))

    def __enter__(self) -> Self:
        """Lock every requested seed, check that results can be written, choose `seeds` to train."""
        try:
            whole_block = scratch_directory(self._scratch_root, self.plan, self.requested)
            _make_folder(whole_block.parent)
            for seed in self.requested:
                self._locks.append(
                    Lock(whole_block.parent / f"seed-{seed}.lock", f"seed {seed} of {self.plan.cell.id}")
                )
            left = self.unfinished()
            # A block interrupted while publishing has some finished seeds: its saved state still holds all of them.
            self.seeds = self.requested if left and (whole_block / RESUME).exists() else left
            if left:
                _probe(self.output(left[0]).parent)
                _probe(self.block)
                for seed in self.seeds:
                    _make_folder(self.scratch(seed))
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
        if isinstance(error, UserError):
            for seed in self.seeds:
                _drop_empty(self.scratch(seed), self._scratch_root)
                _drop_empty(self.output(seed).parent, self._runs_root)

    def _release(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    @property
    def block(self) -> Path:
        """Scratch folder of the seeds trained together."""
        return scratch_directory(self._scratch_root, self.plan, self.seeds)

    @property
    def resume_path(self) -> Path:
        """State of the whole block, replaced at every save."""
        return self.block / RESUME

    def scratch(self, seed: int) -> Path:
        """Folder of a seed's files in progress."""
        return self.block / f"seed-{seed}"

    def publish(self, seed: int, document: Mapping[str, Any]) -> Path:
        """Copy a seed's files from scratch to its output folder, run.json last; adds their sha256 to the document.

        Copies, because a process killed half-way must find everything in scratch again.
        """
        target = self.output(seed)
        if self.finished(seed):
            return target
        _make_folder(target)
        checksums: dict[str, str] = {}
        for name in (records.EVALUATIONS, records.ITERATIONS, records.FINAL, records.CHECKPOINT):
            source = self.scratch(seed) / name
            if source.exists():
                write_atomically(target / name, source.read_bytes())
                checksums[name] = records.sha256_of(source)
        records.write_run(target / records.RUN, {**document, "sha256": checksums})
        return target

    def discard_scratch(self) -> None:
        """Remove the block's files in progress once every seed is published."""
        if all(self.finished(seed) for seed in self.seeds):
            shutil.rmtree(self.block, ignore_errors=True)


def _make_folder(folder: Path) -> None:
    with disk_errors(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UserError(f"cannot write {folder}: it is a file, not a folder") from None


def _drop_empty(folder: Path, root: Path) -> None:
    """A refused run leaves nothing behind: remove the folder and its parents below root as far as they are empty."""
    with contextlib.suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _probe(folder: Path) -> None:
    """Refuse a read-only or full disk before hours are spent on a run that could not be saved."""
    _make_folder(folder)
    probe = folder / f".probe-{os.getpid()}"
    write_atomically(probe, bytes(_PROBE_BYTES))
    with disk_errors(folder):
        probe.unlink()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Interrupted(Exception):
    """The run was asked to stop, has saved its state and can be resumed by the same command."""

    def __init__(self, signal_number: int, message: str = "") -> None:
        super().__init__(message or "stopped; the same command resumes it")
        self.exit_code = 128 + signal_number


class Interrupt:
    """Ctrl-C and SIGTERM as a flag the loop polls between iterations; a second signal is not held back."""

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in self._SIGNALS:
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def __bool__(self) -> bool:
        return self.signal_number is not None

    def raise_if_set(self, message: str = "") -> None:
        """Leave by `Interrupted`; to be called once the state is saved."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number, message)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None:
            self._restore()
            signal.raise_signal(number)
        self.signal_number = number

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
