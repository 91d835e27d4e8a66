"""Which source files a module runs, found from its import statements, and the digest of a user's source."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any


def source_file(thing: Any) -> Path | None:
    """The file that defines a function or class; None if there is none, as in a notebook."""
    try:
        found = inspect.getsourcefile(thing)
    except TypeError:
        return None
    return Path(found).resolve() if found and Path(found).is_file() else None


def source_digest(file: Path) -> str:
    """Digest of a plug-in's source: its file and the modules beside it that it imports; in a package, all modules."""
    top = file.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    package = top / file.relative_to(top).parts[0]
    files = _imported_files(file) if package == file else package.rglob("*.py")
    return text_digest(*sorted(hashlib.sha256(one.read_bytes()).hexdigest() for one in files))


def text_digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _imported_files(file: Path) -> list[Path]:
    """A Python file and the modules in its folder that it imports, directly or through one another."""
    _imports.cache_clear()  # Unlike ours, it may be edited while this program runs.
    _file.cache_clear()
    try:
        return sorted({file} | reached(_imports(file), file.parent, None))
    except (SyntaxError, ValueError):
        return [file]  # Python itself says what is wrong with it.


def reached(names: list[str], root: Path, packages: tuple[str, ...] | None) -> set[Path]:
    """Files below `root` that importing these modules runs, of these packages alone; None: of any."""
    waiting, files = list(names), set[Path]()
    while waiting:
        parts = waiting.pop().split(".")
        if packages is not None and parts[0] not in packages:
            continue
        for end in range(1, len(parts) + 1):  # importing a.b.c runs a and a.b first
            path = _file(root, tuple(parts[:end]))
            if path is not None and path not in files:
                files.add(path)
                waiting += _imports(path)
    return files


@cache
def _file(root: Path, parts: tuple[str, ...]) -> Path | None:
    """The file of a module; None for names that are no module here."""
    place = root.joinpath(*parts)
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


@cache
def _imports(path: Path) -> list[str]:
    return list(imported_names(ast.parse(path.read_bytes())))


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Every name in an import statement; of `from a import b` also a.b, which may be a module.

    Not those below `if TYPE_CHECKING`, which never run. Expressions, most of a tree, are not visited.
    """
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, block, ()):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                yield from imported_names(node)
