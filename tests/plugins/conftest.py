"""Plug-ins of a test are forgotten after it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fp3o import registry

Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    tables: tuple[dict[str, object], ...] = (
        registry.ALGORITHMS,  # type: ignore[assignment]
        registry.ENVIRONMENTS,
        registry.NETWORKS,
        registry.METRICS,
        registry._LOADED,
        sys.modules,
    )
    registry.algorithms()  # those of the package stay
    before = [dict(table) for table in tables]
    path = list(sys.path)
    yield
    for table, content in zip(tables, before, strict=True):
        for name in set(table) - set(content):
            if table is not sys.modules or name.startswith("fp3o_plugin_"):
                del table[name]
    sys.path[:] = path


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a user's."""

    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return file
