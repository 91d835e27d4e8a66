"""Choices that an analysis makes and could make otherwise; the defaults are the ones behind every table and claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fp3o.config.domains import Reduction
from fp3o.statistics.intervals import Statistic

Family = Literal["planned", "run", "alone"]


@dataclass(frozen=True)
class Choices:
    """How verdicts are reached."""

    reduction: Reduction | None = None
    """From a run's evaluations to its score; None: the domain's rule."""
    statistic: Statistic | None = None
    """Over seeds; None: the domain's rule."""
    test: Literal["usual", "ranks", "t"] = "usual"
    """usual: exact ranks, paired where seeds share their episodes, t for cells of mean returns; ranks: always unpaired
    exact ranks; t: Student's t and Welch's test."""
    margin: float = 1.0
    """Factor on every margin."""
    family: Family = "planned"
    """What p-values are adjusted for: all comparisons planned, those that were run, or nothing."""
    without: int | None = None
    """A seed that is left out."""


USUAL = Choices()
