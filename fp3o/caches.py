"""Where programs made on this machine are kept."""

from __future__ import annotations

import os
from pathlib import Path


def folder_for(package: Path, name: str, chosen: str | None = None) -> Path | None:
    """A folder of this name: in the one chosen, else beside the package's sources, else in the user's cache.

    None where it cannot be written. Never in a shared temporary folder, where others could leave code for us to run.
    """
    user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    for base in [Path(chosen)] if chosen else [package / "__pycache__", Path(user) / "fp3o"]:
        folder = base / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None
