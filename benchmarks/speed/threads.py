"""What do more cores give a cell with GRUs, without a GPU? One JSON line per cell and number of cores.

    python benchmarks/speed/threads.py --cores 1 2 8 16

Five seeds with the paper's values, on the CPU, eager, on as many threads as there are cores: seconds by the clock of
one rollout and one update, and the minutes a whole cell takes at that rate, evaluations left out. Each line is a
process of its own that may use only so many cores (Linux); its first iteration is left out. For a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")  # as `import fp3o` sets it, if before torch

import torch
from cost import iterate  # type: ignore[import-not-found]  # beside this file

from fp3o.config import Cell, resolve
from fp3o.execution.allocator import reuse_freed_memory
from fp3o.execution.choice import choose
from fp3o.execution.compute import Compute
from fp3o.training.block import Block

CELLS = ("mpe/simple-reference/full/mappo", "smac/3m/full/mappo")
SEEDS = [0, 1, 2, 3, 4]


def measure(cell: str, cores: int, iterations: int) -> dict[str, Any]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(1)
    reuse_freed_memory()
    plan = resolve(Cell.parse(cell))
    block = Block(plan, SEEDS, choose(plan, Compute("cpu", "eager", cores)), in_step=False)
    block.begin(None)
    times = [iterate(block) for _ in range(1 + iterations)][1:]
    block.close()
    rollout, update = (min(part) for part in zip(*times, strict=True))
    whole = plan.iterations * (rollout + update) / 60
    found: dict[str, Any] = {"benchmark": "threads", "cell": cell, "cores": cores, "seeds": len(SEEDS)}
    found |= {"rollout_s": round(rollout, 3), "update_s": round(update, 3), "cell_min": round(whole, 1)}
    return found | {"machine": platform.machine(), "torch": torch.__version__}


def table(lines: Iterable[str]) -> str:
    """The Markdown table of docs/speed.md, from lines that were printed (docs/evidence/threads.jsonl)."""
    head = ["five seeds", "cores", "rollout", "update", "whole cell"]
    rows = [json.loads(line) for line in lines]
    body = [
        [
            f"{row['cell'].split('/')[1]}, {row['machine']}",
            str(row["cores"]),
            f"{row['rollout_s']:.2f} s",
            f"{row['update_s']:.2f} s",
            f"{row['cell_min']:.0f} min",
        ]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--iterations", type=int, default=2)
    chosen = parser.parse_args()
    for cell in chosen.cells:
        for cores in chosen.cores:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(json.dumps(pool.apply(measure, (cell, cores, chosen.iterations))), flush=True)


if __name__ == "__main__":
    main()
