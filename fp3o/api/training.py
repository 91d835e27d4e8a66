"""Training as a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from fp3o.api.run import Run
from fp3o.config import Cell, load_suite, parse_seeds, resolve
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.fields import Scalar
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import Interrupted, Stopped
from fp3o.runs.verify import named_run
from fp3o.training.callbacks import Callback


def train(
    cell: str,
    seeds: Iterable[int] = range(5),
    settings: Mapping[str, Scalar] | None = None,
    out: str | Path = "runs",
    callbacks: Sequence[Callback] = (),
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    path: Literal["auto", "eager", "compiled"] = "auto",
    threads: int = 0,
    allow_path_change: bool = False,
    keep_state: bool = False,
    checkpoint_every: int = 0,
    keep_best: bool = False,
    timings: str | Path | None = None,
    suite: str | None = None,
    start_from: str | Path | Run | None = None,
    quiet: bool = False,
) -> list[Run]:
    """Train a cell, all seeds side by side; the same runs as `fp3o train CELL --out OUT` with the same settings.

    settings: what differs from the paper's values, settings and environment options by name. suite: whose values
    hold, a name or a file; `settings` come on top. device, path, threads, allow_path_change, timings: as on the
    command line (`--tensorboard` and `--wandb` are callbacks here).
    start_from: a finished run, or its folder, whose networks all seeds start from.
    keep_state: keep the last state of what is trained now, from which `fp3o continue` goes on to a longer budget.
    checkpoint_every, keep_best: keep checkpoints on the way, which `run.team(checkpoint=…)` loads. All that is kept is
    below `out`/scratch. quiet: no progress on the error stream.
    Returns the finished runs; those that are there already are not trained again. If a callback stops the training its
    state is saved, the list is empty, and the same call goes on; one that `finishes` ends the run instead, with the
    status "stopped". Ctrl-C saves, too, and raises KeyboardInterrupt.
    """
    if isinstance(seeds, (int, str)):
        raise UserError(f"seeds = {seeds!r} is not allowed; allowed: a list or range, such as [3] or range(5)")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UserError(f"callback {callback!r} is not allowed; allowed: objects of subclasses of fp3o.Callback")
    if checkpoint_every < 0:
        raise UserError(f"checkpoint_every = {checkpoint_every} is not allowed; allowed: 0 or more")
    chosen = None if suite is None else load_suite(suite)  # First: its plug-ins may declare the cell's algorithm.
    origin = start_from.path if isinstance(start_from, Run) else None if start_from is None else Path(start_from)
    if origin is not None:
        settings = {**(settings or {}), "start_from": named_run(origin, "start_from")}
    plan = resolve(Cell.parse(cell), settings, chosen)
    numbers = parse_seeds(",".join(str(seed) for seed in seeds))
    scratch = Path(out) / "scratch"
    folder = RunFolder(plan, numbers, Path(out), scratch)
    if folder.unfinished():
        from fp3o.training.callbacks.checkpoints import ExtraCheckpoints
        from fp3o.training.callbacks.progress import Progress
        from fp3o.training.callbacks.timings import Timings
        from fp3o.training.run import train as run_training

        heard = list(callbacks)
        if keep_state or checkpoint_every or keep_best:
            heard.append(ExtraCheckpoints(plan, scratch, state=keep_state, every=checkpoint_every, best=keep_best))
        if timings is not None:
            heard.append(Timings(Path(timings)))
        try:
            with ExitStack() as stack:
                if not quiet:
                    heard.insert(0, stack.enter_context(Progress.of(plan, numbers)))
                compute = Compute(device, path, threads, allow_path_change)
                run_training(plan, numbers, Path(out), scratch, compute, heard, origin)
        except Interrupted as stopped:
            raise KeyboardInterrupt(str(stopped).replace("command", "call")) from None
        except Stopped:
            pass
    return [Run(folder.output(seed), trust=True) for seed in numbers if folder.finished(seed)]
