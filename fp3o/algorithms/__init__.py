"""The algorithms. Each module declares its own with `@algorithm`; importing this package imports them all.

`fp3o list` and Snakemake read the declarations, so modules with algorithms import torch inside functions.
"""

from __future__ import annotations

import importlib
import pkgutil

from fp3o.registry import ALGORITHMS

__all__ = ["ALGORITHMS"]

# What algorithms are made of; all other modules here are algorithms.
PARTS = ("advantage", "objective", "turn_checks", "turns")

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in PARTS:
        importlib.import_module(f"{__name__}.{_module.name}")
