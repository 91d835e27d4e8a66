"""`fp3o continue`: copies a finished run, as if it were a longer run that was interrupted; that is then resumed.

The budget decides only when training ends and that the last policy is evaluated. So the longer run equals one trained
in one go bit for bit, given the same execution and type of processor.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fp3o.config import Plan
from fp3o.errors import UserError
from fp3o.runs import checkpoint, records
from fp3o.runs.atomic import write_atomically
from fp3o.runs.extend import Plans
from fp3o.runs.folder import RunFolder
from fp3o.runs.layout import RunId
from fp3o.runs.verify import read_verified


def begin_longer(plans: Plans, state: Path, runs: Mapping[int, Path], folder: RunFolder) -> None:
    """Write the longer run's files in progress, from which it is resumed; does nothing if it has some already.

    state: file of the kept state; runs: for every seed in it, the folder of the finished run; folder: the longer run's,
    already entered as a context.
    """
    if not folder.seeds or folder.resume_path.exists():
        return
    if folder.seeds != folder.requested:
        done = sorted(set(folder.requested) - set(folder.seeds))
        raise UserError(
            f"of the longer run, seeds {', '.join(map(str, done))} are finished already, and the saved state goes on "
            f"with all seeds or none; train the others: fp3o train {plans.new.cell.id}"
        )
    tensors, metadata = checkpoint.load(state)
    old, new = plans
    checkpoint.require(metadata, {"cell": old.cell.id, "digest": old.digest, "seeds": list(folder.seeds)}, state)
    _check_diverged(metadata["diverged"], old)
    if stopped := metadata.get("stopped"):
        raise UserError(f"seeds {', '.join(stopped)} of {old.cell.id} {old.digest} were stopped early: cannot go on")
    offsets, checksums = {}, {}
    for seed in folder.seeds:
        read_verified(runs[seed], RunId(old.cell.id, old.digest, seed), (records.ITERATIONS, records.EVALUATIONS))
        contents = (
            records.read_bytes(runs[seed] / records.ITERATIONS),
            _planned(records.read_bytes(runs[seed] / records.EVALUATIONS), new),
        )
        for name, content in zip((records.ITERATIONS, records.EVALUATIONS), contents, strict=True):
            write_atomically(folder.scratch(seed) / name, content)
        offsets[str(seed)] = [len(content) for content in contents]
        checksums[str(seed)] = [hashlib.sha256(content).hexdigest() for content in contents]
    volatile = metadata["volatile"]
    volatile["notes"] = [*volatile["notes"], f"continued from {old.digest} after iteration {metadata['iteration']}"]
    changed = {"digest": new.digest, "offsets": offsets, "checksums": checksums, "volatile": volatile}
    checkpoint.save(folder.resume_path, tensors, metadata | changed)


def _check_diverged(diverged: Mapping[str, Any], old: Plan) -> None:
    """UserError if a seed diverged in the evaluation of its last policy: the longer run may have none at that point."""
    for seed, where in diverged.items():
        if where["quantity"] == "evaluation" and where["iteration"] == old.iterations - 1:
            raise UserError(f"seed {seed} of {old.cell.id} {old.digest} diverged in its last evaluation: cannot go on")


def _planned(evaluations: bytes, plan: Plan) -> bytes:
    """The content of evaluations.csv, without rows of iterations after which `plan` (the longer run's) has none."""
    lines = evaluations.splitlines(keepends=True)
    rows = csv.DictReader(io.StringIO(evaluations.decode()))
    kept = [line for line, row in zip(lines[1:], rows, strict=True) if plan.evaluates_after(int(row["iteration"]))]
    return b"".join([lines[0], *kept])
