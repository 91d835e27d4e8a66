"""A run on disk: the layout of its folder, its file formats, checkpoints, atomic writing, locks.

Called, `fp3o.runs(root, cell)` lists finished runs (fp3o/api/run.py).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _Runs(ModuleType):
    """Lets `fp3o.runs` be a function of the public API, although importing this package takes that name."""

    def __call__(self, root: str | Path, cell: str = "*", *, trust: bool = False) -> list[Any]:
        # By name: what reads runs does not rest on what trains and plays (fp3o/workflow/code.py).
        return list(importlib.import_module("fp3o.api.run").runs(root, cell, trust=trust))


sys.modules[__name__].__class__ = _Runs
