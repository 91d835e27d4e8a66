"""How many decimals a score is printed with."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fp3o.config.domains import DOMAINS


def decimals(domain: str, values: Iterable[float]) -> int:
    """One in the paper's domains, as the paper prints, and from 100 on; else so many that the largest has three digits.

    A number of decimals, from 1 to 9: 0.0123 gets four, 12.3 gets one.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0 or largest >= 100 or (domain in DOMAINS and DOMAINS[domain].published):
        return 1
    return min(9, max(1, 2 - math.floor(math.log10(largest))))


def fixed(value: float | None, digits: int = 1) -> str:
    """A number with this many decimals; "" for None, NaN and infinities; never `-0.0`."""
    if value is None or not math.isfinite(value):
        return ""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text
