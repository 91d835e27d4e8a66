"""How long does a user wait for the first iteration? One JSON line per cell.

    python benchmarks/speed/start.py [CELL …] [--device cpu] [--path compiled]

Seconds from the start of a process until its first iteration is done, and evaluated where that is not done beside
training; five seeds with the paper's values. Cold, from a copy of the package that has compiled nothing yet; then again
by another process, which uses what the first has kept for the first time; then once more. Processes end right after
that iteration. For a machine that does nothing else.

Before that, another process imports the libraries, so that they are read from disk: its seconds are `imports`, and 2 or
3 where they had been read before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fp3o.config import Cell, resolve
from fp3o.errors import UserError
from fp3o.execution.compute import Compute

PACKAGE = Path(__file__).parents[2] / "fp3o"
CELLS = ("mamujoco/halfcheetah-6x1/full/fp3o", "smac/3s5z/full/fp3o")
STARTS = ("cold", "first_warm", "warm")
# Seconds, at most: on one H200 with 16 cores, and of a cell with GRUs on a CPU.
WITH_GPU, WITHOUT = {"cold": 45.0, "first_warm": 12.0, "warm": 12.0}, {"cold": 60.0}
IMPORTS = "import torch._inductor.compile_fx, fp3o.training.loop"
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "NUMBA_CACHE_DIR")


def begin(cell: str, compute: Compute, folder: Path) -> None:
    """Train until the first iteration is done, print how it was computed, and end at once."""
    from fp3o.execution.allocator import no_garbage_collection

    with no_garbage_collection():  # as `fp3o train` imports them
        import torch

        from fp3o.training.callbacks import Callback
        from fp3o.training.run import train
        from fp3o.training.run_stats import RunStats

    said: list[str] = []

    class Heard(Callback):
        def say(self, text: str) -> None:
            said.append(text)

    def end(stats: RunStats) -> None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        print(json.dumps({"torch": torch.__version__, "gpu": gpu, "path": said[0]}), flush=True)
        os._exit(0)

    setattr(RunStats, "count", end)  # noqa: B010 (mypy takes no other method for it); called after every iteration
    plan = resolve(Cell.parse(cell), {})
    train(plan, range(5), folder, folder / "scratch", compute, [Heard()])


def measure(cell: str, options: list[str]) -> dict[str, object]:
    """Seconds of every start, and how it was computed."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder, "fp3o"), ignore=shutil.ignore_patterns("__pycache__"))
        environment = {name: value for name, value in os.environ.items() if name not in CACHES}
        environment |= {
            "PYTHONPATH": os.pathsep.join((folder, os.environ.get("PYTHONPATH", ""))),
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(Path(folder, "cache")),  # Of programs: cold means that none is kept.
        }
        commands = {"imports": ["-c", IMPORTS]}
        commands |= {start: [__file__, cell, *options, "--begin", str(Path(folder, start))] for start in STARTS}
        for start, command in commands.items():
            begun = time.perf_counter()
            done = subprocess.run(
                [sys.executable, *command], env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            seconds[start] = round(time.perf_counter() - begun, 2)
        told = json.loads(done.stdout)
    targets = WITH_GPU if told["gpu"] else WITHOUT
    missed = [start for start, target in targets.items() if seconds[start] > target]
    return {"cell": cell, "seconds": seconds, **told, "targets": targets, "missed": missed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS, metavar="CELL")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--path", default="auto", choices=("auto", "eager", "compiled"))
    parser.add_argument("--begin", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    try:
        for cell in asked.cells:
            resolve(Cell.parse(cell), {})
    except UserError as error:
        parser.error(str(error))
    if asked.begin:
        begin(asked.cells[0], Compute(asked.device, asked.path, threads=0), asked.begin)
    for cell in asked.cells:
        machine = {
            "benchmark": "start",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
        }
        print(json.dumps(machine | measure(cell, ["--device", asked.device, "--path", asked.path])), flush=True)


if __name__ == "__main__":
    main()
