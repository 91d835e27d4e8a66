"""Training finished runs again: the old runs stay in place until the new ones are finished, and are kept elsewhere
then.

<root>/replacing/{runs,scratch}/…                  the new runs, in progress and finished
<root>/replaced/<cell>/<digest>/seed-<k>.<n>/      the old ones, n = 1, 2, …
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from fp3o import config
from fp3o.runs import layout
from fp3o.runs.atomic import disk_errors


def put_in_place(plan: config.Plan, seeds: Sequence[int], root: Path, runs: Path) -> list[str]:
    """Put the new runs in place of the old ones, by renaming; a killed process is completed by calling this again.

    Returns lines to print.
    """
    lines = []
    for seed in seeds:
        new = layout.run_directory(root / "replacing" / "runs", plan, seed)
        place = layout.run_directory(runs, plan, seed)
        with disk_errors(place):
            if new.is_dir() and place.is_dir():
                kept = _free_name(layout.run_directory(root / "replaced", plan, seed))
                kept.parent.mkdir(parents=True, exist_ok=True)
                place.rename(kept)
                lines.append(f"the old run of seed {seed} is kept in {kept}")
            if new.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                new.rename(place)
    return lines


def _free_name(folder: Path) -> Path:
    names = (folder.with_name(f"{folder.name}.{number}") for number in count(1))
    return next(name for name in names if not name.exists())
