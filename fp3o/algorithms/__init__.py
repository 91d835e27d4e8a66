"""The algorithms. Each module declares its own with `@algorithm`; importing this package imports them all.

`fp3o list` and Snakemake read the declarations, so modules with algorithms import torch inside functions.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fp3o.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "turns_of"]

if TYPE_CHECKING:
    from fp3o.algorithms.turns import Context, Turn

# What algorithms are made of; all other modules here are algorithms.
PARTS = ("advantage", "objective", "own_loss", "turn_checks", "turns")

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in PARTS:
        importlib.import_module(f"{__name__}.{_module.name}")


def turns_of(algorithm: str) -> Callable[[Context], Iterator[Turn]]:
    """An algorithm's generator of turns; those of a plug-in are checked."""
    entry = ALGORITHMS[algorithm]
    if not entry.file:
        return entry.turns
    from fp3o.algorithms.turn_checks import checked

    return lambda context: checked(algorithm, entry.turns, context)
