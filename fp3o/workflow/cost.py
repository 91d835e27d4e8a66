"""Measures what one iteration of a cell costs: one seed alone on an idle machine, without its first iterations.

    python -m fp3o.workflow.cost measure CELL --suite S     results/S/cost/CELL/<digest>.json
    python -m fp3o.workflow.cost table --suite S            results/S/cost.csv, from the measurements that exist

Short runs of `warmup + iterations` iterations, every one timed; the first hold start-up and compiling. The runs of a
sweep would not do, as they train five seeds at once beside other jobs. With several `processes` each of them is
followed by one of the row's MAPPO: both then see the same machine, and intervals are over processes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fp3o import config
from fp3o.errors import UserError, as_command
from fp3o.runs import layout, records
from fp3o.runs.atomic import write_atomically
from fp3o.workflow.blocks import check_digest
from fp3o.workflow.manifest import write_json

PHASES = ("rollout_s", "update_s", "evaluation_s")


def measurement_path(suite: str, plan: config.Plan) -> Path:
    """The file of a cell's measurement."""
    return layout.suite_root(suite) / "cost" / plan.cell.id / f"{plan.digest}.json"


def measure(suite: config.Suite, cell: config.Cell) -> dict[str, Any]:
    """Train a short run; what it cost, and where it was measured."""
    settings = suite.raw.get("cost")
    if settings is None:
        raise UserError(f"suite {suite.name} says nothing about cost; allowed: cost: {{iterations: …, warmup: …}}")
    warmup, iterations = settings["warmup"], settings["iterations"]
    reference = config.Cell.parse(f"{cell.row}/mappo")
    processes, beside = [], []
    count = settings.get("processes", 3 if settings["path"] == "compiled" else 1)
    for _ in range(count):
        document, seconds = _train(suite, cell, warmup + iterations, settings["path"])
        processes.append({name: seconds[name][warmup:] for name in PHASES})
        if count > 1 and cell != reference:
            _, seconds = _train(suite, reference, warmup + iterations, settings["path"])
            beside.append({name: seconds[name][warmup:] for name in PHASES})
    return {
        "cell": cell.id,
        "iterations": iterations,
        **processes[0],
        **({"processes": processes, "mappo": beside} if len(processes) > 1 else {}),
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
    subprocess.run(command, check=True)
    from fp3o.statistics.suites import read_csv  # SciPy takes a second, see `table`

    rows = read_csv(timings)
    return records.read_run(folder / records.RUN), {name: [float(row[name]) for row in rows] for name in PHASES}


def table(suite: config.Suite) -> str:
    """cost.csv: the measurements that exist, in the suite's order."""
    # Here, because reading the workflow imports this module, and SciPy takes a second.
    import numpy as np

    from fp3o.statistics.cost import COLUMNS, MEMORY, TIMES, cells_of
    from fp3o.statistics.suites import csv_text

    rows = []
    for cell in cells_of(suite):
        path = measurement_path(suite.name, config.resolve(config.Cell.parse(cell), suite=suite))
        if path.is_file():
            measured = json.loads(path.read_text())
            processes, beside = measured.get("processes", [measured]), measured.get("mappo", [])
            evaluation = float(np.mean([process["evaluation_s"] for process in processes]))
            rows.append(
                (
                    *(cell, measured["iterations"], len(processes), *_times(processes), f"{evaluation:.6g}"),
                    *(measured[name] for name in MEMORY),
                    *(measured["host"], *(_times(beside) if beside else [""] * len(TIMES))),
                )
            )
    return csv_text(COLUMNS, rows)


def _times(processes: Sequence[Mapping[str, Sequence[float]]]) -> list[str]:
    """Seconds of rollout and update with their intervals: over processes, or over the iterations of the only one."""
    import numpy as np

    from fp3o.statistics.intervals import mean_interval

    texts = []
    for name in ("rollout_s", "update_s"):
        means = [float(np.mean(process[name])) for process in processes]
        values = means if len(processes) > 1 else list(processes[0][name])
        texts += [f"{number:.6g}" for number in (np.mean(values), *mean_interval(values)[:2])]
    return texts


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
