"""Which files of this repository a command runs. Rules have them as inputs: an edited formula makes its tables anew."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fp3o.source_files import reached

PACKAGES = ("fp3o", "paper_figures")
HERE = Path(__file__).resolve().parents[2]
_DATA = (".css", ".js", ".j2", ".mplstyle")
DECLARATIONS = "fp3o/algorithms"
"""The registry imports these modules by name; every command reads titles, colours and settings from them."""


def code_of(module: str, root: Path) -> list[str]:
    """Files that `python -m module` may import, and the styles, scripts and templates beside them, relative to `root`.

    From the import statements in the sources, also those inside functions: importing would be slow and need every
    package.
    """
    return sorted(path.relative_to(root).as_posix() for path in _files_of(module, root))


def files_of(module: str) -> list[Path]:
    """The same of the code that runs here, a checkout's or an installed copy's."""
    return sorted(_files_of(module, HERE))


@cache
def _files_of(module: str, root: Path) -> set[Path]:
    files = reached([module, f"{module}.__main__"], root, PACKAGES)
    if root / "fp3o" / "registry.py" in files:
        files |= set((root / DECLARATIONS).glob("*.py")) | reached(["fp3o.config.declare"], root, PACKAGES)
    folders = {folder for path in files for folder in (path.parent, path.parent / "templates") if folder.is_dir()}
    data = {path for folder in folders for path in folder.iterdir() if path.suffix in _DATA}
    return files | data
