"""How large a difference must be to matter: a number of the domain, never of the data's own spread."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from fp3o.config import Cell, Suite
from fp3o.statistics import published
from fp3o.statistics.scores import scoring_of

SHARE = 0.1
"""Of the range of the paper's values on a task, as 10 points are of the range of win rates."""


def margin_of(cell: str, suite: Suite | None = None) -> float | None:
    """In units of the score: what the suite says of such cells (`margins:`), the domain's number (10 points of win
    rate), or a tenth of the paper's range on the task; None where there is none of these."""
    for entry in reversed(suite.raw.get("margins", ()) if suite is not None else ()):
        if fnmatchcase(cell, entry["cells"]):
            return float(entry["margin"])
    own = scoring_of(cell).margin
    return own if own is not None else _published(*Cell.of(cell).row[:2])


@cache
def _published(domain: str, task: str) -> float | None:
    values = [entry.value for cell, entry in published.scores().items() if cell.startswith(f"{domain}/{task}/")]
    return SHARE * (max(values) - min(values)) if len(values) > 1 else None
