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
        self.foreign = "" if suite is None else why_not_planned(suite, plan, seeds)
        """Why the suite's folder is not used; "" if it is, or if another folder was asked for."""
        if suite is not None and not self.foreign:
            self.runs, self.scratch = (layout.suite_root(suite.name) / part for part in ("runs", "scratch"))
        else:
            self.runs = layout.own_root() if out is None else out
            self.scratch = self.runs / "scratch"


def why_not_planned(suite: config.Suite, plan: config.Plan, seeds: Sequence[int]) -> str:
    """Why these runs are not among those that the suite plans; "" if they are."""
    planned = {each.cell.id: (each.digest, wanted) for each, wanted in suite.runs()}
    if plan.cell.id not in planned:
        return f"suite {suite.name} has no such cell"
    digest, wanted = planned[plan.cell.id]
    if digest != plan.digest:
        return f"other settings than suite {suite.name} plans"
    others = [seed for seed in seeds if seed not in wanted]
    return f"suite {suite.name} has seeds {config.seeds_text(wanted)}" if others else ""
