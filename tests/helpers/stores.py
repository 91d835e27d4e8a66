"""A repository with saved runs in the current folder: runs for it, and what its store, dvc.lock and folders hold."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import fake_trainer
import pytest
from run_files import write_run

from fp3o import config
from fp3o.runs import atomic, layout, store

CELL = "smac/3s5z/full/fp3o"
RUNS = 30
FILES = 4 * RUNS


def publish(cell: str, seed: int, ended: str = "2026-01-01T00:00:00Z", suite: str = "paper", **settings: str) -> Path:
    """A finished run in the checkout of the current folder, as the trainer would leave it."""
    plan = config.resolve(config.Cell.parse(cell), settings, config.load_suite(suite))
    folder = layout.run_directory(store.runs_folder(suite), plan, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_ENDED", ended)
        document = fake_trainer.write_files(folder, plan, seed, (seed,), 0)
    write_run(folder, document)
    return folder


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def locked(suite: str = "paper") -> dict[str, str]:
    """What dvc.lock lists."""
    found = store.listing(store.listing_name(store.lock_text(), suite), store.setup())
    assert found is not None
    return found


def stored() -> set[Path]:
    return set(Path("artifacts").glob("files/md5/??/*"))


def here(suite: str = "paper") -> dict[str, bytes]:
    """Every file below results/<suite>/runs."""
    root = store.runs_folder(suite)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def dvc(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["dvc", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout
    return f"{done.stdout}\nexit code {done.returncode}"


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run in a child that kills itself before its step-th change of a file; whether it got that far."""
    child = os.fork()
    if child == 0:
        count = 0

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*arguments: object, **options: object) -> object:
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return wrapper

        os.link = counted(os.link)  # type: ignore[assignment]
        Path.replace = counted(Path.replace)  # type: ignore[method-assign, assignment]
        Path.write_bytes = counted(Path.write_bytes)  # type: ignore[method-assign, assignment]
        atomic.sync_folder = counted(atomic.sync_folder)  # type: ignore[assignment]
        subprocess.run = counted(subprocess.run)  # type: ignore[assignment]
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
