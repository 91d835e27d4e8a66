"""How a module of this package is run in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv[1]); import fp3o; del sys.path[0], sys.argv[1]; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """Runs the module of this copy of fp3o. -P: a torch.py in the current folder must not hide torch."""
    return [sys.executable, "-P", "-c", _START, str(Path(__file__).parents[1]), module, *arguments]
