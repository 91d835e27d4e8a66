"""How the processes that run strangers' code are started and how their end is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The package of the parent, whichever else is installed; -P: a torch.py in the current folder is not torch.
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv[1]); import fp3o; del sys.path[0], sys.argv[1]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def child_command(module: str, *arguments: str) -> list[str]:
    """Run a module of this package in a process of its own."""
    return [sys.executable, "-P", "-c", _START, str(Path(__file__).parents[3]), module, *arguments]


def child_environment() -> dict[str, str]:
    """One thread each, no window, no greeting."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYGAME_HIDE_SUPPORT_PROMPT": "1",
        "SDL_VIDEODRIVER": os.environ.get("SDL_VIDEODRIVER", "dummy"),
    }


def how_it_ended(code: int, errors: bytes) -> str:
    """`killed by signal 11`, or `exit status 1: RuntimeError: the last line it wrote`."""
    lines = errors[-4000:].decode(errors="replace").strip().splitlines()
    ended = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    return f"{ended}: {lines[-1].strip()}" if lines else ended
