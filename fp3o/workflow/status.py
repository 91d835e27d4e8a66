"""The state of a suite: for every cell, which seeds are done, resumable, saved but not pulled, or not trained yet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from fp3o import config
from fp3o.errors import UserError, first_of
from fp3o.grouping import grouped
from fp3o.progress import track
from fp3o.runs import checkpoint_list, layout, store
from fp3o.runs.layout import RunId
from fp3o.runs.verify import copies, read_verified
from fp3o.workflow import guard, manifest
from fp3o.workflow.blocks import blocks_of

State: TypeAlias = Literal["done", "diverged", "damaged", "resumable", "in DVC", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "diverged", "damaged", "resumable", "in DVC", "failed", "missing")


class CellStatus(NamedTuple):
    """One cell of a suite."""

    cell: str
    digest: str
    seeds: dict[int, State]
    stale: tuple[str, ...]
    """Other digests of the cell that have runs on disk: their settings are not those the suite plans now."""
    hosts: dict[int, str]
    """By seed, the machine that trained the run that is here, as run.json describes it."""


def examine(suite: config.Suite) -> list[CellStatus]:
    """Every planned cell, in the suite's order. Reads run.json files only."""
    runs_root = layout.suite_root(suite.name) / "runs"
    waiting = set(guard.not_pulled(suite))
    ended = [entry for entry in manifest.failures(suite) if entry["exit_code"] is not None]  # not killed or running
    failed = {(entry["cell"], seed) for entry in ended for seed in entry["seeds"]}
    cells = []
    for plan, seeds in suite.runs():
        resumable = {
            seed
            for block in blocks_of(suite, plan.cell.id)
            if block.resumable_from() is not None
            for seed in block.seeds
        }
        states = {}
        hosts = {}
        for seed in seeds:
            key = (plan.cell.id, seed)
            document = _document(layout.run_directory(runs_root, plan, seed) / "run.json")
            states[seed] = _state(document, key in waiting, seed in resumable, key in failed)
            volatile = (document or {}).get("volatile")
            if isinstance(volatile, dict) and "host" in volatile:
                hosts[seed] = str(volatile["host"])
        folder = runs_root / plan.cell.id
        others = sorted({path.parents[1].name for path in folder.glob("*/*/*")})
        stale = tuple(name for name in others if name != plan.digest)
        cells.append(CellStatus(plan.cell.id, plan.digest, states, stale, hosts))
    return cells


def dropped(suite: config.Suite) -> list[str]:
    """Runs on disk of cells that the suite does not have (any more): one line, if there are any."""
    planned = {plan.cell.id for plan, _ in suite.runs()}
    root = layout.suite_root(suite.name) / "runs"
    found = Counter(run.cell for run in map(RunId.at, layout.finished_runs(root)) if run.cell not in planned)
    if not found:
        return []
    cells = first_of([f"{root / cell} ({count})" for cell, count in sorted(found.items())])
    return [f"{found.total()} runs are of cells that suite {suite.name} does not have, and stay: {cells}"]


def _document(path: Path) -> dict[str, Any] | None:
    """What a run.json says; None if there is none, nothing if it cannot be read."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _state(document: dict[str, Any] | None, waiting: bool, resumable: bool, failed: bool) -> State:
    if document is not None:
        end = document.get("status")
        return "damaged" if end is None else "diverged" if end == "diverged" else "done"
    return "in DVC" if waiting else "resumable" if resumable else "failed" if failed else "missing"


def damaged(suite: str) -> tuple[int, list[str]]:
    """Check every run on disk, planned now or not, against the checksums in its run.json.

    Returns how many there are, and for each that was altered or lost a file what is wrong and what to do.
    """
    folders = layout.finished_runs(layout.suite_root(suite) / "runs")
    problems = []
    documents = {}
    for folder in track(folders, "checking runs", "runs"):
        try:
            documents[str(folder)] = read_verified(folder, RunId.at(folder))
        except UserError as error:
            problems.append(str(error))
    return len(folders), [*problems, *dict.fromkeys(copies(documents).values())]


def not_stored(suite: str) -> list[str]:
    """Saved files that artifacts/ or DVC's remote lacks, and checkpoints that the remote for them lacks: one line each,
    if there are any."""
    if not guard.in_dvc(suite):
        raise UserError(f"suite {suite} has no saved runs; --remote asks for those")
    where = store.setup()
    files = store.locked_listing(where, suite)
    names = {*files.values(), store.listing_of(files)}
    if where.in_git:
        absent = {name for name in names if store.intact(store.object_path(store.STORE, name), name) is None}
    else:
        absent = store.Remote(where).lacks(names)
    paths = sorted(path for path, md5 in files.items() if md5 in absent) or sorted(absent)
    text = f"{where.place} lacks {len(absent)} of {len(names)} objects, e.g. {paths[0] if paths else ''}"
    lines = [text] if absent else []
    listed = {entry.md5: entry.file for entry in checkpoint_list.read(layout.suite_root(suite)).values()}
    if listed and (there := where.checkpoints) and (lost := store.Remote(there).lacks(listed)):
        lines.append(f"{there.place} lacks {len(lost)} of {len(listed)} checkpoints, e.g. {listed[min(lost)]}")
    return [f"{line}: `fp3o save` where these runs are puts them back" for line in lines]


def lines(cells: Iterable[CellStatus], everything: bool) -> list[str]:
    """A line per cell that is partly done (`everything`: per cell, with the machines that trained it), then sums."""
    total: Counter[str] = Counter()
    hosts: Counter[str] = Counter()
    text = []
    for cell in cells:
        by_state = grouped((state, seed) for seed, state in cell.seeds.items())
        total.update(cell.seeds.values())
        hosts.update(cell.hosts.values())
        if everything or set(by_state) - {"done", "missing"} or (len(by_state) > 1) or cell.stale:
            parts = [f"{state} {config.seeds_text(by_state[state])}" for state in STATES if state in by_state]
            parts += [f"stale {', '.join(cell.stale)}"] if cell.stale else []
            for host in sorted(set(cell.hosts.values())) if everything else ():
                seeds = config.seeds_text([seed for seed, its in cell.hosts.items() if its == host])
                parts.append(f"{seeds} trained on {host}")
            text.append(f"{cell.cell}\t{cell.digest}\t{'; '.join(parts)}")
    text.append(", ".join(f"{total[state]} {state}" for state in STATES if total[state]) or "nothing planned")
    return text + [f"{count} trained on {host}" for host, count in hosts.most_common()]
