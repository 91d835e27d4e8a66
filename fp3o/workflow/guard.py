"""The guard of finished runs: what exists elsewhere is pulled, not trained again by accident.

Concerns the suite under DVC alone (dvc.yaml): runs of other suites are nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.runs.records import RUN
from fp3o.workflow import manifest, objects

Missing = Mapping[tuple[str, int], config.Plan]
"""(cell, seed) → plan of runs that are not here."""

SHOWN = 3


def in_dvc(suite: str) -> bool:
    """Whether the suite's runs can be pulled: it is the tracked one, and something was saved."""
    home = config.checkout()
    return suite == objects.TRACKED and home is not None and (home / "dvc.lock").is_file()


def known(suite: str) -> dict[tuple[str, int], set[str]]:
    """Digests of the runs in the manifest, by (cell, seed)."""
    path = manifest.manifest_path(suite)
    if not in_dvc(suite) or not path.is_file():
        return {}
    found: dict[tuple[str, int], set[str]] = {}
    for name, entry in manifest.entries(path.read_bytes(), path).items():
        if not {"cell", "seed", "digest"} <= entry.keys():
            raise UserError(f"{path} is damaged (run {name}): `git checkout HEAD {path}` restores it")
        found.setdefault((entry["cell"], entry["seed"]), set()).add(entry["digest"])
    return found


def pull_command(cells: Sequence[str]) -> str:
    """How to get these cells' runs; all runs where they are many."""
    return " ".join(["fp3o pull", *(cells if len(cells) <= SHOWN else ())])


def not_here(suite: str, missing: Missing) -> list[tuple[str, int]]:
    """Those of the missing runs that the manifest has with the same settings."""
    there = known(suite)
    return [run for run, plan in missing.items() if plan.digest in there.get(run, ())]


def not_pulled(suite: config.Suite) -> list[tuple[str, int]]:
    """(cell, seed) of every planned run that the manifest has and this checkout has not."""
    absent = [run for run in manifest.planned_runs(suite) if not run.document(suite.name).is_file()]
    return not_here(suite.name, {(run.plan.cell.id, run.seed): run.plan for run in absent})


def check_training(suite: str, plan: config.Plan, seeds: Sequence[int]) -> None:
    """Refuse `fp3o train` where hours of training would give what a pull gives."""
    root = layout.suite_root(suite) / "runs"
    absent = [seed for seed in seeds if not (layout.run_directory(root, plan, seed) / RUN).is_file()]
    missing = {(plan.cell.id, seed): plan for seed in absent}
    if found := not_here(suite, missing):
        numbers = config.seeds_text([seed for _, seed in found])
        raise UserError(
            f"seeds {numbers} of {plan.cell.id} are in DVC and not here: `{pull_command([plan.cell.id])}`, "
            "or `--retrain` to train them again"
        )


def _difference(plan: config.Plan, seed: int, saved: set[str]) -> str:
    """Digests of a cell as planned and as saved, and where the saved run can be read, the fields that differ."""
    text = f"{plan.cell.id} is planned as {plan.digest}, saved as {', '.join(sorted(saved))}"
    for digest in sorted(saved):
        document = objects.saved_document(f"{plan.cell.id}/{digest}/seed-{seed}", objects.setup())
        if document is not None:
            found = [str(change) for change in config.changes(document, plan.configuration())]
            text += f": {', '.join(found)}"
    return text


def refusal(suite: str, missing: Missing, training: bool) -> str:
    """Why the workflow should not go on, or "". `training`: the missing runs would be trained."""
    there = known(suite)
    pulled = not_here(suite, missing)
    changed = [run for run in missing if run in there and run not in pulled] if training else []
    lines = []
    if pulled:
        cells = list(dict.fromkeys(cell for cell, _ in pulled))
        otherwise = "train them again" if training else "do without them"
        lines.append(
            f"{len(pulled)} runs of suite {suite} are in DVC and not here: `{pull_command(cells)}`, "
            f"or `--config retrain=True` to {otherwise}"
        )
    if changed:
        cells = list(dict.fromkeys(cell for cell, _ in changed))
        first = {cell: (cell, seed) for cell, seed in reversed(changed)}
        named = [_difference(missing[first[cell]], first[cell][1], there[first[cell]]) for cell in cells[:SHOWN]]
        more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
        lines.append(
            f"{len(changed)} runs of {len(cells)} cells of suite {suite} exist with other settings "
            f"({'; '.join(named)}{more}): undo the change (`fp3o status` shows the cells), "
            "or `--config retrain=True` to train them with the new ones"
        )
    return "\n".join(lines)
