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


@cache
def files_of(module: str, root: Path = HERE) -> list[Path]:
    """Files that `python -m module` may import, and the styles, scripts and templates beside them; root: of a checkout
    or an installed copy, by default of the one that runs here.

    From the import statements in the sources, also those inside functions: importing would be slow and need every
    package.
    """
    files = reached([module, f"{module}.__main__"], root, PACKAGES)
    if root / "fp3o" / "registry.py" in files:
        files |= set((root / DECLARATIONS).glob("*.py")) | reached(["fp3o.config.declare"], root, PACKAGES)
    folders = {folder for path in files for folder in (path.parent, path.parent / "templates") if folder.is_dir()}
    data = {path for folder in folders for path in folder.iterdir() if path.suffix in _DATA}
    return sorted(files | data)
