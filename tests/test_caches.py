"""Folders for compiled programs, where folders, locks or a home are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fp3o import caches


def test_a_program_is_made_where_no_lock_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for lock in (tmp_path / "gone" / "lock", tmp_path / "file" / "lock"):
        made = False
        with caches.making(lock):
            made = True
        assert made
    assert (tmp_path / "gone" / "lock").exists()


def test_a_user_needs_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert caches.folder_for(tmp_path, "ours") == tmp_path / "__pycache__" / "ours"
    (tmp_path / "read-only").touch()
    assert caches.folder_for(tmp_path / "read-only", "ours") is None
