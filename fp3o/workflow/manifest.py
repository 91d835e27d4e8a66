"""What exists of a suite: the manifest of its runs, a summary of each cell, failed jobs. Imports no torch.

Commands, for Snakemake's rules:
    python -m fp3o.workflow.manifest manifest --suite paper     results/paper/manifest.json
    python -m fp3o.workflow.manifest metrics --suite paper      results/paper/metrics.json (for `dvc metrics diff`)
    python -m fp3o.workflow.manifest cell --suite paper CELL    results/paper/cells/CELL.json
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fp3o import config
from fp3o.errors import UserError, as_command, first_of
from fp3o.runs import layout, records, store
from fp3o.runs.atomic import write_atomically
from fp3o.runs.layout import RunId
from fp3o.runs.verify import read_verified
from fp3o.workflow import jobs
from fp3o.workflow.blocks import blocks_of

LOG_LINES = 20


def planned_runs(suite: config.Suite) -> list[RunId]:
    """Every run that a suite asks for."""
    return [RunId(plan.cell.id, plan.digest, seed) for plan, seeds in suite.runs() for seed in seeds]


def write_json(path: Path, value: object) -> None:
    """Write JSON with sorted keys and one value per line, so that a diff in git shows what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


# --- Manifest ------------------------------------------------------------------------------------------------------


def manifest_path(suite: str) -> Path:
    """The file that says which runs exist, here or in DVC; committed to git for the suites under DVC."""
    return layout.suite_root(suite) / "manifest.json"


def manifest(
    suite: config.Suite,
    without: Container[str] = (),
    known: Mapping[str, Mapping[str, Any]] | None = None,
    here: bool = True,
) -> dict[str, Any]:
    """The planned runs that exist, here or in DVC, by run id. Without times and hosts: equal runs give equal manifests.

    A run that was saved and not pulled keeps its entry: without it the guard would let it be trained again. So does a
    run whose folder is in `without`, which is here but damaged; any other damaged run is a UserError. known: entries to
    use instead of those in git. here: whether runs of this checkout count, not only saved ones.
    """
    runs: dict[str, Any] = {}
    saved = _saved(suite, known)
    for run in planned_runs(suite):
        path = layout.document_path(suite.name, run)
        if here and run.path not in without and path.is_file():
            runs[run.key] = saved.entry(run, read_verified(path.parent, run))
        elif (entry := saved.away(run)) is not None:
            runs[run.key] = entry
    return {"suite": suite.name, "runs": runs}


def entries(text: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """The runs of a manifest (its content and, for messages, its path), by run id."""
    try:
        runs = {str(name): dict(entry) for name, entry in json.loads(text)["runs"].items()} if text else {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if store.in_conflict(text):
            raise UserError(f"{path} {store.IN_CONFLICT}") from None
        raise UserError(f"{path} is damaged ({error!r}): `git checkout HEAD {path}` restores it") from None
    return runs


def listed_runs(suite: str) -> list[RunId]:
    """The runs that the manifest on disk names."""
    path = manifest_path(suite)
    listed = entries(path.read_bytes() if path.is_file() else b"", path)
    for name, entry in listed.items():
        if not set(RunId._fields) <= entry.keys():
            raise UserError(f"{path} is damaged (run {name}): `git checkout HEAD {path}` restores it")
    return [RunId.of(entry) for entry in listed.values()]


def disagreements(suite: config.Suite) -> list[str]:
    """What the manifest on disk says that the planned runs here, and the saved ones that dvc.lock names, do not."""
    path = manifest_path(suite.name)
    saved = store.saved_runs(suite.name) if Path(".dvc").is_dir() else {}
    if not path.is_file() or not saved:
        return []
    listed, where = entries(path.read_bytes(), path), store.setup()
    lacking, wrong = [], []
    for run in planned_runs(suite):
        here = layout.document_path(suite.name, run)
        contents = [here.read_bytes()] if here.is_file() else []
        if run.path in saved and (content := store.find(saved[run.path], where)) is not None:
            contents.append(content)
        if run.key not in listed:
            lacking += [run.path] * (run.path in saved)
        elif run.path not in saved and not contents:
            wrong.append(run.path)  # Nobody has it.
        elif contents and not any(_tells(listed[run.key], content) for content in contents):
            wrong.append(run.path)
    texts = {"lacks saved runs": lacking, "does not say what run.json says": wrong}
    remedy = "`fp3o save` writes it anew"
    return [f"{path} {text}: {first_of(runs)}; {remedy}" for text, runs in texts.items() if runs]


def _tells(entry: Mapping[str, Any], content: bytes) -> bool:
    """Whether an entry has the result that a run.json has."""
    try:
        document = json.loads(content)
        return all(entry.get(name) == document[name] for name in (*RunId._fields, "status", "score", "sha256"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


class _Saved(NamedTuple):
    """What is known of the saved runs of a suite."""

    where: store.Setup | None
    """None: the suite is not under DVC."""
    locked: store.Listing | None
    """None: the listing is in a remote only."""
    known: Mapping[str, Mapping[str, Any]]
    """The manifest in git, by run id; not the one on disk, which Snakemake deletes before it runs the rule."""

    def entry(self, run: RunId, document: Mapping[str, Any]) -> dict[str, Any]:
        """A run's entry, from its run.json."""
        return {
            **({"saved": "without checkpoint"} if self._without_checkpoint(run) else {}),
            **run._asdict(),
            "status": document["status"],
            "score": document["score"],
            "sha256": document["sha256"],
        }

    def _without_checkpoint(self, run: RunId) -> bool:
        if self.locked is None:
            return "saved" in self.known.get(run.key, {})
        return f"{run.path}/{records.RUN}" in self.locked and f"{run.path}/{records.CHECKPOINT}" not in self.locked

    def away(self, run: RunId) -> dict[str, Any] | None:
        """The entry of a saved run that is not in this checkout, None if it was not saved.

        From its run.json if DVC's cache or store has it, else from the manifest in git.
        """
        md5 = (self.locked or {}).get(f"{run.path}/{records.RUN}")
        content = store.find(md5, self.where) if md5 and self.where is not None else None
        if content is not None:
            return self.entry(run, json.loads(content))
        return dict(self.known[run.key]) if run.key in self.known else None


def _saved(suite: config.Suite, known: Mapping[str, Mapping[str, Any]] | None = None) -> _Saved:
    if suite.name not in store.TRACKED or not Path(".dvc").is_dir():
        return _Saved(None, {}, {})
    where = store.setup()
    if known is None:
        path = manifest_path(suite.name)
        known = entries(store.committed(path, "") or store.committed(path) or b"", path)
    locked = store.listing(store.listing_name(store.lock_text(), suite.name), where)
    return _Saved(where, locked, known)


# --- Cells and metrics ---------------------------------------------------------------------------------------------


def cell_summary(suite: config.Suite, cell_id: str) -> dict[str, Any]:
    """The cell's score, its plan and its seeds: planned, existing, diverged."""
    from fp3o.statistics.scores import Planned, collect, scoring_of  # SciPy: not wanted while the DAG is built.

    plan, seeds = suite.run(cell_id)
    cell_runs = collect(layout.suite_root(suite.name) / "runs", [Planned(cell_id, plan.digest, seeds)])[0]
    summary = cell_runs.summary()
    return {
        "cell": cell_id,
        "configuration": plan.configuration(),
        "digest": plan.digest,
        "deviations": [str(change) for change in plan.deviations],
        "seeds_planned": list(seeds),
        "seeds_found": [run.seed for run in cell_runs.runs],
        "seeds_diverged": [run.seed for run in cell_runs.runs if run.diverged],
        "score": scoring_of(cell_id).words,
        "per_seed": [_rounded(value) for value in cell_runs.scores()],
        "value": _rounded(summary.centre) if summary else None,
        "spread": _rounded(summary.spread) if summary else None,
    }


def _rounded(value: float | None) -> float | None:
    """Six significant digits, as in the CSV files; more might differ between machines. None for NaN and infinity."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def metrics(suite: config.Suite) -> dict[str, Any]:
    """Score and number of seeds of every cell that has one, nested by domain, task and sharing."""
    tree: dict[str, Any] = {}
    for plan, _ in suite.runs():
        summary = cell_summary(suite, plan.cell.id)
        if summary["value"] is not None:
            cell = plan.cell
            place = tree.setdefault(cell.domain, {}).setdefault(cell.task, {}).setdefault(cell.sharing, {})
            place[cell.label] = {"score": summary["value"], "seeds": len(summary["seeds_found"])}
    return tree


# --- Failures ------------------------------------------------------------------------------------------------------


def failures(suite: config.Suite) -> list[dict[str, Any]]:
    """Training jobs (seed blocks) that were started and have left at least one run unfinished."""
    failed = []
    for block in (block for plan, _ in suite.runs() for block in blocks_of(suite, plan.cell.id)):
        missing = [seed for seed in block.seeds if not block.document(seed).is_file()]
        log = block.last_log()
        lines = jobs.lines(log)
        if missing and lines:
            exits = [line.split()[-1] for line in lines if line.startswith("--- exit code ")]
            failed.append(
                {
                    "cell": block.plan.cell.id,
                    "digest": block.plan.digest,
                    "seeds": missing,
                    "attempts": jobs.attempts(log),
                    "exit_code": int(exits[-1]) if exits else None,
                    "log": str(log),
                    "last_lines": lines[-LOG_LINES:],
                    "resumable_from": block.resumable_from(),
                }
            )
    return failed


def report_failures(suite: config.Suite) -> list[str]:
    """Write results/<suite>/failures.json (remove it if there are none); one line per failure."""
    path = layout.suite_root(suite.name) / "failures.json"
    failed = failures(suite)
    if not failed:
        path.unlink(missing_ok=True)
        return []
    write_json(path, failed)
    return [
        f"{f['cell']} seeds {config.seeds_text(f['seeds'])}: unfinished after {f['attempts']} attempts, exit code "
        f"{f['exit_code']}, resumable from iteration {f['resumable_from']}; {f['log']}"
        for f in failed
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Command line, for the workflow's rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("manifest", "metrics", "cell"))
    parser.add_argument("cell", nargs="?", default="")
    parser.add_argument("--suite", default="paper")
    arguments = parser.parse_args(argv)
    suite = config.load_suite(arguments.suite)
    if arguments.what == "manifest":
        write_json(manifest_path(suite.name), manifest(suite))
    elif arguments.what == "metrics":
        write_json(layout.suite_root(suite.name) / "metrics.json", metrics(suite))
    else:
        # Its name has no digest, so that users can ask Snakemake for it.
        path = layout.suite_root(suite.name) / "cells" / f"{arguments.cell}.json"
        write_json(path, cell_summary(suite, arguments.cell))


if __name__ == "__main__":
    as_command(main)
