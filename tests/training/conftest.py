"""An empty cache for compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fp3o.training import compiling


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache that counts as ours, and nobody who listens."""
    chosen = tmp_path / f"{compiling.OURS}here"
    chosen.mkdir()
    monkeypatch.setenv(compiling.CHOSEN, str(chosen))
    monkeypatch.setenv(compiling.TRITON, str(chosen / "triton"))
    monkeypatch.setattr(compiling, "WORK", compiling.Work())
    compiling.cache_folder.cache_clear()
    yield chosen
    compiling.cache_folder.cache_clear()
