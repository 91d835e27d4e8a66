"""Measures what one iteration of a cell costs: one seed alone on an idle machine, the warm-up subtracted.

    python -m fp3o.workflow.cost measure CELL --suite S     results/S/cost/CELL/<digest>.json
    python -m fp3o.workflow.cost table --suite S            results/S/cost.csv, from the measurements that exist

The difference of two short runs, of `warmup` and of `warmup + iterations` iterations: start-up and compiling are in
both. The runs of a sweep would not do, as they train five seeds at once beside other jobs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, records
from fp3o.runs.atomic import write_atomically
from fp3o.workflow.blocks import check_digest
from fp3o.workflow.manifest import write_json

PHASES = ("rollout", "update", "evaluation")
COLUMNS = ("cell", "iterations", *(f"{p}_s" for p in PHASES), "peak_gpu_mib", "memory_mib", "device")


def measurement_path(suite: str, plan: config.Plan) -> Path:
    """The file of a cell's measurement."""
    return layout.suite_root(suite) / "cost" / plan.cell.id / f"{plan.digest}.json"


def measure(suite: config.Suite, cell: config.Cell) -> dict[str, Any]:
    """Train the two runs and subtract; a row of cost.csv."""
    settings = suite.raw.get("cost")
    if settings is None:
        raise UserError(f"suite {suite.name} says nothing about cost; allowed: cost: {{iterations: …, warmup: …}}")
    warmup, iterations = settings["warmup"], settings["iterations"]
    longer = _train(suite, cell, warmup + iterations, settings["path"])
    shorter = _train(suite, cell, warmup, settings["path"])["volatile"] if warmup else None
    spent = longer["volatile"]
    # Timings vary: a difference below zero means a cost too small to be measured.
    seconds = {
        phase: max(0.0, spent["seconds"][phase] - (shorter["seconds"][phase] if shorter else 0.0)) for phase in PHASES
    }
    return {
        "cell": cell.id,
        "iterations": iterations,
        **{f"{phase}_s": round(seconds[phase], 6) for phase in PHASES},
        "peak_gpu_mib": spent["peak_gpu_mib"],
        "memory_mib": spent["memory_mib"],
        "device": longer["path"]["device"],
    }


def _train(suite: config.Suite, cell: config.Cell, iterations: int, path: str) -> dict[str, Any]:
    """run.json of a new run with this many iterations; path: as for `fp3o train --path`."""
    plan = config.resolve(cell, suite=suite)
    steps = iterations * plan.settings.rollout_length * plan.settings.rollout_threads
    values: dict[str, config.Scalar] = {}
    for layer in suite.overrides_of(cell):
        values.update(layer)
    values["total_steps"] = steps
    out = layout.suite_root(suite.name) / "measuring" / f"{iterations}"
    short = config.resolve(cell, values)
    folder = layout.run_directory(out, short, 0)
    shutil.rmtree(folder.parent, ignore_errors=True)  # A finished run would not be trained again.
    command = ["fp3o", "train", cell.id, "--seeds", "0", "--out", str(out), "--path", path, "--threads", "1"]
    for key, value in values.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)
    return records.read_run(folder / records.RUN)


def table(suite: config.Suite) -> str:
    """cost.csv: the measurements that exist, in the suite's order."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for artefact in suite.artefacts:
        for cell in artefact.cells if artefact.kind == "cost" else ():
            path = measurement_path(suite.name, config.resolve(cell, suite=suite))
            if path.is_file():
                measured = json.loads(path.read_text())
                writer.writerow(["" if measured[name] is None else measured[name] for name in COLUMNS])
    return buffer.getvalue()


def main(argv: Sequence[str] | None = None) -> None:
    """Command line, for the workflow's rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument("cell", nargs="?", default="")
    parser.add_argument("--suite", default="paper")
    parser.add_argument("--digest", default="", help="what the settings must resolve to")
    arguments = parser.parse_args(argv)
    suite = config.load_suite(arguments.suite)
    if arguments.what == "measure":
        cell = config.Cell.parse(arguments.cell)
        plan = config.resolve(cell, suite=suite)
        check_digest(plan, arguments.digest)
        write_json(measurement_path(suite.name, plan), measure(suite, cell))
    else:
        write_atomically(layout.suite_root(suite.name) / "cost.csv", table(suite).encode())


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
