"""An engine's kernels are compiled in another process where none are in the cache."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from fp3o.envs import make
from fp3o.envs.mamujoco.engine import MamujocoBatch
from fp3o.envs.native import ahead, compiled
from fp3o.processes import command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    return commands


def beside(env: Any) -> None:
    threads = set(threading.enumerate())
    ahead.compile_in_background(env, "mamujoco", "hopper-3x1")
    for thread in set(threading.enumerate()) - threads:
        thread.join()


def test_where_kernels_are_missing(started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "cache_folder", lambda package: str(tmp_path))
    beside(make("matrix", "climbing", 1))
    assert started == []
    beside(MamujocoBatch)
    assert started == [command("fp3o.envs.native.ahead", "mamujoco", "hopper-3x1")]
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "kernel.nbi").touch()
    beside(MamujocoBatch)
    assert len(started) == 1


@pytest.mark.parametrize(("domain", "task"), [("mamujoco", "hopper-3x1"), ("smac", "3m")])
def test_the_process_takes_a_step(domain: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Any] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        env = make(*arguments, **options)
        step = env.step
        monkeypatch.setattr(env, "step", lambda actions: steps.append(step(actions)))
        return env

    monkeypatch.setattr(ahead, "make", watched)
    ahead.main(domain, task)
    assert len(steps) == 1
