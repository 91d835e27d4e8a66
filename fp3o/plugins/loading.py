"""Loads plug-ins: Python files, or modules of installed packages (entry points of the group `fp3o.plugins`)."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from fp3o.errors import UserError
from fp3o.workflow.code import imported_files

GROUP = "fp3o.plugins"
_LOADED: dict[Path, tuple[str, ModuleType]] = {}  # by file: digest of the source that was run, module


def load_file(path: str | Path, where: str = "") -> ModuleType:
    """Run a plug-in's file, which registers what it declares; again only if its source has changed.

    where: what named the file (such as --import), for messages.
    """
    given = Path(path)
    place = f"{where} {given}".strip()
    if given.suffix != ".py":
        raise UserError(f"{place}: a plug-in is a Python file; allowed: a path that ends with .py")
    if not given.is_file():
        raise UserError(f"{place}: there is no such file")
    file = given.resolve()
    digest = source_digest(file)
    if file in _LOADED and _LOADED[file][0] == digest:
        return _LOADED[file][1]
    name = f"fp3o_plugin_{file.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(file):
        name = f"{name}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # It may import modules beside it; last, so that none hides an installed one.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{place} cannot be imported: {failure(error, file)}") from error
    _LOADED[file] = (digest, module)
    return module


_WAITING = [GROUP]  # empty once installed plug-ins are loaded


def load_installed() -> None:
    """Import the plug-ins of installed packages, once. One that fails is left out, with a line on stderr."""
    # Emptied first: a plug-in that is loading looks up all known names, which calls this function again.
    for entry in metadata.entry_points(group=_WAITING.pop()) if _WAITING else ():
        try:
            entry.load()
        except (Exception, SystemExit) as error:
            package = entry.dist.name if entry.dist else "a package"
            print(f"fp3o: plug-in {entry.name} of {package} is left out: {failure(error)}", file=sys.stderr)


def failure(error: BaseException, file: Path | None = None) -> str:
    """An exception as one line of text, with the last line number in `file` that its traceback has."""
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return said  # Its text has file and line already.
    frames = traceback.extract_tb(error.__traceback__) if file else ()
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{said} (line {lines[-1]})" if lines else said


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
    files = imported_files(file) if package == file else package.rglob("*.py")
    return text_digest(*sorted(hashlib.sha256(one.read_bytes()).hexdigest() for one in files))


def text_digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
