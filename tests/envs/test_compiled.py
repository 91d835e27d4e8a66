"""Where machine code of the engines is kept, and that nothing needs such a place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fp3o.envs import mamujoco, smac
from fp3o.envs.native import compiled
from fp3o.envs.smac import chance, combat, kernel, layouts, motion, targets

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("engine", [mamujoco, smac])
def test_machine_code_is_in_the_users_cache_or_where_numba_is_told(
    engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package, find = Path(engine.__file__).parent, compiled.cache_folder.__wrapped__
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert find(package).startswith(str(tmp_path / "user"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    assert find(package).startswith(str(tmp_path / "chosen"))


def test_edited_sources_are_compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of the engine, and ours that all engines are compiled with."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    engine = tmp_path / "engine"
    engine.mkdir()
    ours = [tmp_path / f"{name}.py" for name in ("compiled", "intrinsics", "ranges")]
    sources = (engine / "motion.py", *ours)
    for source in sources:
        source.write_text("before")
    folders = {compiled.cache_folder.__wrapped__(engine)}
    for source in sources:
        source.write_text("after")
        folders.add(compiled.cache_folder.__wrapped__(engine))
    assert len(folders) == 5


def test_engines_need_no_folder_to_write_in(tmp_path: Path) -> None:
    """Where the folder for machine code belongs lies a file: none can be made, whoever the user is."""
    shutil.copytree(ROOT / "fp3o", tmp_path / "fp3o", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "home").touch()
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    script = "import fp3o.envs.mamujoco.kernels, fp3o.envs.smac.kernel; print(fp3o.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**kept, **home}, check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_battles_are_played_without_counting_references() -> None:
    """One counted function among those that a battle calls would cost more time than its work."""
    counts = {
        f"{module.__name__}.{name}": value.targetoptions["_nrt"]
        for module in (chance, combat, kernel, layouts, motion, targets)
        for name, value in vars(module).items()
        if hasattr(value, "targetoptions")
    }
    assert len(counts) > 30
    assert not any(counts.values()), counts
