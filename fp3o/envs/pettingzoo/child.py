"""How the processes that run strangers' code are started and how their end is told."""

from __future__ import annotations

import os
from pathlib import Path


def child_environment() -> dict[str, str]:
    """One thread each, this package importable, no window, no greeting."""
    package_root = str(Path(__file__).parents[3])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
        "PYGAME_HIDE_SUPPORT_PROMPT": "1",
        "SDL_VIDEODRIVER": os.environ.get("SDL_VIDEODRIVER", "dummy"),
    }


def how_it_ended(code: int, errors: bytes) -> str:
    """`killed by signal 11`, or `exit status 1: RuntimeError: the last line it wrote`."""
    lines = errors[-4000:].decode(errors="replace").strip().splitlines()
    ended = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    return f"{ended}: {lines[-1].strip()}" if lines else ended
