"""Refuses to train runs that were saved and only need to be pulled, or whose settings have changed since they were
saved.

Concerns the suites under DVC alone (dvc.yaml): runs of other suites are not saved anywhere.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence

from fp3o import config
from fp3o.errors import UserError, first_of
from fp3o.grouping import grouped
from fp3o.runs import layout, store
from fp3o.runs.layout import RunId
from fp3o.runs.records import RUN
from fp3o.workflow import manifest

Missing = Mapping[tuple[str, int], config.Plan]
"""(cell, seed) → plan of runs that are not in this checkout."""

SHOWN = 3  # Most cells that a message names.


def in_dvc(suite: str) -> bool:
    """Whether runs of the suite can be pulled: it is under DVC, and something was saved."""
    home = config.checkout()
    if suite not in store.TRACKED or home is None or not (home / store.LOCK).is_file():
        return False
    return store.listing_name((home / store.LOCK).read_bytes(), suite) not in (None, store.listing_of({}))


def known(suite: str) -> dict[tuple[str, int], list[str]]:
    """By (cell, seed), the digests of the saved runs: from dvc.lock, or if its listing is not here, the manifest."""
    locked = locked_runs(suite)
    runs = manifest.listed_runs(suite) if locked is None else map(RunId.at, locked)
    return grouped(((run.cell, run.seed), run.digest) for run in runs)


def locked_runs(suite: str) -> dict[str, str] | None:
    """As `store.saved_runs`, from anywhere; none of a suite that is not under DVC."""
    if not in_dvc(suite):
        return {}
    with contextlib.chdir(config.repository()):
        return store.saved_runs(suite)


def notices(suite: config.Suite) -> list[str]:
    """What whoever makes tables should know: runs that are not the saved ones, a manifest that is not theirs."""
    if not in_dvc(suite.name):
        return []
    with contextlib.chdir(config.repository()):
        lines = manifest.disagreements(suite)
        if replaced := store.replaced_runs(suite.name):
            named = first_of(replaced, SHOWN)
            lines.append(f"{len(replaced)} runs are not the saved ones, trained anew or altered: {named}")
    return lines


def pull_command(suite: str, cells: Sequence[str]) -> str:
    """The command that gets a suite's runs of these cells (or, where they are many, all its runs)."""
    only = () if suite == store.PAPER else ("--suite", suite)
    return " ".join(["fp3o pull", *(cells if len(cells) <= SHOWN else ()), *only])


def not_here(suite: str, missing: Missing) -> list[tuple[str, int]]:
    """Those of the missing runs that were saved with the same settings."""
    there = known(suite)
    return [run for run, plan in missing.items() if plan.digest in there.get(run, ())]


def not_pulled(suite: config.Suite) -> list[tuple[str, int]]:
    """(cell, seed) of every planned run that was saved and is not in this checkout."""
    there = known(suite.name)
    saved = [run for run in manifest.planned_runs(suite) if run.digest in there.get((run.cell, run.seed), ())]
    return [(run.cell, run.seed) for run in saved if not layout.document_path(suite.name, run).is_file()]


def check_training(suite: str, plan: config.Plan, seeds: Sequence[int]) -> None:
    """UserError for `fp3o train` of runs that could be pulled instead."""
    root = layout.suite_root(suite) / "runs"
    absent = [seed for seed in seeds if not (layout.run_directory(root, plan, seed) / RUN).is_file()]
    missing = {(plan.cell.id, seed): plan for seed in absent}
    if away := not_here(suite, missing):
        numbers = config.seeds_text([seed for _, seed in away])
        raise UserError(
            f"seeds {numbers} of {plan.cell.id} are in DVC and not here: `{pull_command(suite, [plan.cell.id])}`, "
            "or `--retrain` to train them again"
        )


def _difference(suite: str, plan: config.Plan, seed: int, saved: Sequence[str]) -> str:
    """For messages: the digests of a cell as planned and as saved and, if the saved run can be read, what differs."""
    text = f"{plan.cell.id} is planned as {plan.digest}, saved as {', '.join(sorted(saved))}"
    runs, where = store.saved_runs(suite) or {}, store.setup()
    for digest in sorted(saved):
        md5 = runs.get(RunId(plan.cell.id, digest, seed).path)
        if md5 and (content := store.find(md5, where)) is not None:
            differences = [str(change) for change in config.changes(json.loads(content), plan.configuration())]
            text += f": {', '.join(differences)}"
    return text


def refusal(suite: str, missing: Missing, training: bool) -> str:
    """Why Snakemake should not start, "" if it may. `training`: whether the missing runs would be trained."""
    there = known(suite)
    pulled = not_here(suite, missing)
    changed = [run for run in missing if run in there and run not in pulled] if training else []
    lines = []
    if pulled:
        cells = list(dict.fromkeys(cell for cell, _ in pulled))
        otherwise = "train them again" if training else "do without them"
        lines.append(
            f"{len(pulled)} runs of suite {suite} are in DVC and not here: `{pull_command(suite, cells)}`, "
            f"or `--config retrain=True` to {otherwise}"
        )
    if changed:
        cells = list(dict.fromkeys(cell for cell, _ in changed))
        first = {cell: (cell, seed) for cell, seed in reversed(changed)}
        named = [_difference(suite, missing[first[cell]], first[cell][1], there[first[cell]]) for cell in cells[:SHOWN]]
        more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
        lines.append(
            f"{len(changed)} runs of {len(cells)} cells of suite {suite} exist with other settings "
            f"({'; '.join(named)}{more}): undo the change (`fp3o status` shows the cells), "
            "or `--config retrain=True` to train them with the new ones"
        )
    return "\n".join(lines)
