"""The import contract: every folder imports from the layers below it alone, so there are no cycles between folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fp3o"

# From the bottom up. Folders and modules of one layer do not import each other.
LAYERS = (
    ("errors", "grouping", "caches", "processes", "machine", "schedules", "source_files"),
    ("fields",),
    ("registry",),
    ("config",),
    ("runs",),
    ("envs",),
    ("algorithms", "networks", "progress", "reference"),
    ("learner", "statistics"),
    ("rollout",),
    ("execution",),
    ("training",),
    ("api", "workflow"),
    ("checks", "doctor", "render", "report"),
    ("cli",),
    ("__main__",),
)
LAYER = {name: number for number, layer in enumerate(LAYERS) for name in layer}
# Pairs that lie in the order of the layers and are not allowed all the same.
FORBIDDEN = {("learner", "runs"): "the learner writes no files"}
# Compilers and CUDA graphs are spelt in execution/ alone.
COMPILERS = re.compile(r"torch\._(?:inductor|dynamo)|torch\.compile\b|CUDAGraph|cuda\.graph\b")


def modules() -> Iterator[tuple[str, Path]]:
    """The part of the package that each file belongs to; not the package's own __init__, which lists public names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if first not in ("__init__", "data"):
            yield first, path


def imports(path: Path) -> Iterator[str]:
    """Every module of ours that a file names in an import statement, inside functions and for type checkers, too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("fp3o."))
        elif isinstance(node, ast.ImportFrom) and node.module == "fp3o":
            yield from (f"fp3o.{alias.name}" for alias in node.names if not alias.name.startswith("__"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fp3o."):
            yield str(node.module)


@cache
def edges() -> dict[tuple[str, str], tuple[str, str]]:
    """Which part imports which other, and a file that does."""
    return {
        (part, name.split(".")[1]): (path.relative_to(PACKAGE).as_posix(), name)
        for part, path in modules()
        for name in imports(path)
        if name.split(".")[1] != part
    }


def test_every_part_has_a_layer() -> None:
    assert {part for part, _ in modules()} <= set(LAYER)


def test_nothing_imports_upwards() -> None:
    wrong = {(part, other) for part, other in edges() if LAYER[other] >= LAYER[part]}
    assert {edge: edges()[edge] for edge in wrong} == {}


@pytest.mark.parametrize("edge", FORBIDDEN)
def test_what_else_is_not_imported(edge: tuple[str, str]) -> None:
    assert edge not in edges(), f"{FORBIDDEN[edge]}: {edges()[edge]}"


def test_compilers_are_known_to_execution_alone() -> None:
    assert [str(path) for part, path in modules() if part != "execution" and COMPILERS.search(path.read_text())] == []


def test_every_module_that_is_imported_exists() -> None:
    """Also inside functions that no test runs."""
    missing = []
    for _, path in modules():
        for name in imports(path):
            place = PACKAGE.parent.joinpath(*name.split("."))
            if not place.with_suffix(".py").is_file() and not (place / "__init__.py").is_file():
                missing.append((path.name, name))
    assert missing == []
