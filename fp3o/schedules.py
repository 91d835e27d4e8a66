"""Settings that change during training: `linear 5e-4 to 0`, `cosine 0.2 to 0.05`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

FORMS = "linear A to B, cosine A to B"
_NUMBER = r"([0-9.]+(?:e[+-]?[0-9]+)?)"
_BETWEEN = r"(?: to | ?→ ?| ?-> ?|-| )"  # A cell's name has hyphens only: mappo-actor_lr-linear-5e-4-0.
_PATTERN = re.compile(rf"(linear|cosine)[ -]{_NUMBER}{_BETWEEN}{_NUMBER}", re.IGNORECASE)


@dataclass(frozen=True)
class Schedule:
    """A value that goes from `first`, in the first iteration, towards `last`, which would follow the last iteration."""

    shape: str
    first: float
    last: float

    @staticmethod
    def parse(text: object) -> Schedule | None:
        """From one of `FORMS`; None for anything else. ValueError for numbers that are none."""
        match = _PATTERN.fullmatch(" ".join(text.split())) if isinstance(text, str) else None
        return Schedule(match[1].lower(), float(match[2]), float(match[3])) if match else None

    def __str__(self) -> str:
        """As in digests and run.json."""
        return f"{self.shape} {self.first!r} to {self.last!r}"

    def at(self, fraction: float) -> float:
        """The value when this fraction of the budget is spent."""
        done = fraction if self.shape == "linear" else (1 - math.cos(math.pi * fraction)) / 2
        return self.first + done * (self.last - self.first)
