"""How `fp3o save` keeps runs that are not in the store yet: `saving` in a suite's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Saving:
    """A rule for some cells: their CSV files are compressed, and not every checkpoint is kept."""

    cells: str
    """Pattern over cell ids."""
    checkpoints: Literal["all", "first", "none"]
    """Of which seeds checkpoints are kept; first: of the cell's first seed, so that the cell can still be played."""
    above: int = 0
    """Bytes. Checkpoints that are not larger are kept of every seed."""

    def keeps(self, first: bool, size: float) -> bool:
        """Whether a checkpoint of this many bytes is kept. first: whether it is that of the cell's first seed."""
        return self.checkpoints == "all" or (self.checkpoints == "first" and first) or size <= self.above
