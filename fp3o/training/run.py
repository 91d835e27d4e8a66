"""Training a plan's seeds: what the command line and the Python API call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from fp3o.config import Plan
from fp3o.execution.allocator import no_garbage_collection, reuse_freed_memory
from fp3o.execution.choice import choose
from fp3o.execution.compute import AUTO, Compute
from fp3o.execution.program_cache import PROGRESS
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import Interrupt
from fp3o.training import loop
from fp3o.training.block import Block
from fp3o.training.callbacks import Callback, Callbacks
from fp3o.training.callbacks.records import Records
from fp3o.training.run_files import RunFiles
from fp3o.training.starting import start


def train(
    plan: Plan,
    seeds: Sequence[int],
    runs_root: Path,
    scratch_root: Path,
    compute: Compute = AUTO,
    callbacks: Sequence[Callback] = (),
    start_from: Path | None = None,
) -> list[Path]:
    """Train all seeds side by side, from the start or from the saved state; returns the folders of their runs.

    start_from: folder of the run that the setting of this name says; None: it is below `runs_root`.
    """
    origin = start_from or runs_root / plan.settings.start_from
    torch.set_num_threads(1)
    reuse_freed_memory()
    with Interrupt() as interrupt, RunFolder(plan, seeds, runs_root, scratch_root) as folder:
        if folder.seeds:
            _train(plan, folder, compute, callbacks, interrupt, origin)
            folder.discard_scratch()
        return [folder.output(seed) for seed in folder.requested]


def _train(
    plan: Plan, folder: RunFolder, compute: Compute, callbacks: Sequence[Callback], interrupt: Interrupt, origin: Path
) -> None:
    with no_garbage_collection():
        files = RunFiles(plan, folder, choose(plan, compute), compute.allow_path_change)
        heard = Callbacks([Records(files), *callbacks])
        block = Block(plan, folder.seeds, files.execution, heard.may_stop)
    try:
        PROGRESS.report = heard.compiling
        with no_garbage_collection():
            saved = files.open(block.env.spec.metrics)
            block.begin(saved)
            if saved is None and plan.settings.start_from:
                files.stats.note(start(plan, block.learner, origin))
        loop.train(block, files, heard, interrupt)
    finally:
        PROGRESS.report = None
        block.close()
        files.close()
        heard.end()
