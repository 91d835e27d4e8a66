"""Where Python may not keep bytecode beside torch's sources, it keeps it in our cache."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from fp3o import __main__ as command


@pytest.mark.parametrize(
    ("forbidden", "compiled", "chosen", "ours"),
    [
        (True, False, None, True),
        (True, True, None, False),  # bytecode came with the package
        (True, False, "elsewhere", False),  # the user has chosen a folder
        (False, False, None, False),  # it will be written beside the sources
    ],
)
def test_bytecode_is_kept_where_python_would_not(
    forbidden: bool, compiled: bool, chosen: str | None, ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, cache = tmp_path / "torch", tmp_path / "cache"
    (package / "__pycache__").mkdir(parents=True)
    spec = ModuleSpec("torch", None)
    spec.cached = str(package / "__pycache__" / "__init__.pyc")
    if compiled:
        Path(spec.cached).touch()
    monkeypatch.setattr(command, "find_spec", lambda name: spec)
    monkeypatch.setattr(command, "folder_for", lambda name: cache / name)
    monkeypatch.setattr(sys, "dont_write_bytecode", forbidden)
    monkeypatch.setattr(sys, "pycache_prefix", chosen)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")
    command.keep_bytecode()
    assert sys.dont_write_bytecode == (forbidden and not ours)
    assert sys.pycache_prefix == (str(cache / "bytecode") if ours else chosen)
    assert ("PYTHONDONTWRITEBYTECODE" in os.environ) == (not ours)  # so do the processes that torch's compiler starts
    assert os.environ["PYTHONPYCACHEPREFIX"] == (str(cache / "bytecode") if ours else "")
