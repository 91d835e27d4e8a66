"""Folders for compiled programs, where folders, locks or a home are missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fp3o
from fp3o import caches


def test_a_program_is_made_where_no_lock_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for lock in (tmp_path / "gone" / "lock", tmp_path / "file" / "lock"):
        made = False
        with caches.making(lock):
            made = True
        assert made
    assert (tmp_path / "gone" / "lock").exists()


def test_a_user_needs_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert caches.folder_for("ours") is None


def test_a_cache_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is run: nobody else may write there, and a folder of somebody else's is not used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = caches.folder_for("ours")
    assert folder == tmp_path / "fp3o" / fp3o.__version__ / "ours"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert caches.folder_for("ours") == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert caches.folder_for("ours") is None


def test_no_cache_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert caches.folder_for("ours", str(tmp_path / "file")) is None
    assert caches.folder_for("ours", str(tmp_path)) == tmp_path / "ours"
