"""Measures what one iteration of a cell costs: one seed alone on an idle machine, without its first iterations.

    python -m fp3o.workflow.cost measure CELL --suite S     results/S/cost/CELL/<digest>.json
    python -m fp3o.workflow.cost table --suite S            results/S/cost.csv, from the measurements that exist

Short runs of `warmup + iterations` iterations, every one timed; the first hold start-up and compiling. The runs of a
sweep would not do, as they train five seeds at once beside other jobs. Processes with the same work may differ by half:
where `benchmarks/speed/cost.py` has timed the suite's cells in turn in one process (`results/S/cost/interleaved.json`),
the table takes its seconds, and only memory from the runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.errors import UserError, as_command
from fp3o.runs import layout, records
from fp3o.runs.atomic import write_atomically
from fp3o.runs.interrupt import Interrupt
from fp3o.workflow.blocks import check_digest
from fp3o.workflow.manifest import write_json

PHASES = ("rollout_s", "update_s", "evaluation_s")


def measurement_path(suite: str, plan: config.Plan) -> Path:
    """The file of a cell's measurement."""
    return layout.suite_root(suite) / "cost" / plan.cell.id / f"{plan.digest}.json"


def interleaved_path(suite: str) -> Path:
    """Where `benchmarks/speed/cost.py` writes."""
    return layout.suite_root(suite) / "cost" / "interleaved.json"


def settings_of(suite: config.Suite) -> dict[str, Any]:
    """How the suite wants cost to be measured."""
    settings: dict[str, Any] | None = suite.raw.get("cost")
    if settings is None:
        raise UserError(f"suite {suite.name} says nothing about cost; allowed: cost: {{iterations: …, warmup: …}}")
    return settings


def measure(suite: config.Suite, cell: config.Cell) -> dict[str, Any]:
    """Train a short run; what it cost, and where it was measured."""
    settings = settings_of(suite)
    warmup, iterations = settings["warmup"], settings["iterations"]
    document, seconds = _train(suite, cell, warmup + iterations, settings["path"])
    return {
        "cell": cell.id,
        "iterations": iterations,
        **{name: seconds[name][warmup:] for name in PHASES},
        **{name: document["volatile"].get(name) for name in ("peak_gpu_mib", "process_gpu_mib", "memory_mib")},
        "device": document["path"]["device"],
        "host": document["volatile"]["host"],
        "torch": document["path"]["torch"],
        "git": document["git"],
    }


def _train(
    suite: config.Suite, cell: config.Cell, iterations: int, path: str
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """run.json of a new run with this many iterations, and the seconds of each; path: as for `fp3o train --path`."""
    plan = config.resolve(cell, suite=suite)
    steps = iterations * plan.settings.rollout_length * plan.settings.rollout_threads
    values: dict[str, config.Scalar] = {}
    for layer in suite.overrides_of(cell):
        values.update(layer)
    values["total_steps"] = steps
    out = layout.suite_root(suite.name) / "measuring"
    short = config.resolve(cell, values)
    folder = layout.run_directory(out, short, 0)
    shutil.rmtree(folder.parent, ignore_errors=True)  # A finished run would not be trained again.
    out.mkdir(parents=True, exist_ok=True)
    timings = out / "timings.csv"
    command = ["fp3o", "train", cell.id, "--seeds", "0", "--out", str(out), "--path", path, "--threads", "1"]
    command += ["--timings", str(timings)]
    for plugin in suite.imports:
        command += ["--import", str(plugin)]
    for key, value in values.items():
        command += ["--set", f"{key}={value}"]
    with Interrupt("stopped"):  # By whatever signal: the run ends with us.
        subprocess.run(command, check=True)
    from fp3o.statistics.suites import read_csv  # SciPy takes a second, see `table`

    rows = read_csv(timings)
    return records.read_run(folder / records.RUN), {name: [float(row[name]) for row in rows] for name in PHASES}


def table(suite: config.Suite) -> str:
    """cost.csv: the measurements that exist, in the suite's order."""
    # Here, because reading the workflow imports this module, and SciPy takes a second.
    from fp3o.statistics.cost import COLUMNS, MEMORY, SECONDS, YES_NO, cells_of
    from fp3o.statistics.suites import csv_text

    path = interleaved_path(suite.name)
    together = json.loads(path.read_text()) if path.is_file() else {"cells": {}}
    rows = []
    for cell in cells_of(suite):
        plan = config.resolve(config.Cell.parse(cell), suite=suite)
        path = measurement_path(suite.name, plan)
        if path.is_file():
            alone = json.loads(path.read_text())
            timed = together["cells"].get(cell, {})
            in_turn = timed.get("digest") == plan.digest
            seconds = [" ".join(f"{number:.6g}" for number in (timed if in_turn else alone)[name]) for name in SECONDS]
            evaluation = sum(alone["evaluation_s"]) / len(alone["evaluation_s"])
            host = (together if in_turn else alone)["host"]
            memory = [alone[name] for name in MEMORY]
            rows.append((cell, YES_NO[in_turn], *seconds, f"{evaluation:.6g}", *memory, host))
    return csv_text(COLUMNS, rows)


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
    as_command(main)
