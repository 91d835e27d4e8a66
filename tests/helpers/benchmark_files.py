"""Programs in benchmarks/, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_benchmark(path: str) -> ModuleType:
    """path: below benchmarks/."""
    file = Path(__file__).parents[2] / "benchmarks" / path
    specification = importlib.util.spec_from_file_location(f"benchmark_{file.stem}", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # where dataclasses look their module up
    specification.loader.exec_module(module)
    return module
