"""An empty cache for compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fp3o.execution import program_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache that counts as ours, and nobody who listens."""
    chosen = tmp_path / f"{program_cache.OURS}here"
    chosen.mkdir()
    monkeypatch.setenv(program_cache.CHOSEN, str(chosen))
    monkeypatch.setenv(program_cache.TRITON, str(chosen / "triton"))
    monkeypatch.setattr(program_cache, "PROGRESS", program_cache.CompileProgress())
    program_cache.cache_folder.cache_clear()
    yield chosen
    program_cache.cache_folder.cache_clear()
