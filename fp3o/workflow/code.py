"""Which files of this repository a command runs. Rules have them as inputs: an edited formula makes its tables anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGES = ("fp3o", "paper_figures")
HERE = Path(__file__).resolve().parents[2]
_DATA = (".css", ".js", ".j2", ".mplstyle")


def code_of(module: str, root: Path) -> list[str]:
    """Files that `python -m module` may import, and the styles, scripts and templates beside them, relative to `root`.

    From the import statements in the sources, also those inside functions: importing would be slow and need every
    package.
    """
    return sorted(path.relative_to(root).as_posix() for path in _files_of(module, root))


def files_of(module: str) -> list[Path]:
    """The same of the code that runs here, a checkout's or an installed copy's."""
    return sorted(_files_of(module, HERE))


def _files_of(module: str, root: Path) -> set[Path]:
    files = _reached([module, f"{module}.__main__"], root, PACKAGES)
    folders = {folder for path in files for folder in (path.parent, path.parent / "templates") if folder.is_dir()}
    data = {path for folder in folders for path in folder.iterdir() if path.suffix in _DATA}
    return files | data


def imported_files(file: Path) -> list[Path]:
    """A Python file and the modules in its folder that it imports, directly or through one another."""
    _imports.cache_clear()  # Unlike ours, it may be edited while this program runs.
    _file.cache_clear()
    try:
        return sorted({file} | _reached(_imports(file), file.parent, None))
    except (SyntaxError, ValueError):
        return [file]  # Python itself says what is wrong with it.


def _reached(names: list[str], root: Path, packages: tuple[str, ...] | None) -> set[Path]:
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
    return list(_imported_names(ast.parse(path.read_bytes())))


def _imported_names(tree: ast.AST) -> Iterator[str]:
    """Every name in an import statement; of `from a import b` also a.b, which may be a module.

    Not those below `if TYPE_CHECKING`, which never run.
    """
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield from _imported_names(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
