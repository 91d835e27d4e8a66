"""How do time and memory grow with the number of finished runs? One JSON line per number of runs, then the exponents.

A suite of one's own with a grid over a setting, five seeds per cell unless told otherwise, in a temporary folder: one
run is trained, all others have its evaluations under other names, each with a log and a checkpoint of its own. Every
command then runs by itself in a fresh process: seconds of processor time, and the most memory (MiB) that it or one of
its children took.

The exponent k says that over the last step, to the largest number n of runs, time or memory grew like n to the power
k (the start of Python counts too). Exit code 1 if one of them is beyond LINEAR.

    python benchmarks/faults/growth.py                            # 1,000, 5,000 and 20,000 runs: an hour
    python benchmarks/faults/growth.py --runs 40000 --seeds 1000 --what table      # 40 cells
    python benchmarks/faults/growth.py --runs 100 1000 --what status verify
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from fp3o import config
from fp3o.runs import layout, records

ROOT = Path(__file__).resolve().parents[2]
ALGORITHMS = ("mappo", "ippo", "happo", "a2po", "fp3o")
TASKS, SHARINGS = ("climbing", "two-step"), ("full", "none")
CELLS_PER_VALUE = len(TASKS) * len(SHARINGS) * len(ALGORITHMS)
TINY = {"total_steps": 640, "rollout_length": 16, "rollout_threads": 4, "evaluation_interval": 1}
TINY |= {"evaluation_episodes": 2, "final_episodes": 2}  # as many: there is no final.csv
SUITE = "grid.yaml"
LINEAR = 1.1  # A little above 1: caches of the processor and the disk hold less of more.

_SNAKEMAKE = ("snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1", "--config", f"suite={SUITE}")
_FILES = ("--suite", SUITE, "--out")
COMMANDS: dict[str, tuple[str, ...]] = {
    "status": ("fp3o", "status", "--suite", SUITE),
    "verify": ("fp3o", "status", "--suite", SUITE, "--verify"),
    "dry run": (*_SNAKEMAKE, "--dry-run", "--quiet", "all"),
    "manifest": ("fp3o.workflow.manifest", "manifest", "--suite", SUITE),
    "table": ("fp3o.statistics.tables", *_FILES, "tables"),
    "scorecard": ("fp3o.statistics.scorecard", *_FILES, "scorecard.json"),
    "report": ("fp3o.report", *_FILES, "report/index.html"),
}


def write_suite(folder: Path, runs: int, seeds: int) -> config.Suite:
    """A grid with so many runs, so many seeds of each cell."""
    values = [round(0.05 + place / 1000, 3) for place in range(max(1, runs // (CELLS_PER_VALUE * seeds)))]
    group = {"domain": "matrix", "tasks": list(TASKS), "sharing": list(SHARINGS), "algorithms": list(ALGORITHMS)}
    suite = {
        "title": "A grid",
        "seeds": f"0-{seeds - 1}",
        "overrides": [{"cells": "matrix/*", "set": TINY}],
        "artefacts": {"table-grid": {"kind": "table", "cells": [{**group, "grid": {"clip": values}}]}},
    }
    (folder / SUITE).write_text(json.dumps(suite))  # JSON is YAML.
    os.chdir(folder)
    return config.load_suite(SUITE)


def fill(suite: config.Suite) -> int:
    """Train the first run, and make all others from it; how many there are."""
    first, seeds = suite.runs()[0]
    arguments = ("train", first.cell.id, "--suite", SUITE, "--seeds", str(seeds[0]), "--device", "cpu")
    subprocess.run([sys.executable, "-m", "fp3o", *arguments], check=True, capture_output=True, env=environment())
    runs = layout.suite_root(suite.name) / "runs"
    trained = layout.run_directory(runs, first, seeds[0])
    document = records.read_run(trained / records.RUN)
    log = (trained / records.ITERATIONS).read_text().rstrip("\n")
    count = 0
    for plan, wanted in suite.runs():
        for seed in wanted:
            folder = layout.run_directory(runs, plan, seed)
            count += 1
            if folder == trained:
                continue
            folder.mkdir(parents=True)
            shutil.copyfile(trained / records.EVALUATIONS, folder / records.EVALUATIONS)
            (folder / records.ITERATIONS).write_text(f"{log}{count}\n")  # more digits of the last number
            (folder / records.CHECKPOINT).write_bytes(f"weights {count}".encode())
            records.write_run(folder / records.RUN, described(document, plan, seed, folder))
    return count


def described(document: dict[str, Any], plan: config.Plan, seed: int, folder: Path) -> dict[str, Any]:
    """run.json of a run that nobody trained."""
    found = copy.deepcopy(document)
    configuration = plan.configuration()
    found |= {"cell": plan.cell.id, "digest": plan.digest, "seed": seed, "protocol": plan.protocol}
    found |= {"settings": configuration["settings"], "options": configuration["options"], "revision": plan.revision}
    found["deviations"] = [str(change) for change in plan.deviations]
    found["sha256"] = {name: records.sha256_of(folder / name) for name in document["sha256"]}
    found["volatile"]["stacked_seeds"] = [seed]
    return found


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"}


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Processor seconds and MiB of a command."""
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=output, stderr=output, env=environment(), start_new_session=True
        )
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {started.returncode}: {output.read()[-2000:].decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def exponents(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By command, how seconds and MiB grew from the last measurement but one to the last."""
    first, last = found[-2], found[-1]
    more = math.log(last["runs"] / first["runs"])
    return {
        name: {unit: round(math.log(last[name][unit] / first[name][unit]) / more, 2) for unit in ("seconds", "mib")}
        for name in first
        if name != "runs"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 5000, 20_000])
    parser.add_argument("--seeds", type=int, default=5, help="of each cell")
    parser.add_argument("--what", nargs="+", choices=tuple(COMMANDS), default=list(COMMANDS))
    chosen = parser.parse_args()
    found = []
    for runs in sorted(chosen.runs):
        with tempfile.TemporaryDirectory(prefix="fp3o-growth-") as name:
            entry: dict[str, Any] = {"runs": fill(write_suite(Path(name), runs, chosen.seeds))}
            for what in chosen.what:
                seconds, mib = measured(COMMANDS[what])
                entry[what] = {"seconds": round(seconds, 1), "mib": round(mib)}
            os.chdir(ROOT)
        print(json.dumps(entry), flush=True)
        found.append(entry)
    grown = exponents(found) if len(found) > 1 else {}
    held = all(exponent <= LINEAR for entry in grown.values() for exponent in entry.values())
    print(json.dumps({"benchmark": "growth", "exponents": grown, "held": held}))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
