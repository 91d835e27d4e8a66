"""Does a run that another commit began go on to the same bytes? Both ways, on every domain; one JSON line.

Upgrade: the other commit's code begins a run and is stopped, this checkout's resumes it. Downgrade: the other way
round. All files must equal those of a run that was never stopped (of run.json what repeats, without its commit);
"differing" counts runs for which that is not so, "refused" those that did not go on. Exit code 1 unless both are 0.

    python benchmarks/faults/commits.py 8efff2a6
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from kills import ROOT, run_files  # type: ignore[import-not-found]  # beside this file

BASE = {"rollout_threads": 4, "evaluation_interval": 2, "evaluation_episodes": 2}
CELLS = {
    "matrix/two-step/partial/fp3o": {"rollout_length": 16, "total_steps": 640, "final_episodes": 5},
    "mpe/simple-reference/none/happo": {"rollout_length": 25, "total_steps": 500, "final_episodes": 5},
    "smac/3m/full/fp3o": {"rollout_length": 40, "total_steps": 800},
    "mamujoco/hopper-3x1/full/mappo": {"rollout_length": 50, "total_steps": 1000, "minibatches": 4},
}
# Runs with either commit's code; so it uses the public interface alone.
TRAIN = """
import json, sys
import fp3o

class Stop(fp3o.Callback):
    may_stop = True

    def iteration(self, seed, record):
        return record["iteration"] >= 2

cell, out, settings, stops = json.loads(sys.argv[1])
kinds = dict(seeds=range(2), settings=settings, device="cpu", path="eager", threads=1, quiet=True)
runs = fp3o.train(cell, out=out, callbacks=[Stop()] if stops else [], **kinds)
sys.exit(0 if len(runs) == (0 if stops else 2) else f"{len(runs)} runs")
"""


def train(code: Path, cell: str, out: Path, stops: bool = False) -> bool:
    """Train two seeds with a checkout's code, from where they are; whether that went as it should."""
    environment = os.environ | {"PYTHONPATH": str(code)}
    asked = json.dumps([cell, str(out), BASE | CELLS[cell], stops])
    command = [sys.executable, "-P", "-c", TRAIN, asked]
    done = subprocess.run(command, env=environment, cwd=out.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{cell} with {code}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return done.returncode == 0


def repeated(folder: Path) -> dict[Path, Any]:
    """What a run must repeat, whatever commit wrote it: not how many threads there were."""
    found = run_files(folder)
    for files in found.values():
        files["run.json"]["path"].pop("threads", None)
    return found


def measure(first: Path, second: Path, folder: Path) -> dict[str, int]:
    """Begin with one checkout's code and go on with the other's."""
    refused = differing = 0
    for number, cell in enumerate(CELLS):
        whole, broken = (folder / f"{kind}-{number}" for kind in ("whole", "broken"))
        if not train(first, cell, whole) or not train(first, cell, broken, stops=True):
            raise SystemExit(f"{cell} cannot be trained with {first}")
        if not train(second, cell, broken):
            refused += 1
            continue
        wanted, found = repeated(whole), repeated(broken)
        differing += sum(found.get(run) != files for run, files in wanted.items())
        shutil.rmtree(whole)
        shutil.rmtree(broken)
    return {"cells": len(CELLS), "runs": 2 * len(CELLS), "refused": refused, "differing": differing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the other commit, of the same protocol")
    chosen = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fp3o-faults-") as name:
        other, archive = Path(name) / "other", Path(name) / "tree.tar"
        left_out = [f":!{name}" for name in ("artifacts", "results", "tests", "docs")]
        subprocess.run(
            ["git", "archive", "--output", str(archive), chosen.commit, ".", *left_out], cwd=ROOT, check=True
        )
        shutil.unpack_archive(archive, other, filter="data")
        found = {}
        for way, first, second in (("upgrade", other, ROOT), ("downgrade", ROOT, other)):
            folder = Path(name) / way
            folder.mkdir()
            found[way] = measure(first, second, folder)
    held = all(entry["refused"] == entry["differing"] == 0 for entry in found.values())
    seconds = round(time.monotonic() - begun, 1)
    print(json.dumps({"benchmark": "commits", "other": chosen.commit, **found, "seconds": seconds, "held": held}))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
