"""Where the runs of a command go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fp3o import config
from fp3o.runs import layout


class Roots:
    """The folders for finished runs (`runs`) and runs in progress (`scratch`).

    In results/<suite> for runs that the suite plans; else in the folder that was asked for, or the one for own runs.

    Runs in a suite's folder are part of its tables and, for the paper suite, are saved to DVC.
    """

    def __init__(self, plan: config.Plan, seeds: Sequence[int], suite: config.Suite | None, out: Path | None) -> None:
        self.foreign = "" if suite is None else suite.why_not_planned(plan.cell.id, plan.digest, seeds)
        """Why the suite's folder is not used; "" if it is, or if another folder was asked for."""
        if suite is not None and not self.foreign:
            self.runs, self.scratch = (layout.suite_root(suite.name) / part for part in ("runs", "scratch"))
        else:
            self.runs = layout.own_root() if out is None else out
            self.scratch = self.runs / "scratch"
