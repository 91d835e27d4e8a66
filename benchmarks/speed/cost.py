"""What does an iteration cost, algorithm by algorithm? Seconds of rollout and update of a suite's cost table, as JSON.

    python benchmarks/speed/cost.py --suite paper --cells 'mamujoco/*' --minutes 4    # HalfCheetah, on a GPU host
    python benchmarks/speed/cost.py --suite smac-revision-2 --minutes 5               # bane_vs_bane

One seed of every cell (all algorithms, all sharings) trains in this one process, iteration by iteration in turn: a
round goes once through all cells, in an order drawn anew. So clocks, caches and neighbours disturb all alike, and times
are compared round by round. Rounds of warm-up (compiling, capturing) are left out; the GPU is synchronised before every
reading of the clock. Rounds go on until the minutes are over, `--rounds` at least; the file is complete after each.
Then `snakemake available` makes the tables anew: results/SUITE/cost/interleaved.json is where they look.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from fp3o import machine
from fp3o.config import Cell, Suite, load_suite, resolve
from fp3o.errors import as_command
from fp3o.execution.allocator import no_garbage_collection, reuse_freed_memory
from fp3o.execution.choice import choose
from fp3o.execution.compute import Compute
from fp3o.learner.randomness import Draws
from fp3o.statistics.cost import cells_of
from fp3o.training.block import Block
from fp3o.workflow.cost import interleaved_path, settings_of
from fp3o.workflow.manifest import write_json

SEED = 0
WARMUP = 3  # iterations of every cell; the first compile


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def iterate(block: Block) -> tuple[float, float]:
    """One iteration, as the training loop makes it; seconds of rollout and update."""
    begun = now()
    with block.background.paused():
        collected = block.collector.collect(block.seeds, block.iteration)
    between = now()
    numbers = block.learner.update(collected.rollout, Draws(block.seeds, block.iteration, block.learner.device))
    for values in numbers.values():
        values.tolist()
    block.iteration += 1
    return between - begun, now() - between


def measure(suite: Suite, pattern: str, rounds: int, minutes: float) -> dict[str, Any]:
    """Write the file after every round; returns what it holds."""
    ends = time.monotonic() + 60 * minutes
    compute = Compute(path=settings_of(suite)["path"])
    names = [cell for cell in cells_of(suite) if fnmatchcase(cell, pattern)]
    plans = {name: resolve(Cell.parse(name), suite=suite) for name in names}
    cells: dict[str, dict[str, Any]] = {
        name: {"digest": plan.digest, "rollout_s": [], "update_s": []} for name, plan in plans.items()
    }
    found = {"host": machine.host(), "torch": torch.__version__, "warmup": WARMUP, "cells": cells}
    order, source = list(plans), random.Random(SEED)
    with ExitStack() as stack:
        blocks = {}
        for name, plan in plans.items():
            with no_garbage_collection():
                blocks[name] = Block(plan, [SEED], choose(plan, compute), in_step=True)
                stack.callback(blocks[name].close)
                blocks[name].begin(None)
            for _ in range(WARMUP):
                iterate(blocks[name])
            print(f"ready: {name}", file=sys.stderr, flush=True)
        while rounds > 0 or time.monotonic() < ends:
            source.shuffle(order)
            for name in order:
                for part, seconds in zip(("rollout_s", "update_s"), iterate(blocks[name]), strict=True):
                    cells[name][part].append(float(f"{seconds:.6g}"))
            rounds -= 1
            write_json(interleaved_path(suite.name), found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="paper")
    parser.add_argument("--cells", default="*", help="pattern over the cells of its cost table")
    parser.add_argument("--rounds", type=int, default=10, help="at least")
    parser.add_argument("--minutes", type=float, default=0.0, help="warm-up included")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds: an interval needs two")
    torch.set_num_threads(1)
    reuse_freed_memory()
    found = measure(load_suite(arguments.suite), arguments.cells, arguments.rounds, arguments.minutes)
    rounds = {len(times["update_s"]) for times in found["cells"].values()}
    print(f"{len(found['cells'])} cells, {max(rounds, default=0)} rounds on {found['host']}")


if __name__ == "__main__":
    as_command(main)
