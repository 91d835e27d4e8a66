"""How large a difference must be to matter: a number of the domain, never of the data's own spread."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from fp3o.config import Cell, Suite
from fp3o.statistics import published
from fp3o.statistics.scores import scoring_of

SHARE = 0.1
"""Of the range of the paper's values on a task, as 10 points are of the range of win rates."""


def margin_of(cell: str, suite: Suite | None = None, factor: float = 1.0) -> float | None:
    """In units of the score: what the suite says of such cells (`margins:`), the domain's number (10 points of win
    rate), or a tenth of the paper's range on the task, times `factor`; None where there is none of these."""
    said = suite.raw.get("margins", ()) if suite is not None else ()
    fitting = [float(entry["margin"]) for entry in said if fnmatchcase(cell, entry["cells"])]
    known = (*fitting[-1:], scoring_of(cell).margin, _published(*Cell.of(cell).row[:2]))
    return next((factor * margin for margin in known if margin is not None), None)


@cache
def _published(domain: str, task: str) -> float | None:
    values = [entry.value for cell, entry in published.scores().items() if cell.startswith(f"{domain}/{task}/")]
    return SHARE * (max(values) - min(values)) if len(values) > 1 else None
