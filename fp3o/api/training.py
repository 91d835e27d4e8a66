"""Training as a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from fp3o.api.run import Run
from fp3o.config import Cell, parse_seeds, resolve
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.fields import Scalar
from fp3o.runs import layout
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import Interrupted, Stopped
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
    keep_state: bool = False,
    quiet: bool = False,
) -> list[Run]:
    """Train a cell, all seeds side by side; the same runs as `fp3o train CELL --out OUT` with the same settings.

    settings: what differs from the paper's values, settings and environment options by name. device, path, threads: as
    on the command line. keep_state: keep the last state of what is trained now, from which `fp3o continue` goes on to
    a longer budget. quiet: no progress on the error stream.
    Returns the finished runs; those that are there already are not trained again. If a callback stops the training its
    state is saved, the list is empty, and the same call goes on; Ctrl-C saves, too, and raises KeyboardInterrupt.
    """
    if isinstance(seeds, (int, str)):
        raise UserError(f"seeds = {seeds!r} is not allowed; allowed: a list or range, such as [3] or range(5)")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UserError(f"callback {callback!r} is not allowed; allowed: objects of subclasses of fp3o.Callback")
    plan = resolve(Cell.parse(cell), settings)
    numbers = parse_seeds(",".join(str(seed) for seed in seeds))
    scratch = Path(out) / "scratch"
    folder = RunFolder(plan, numbers, Path(out), scratch)
    if folder.unfinished():
        from fp3o.training.callbacks.checkpoints import ExtraCheckpoints, Keep
        from fp3o.training.callbacks.progress import Progress
        from fp3o.training.run import train as run_training

        heard = list(callbacks)
        if keep_state:
            heard.append(ExtraCheckpoints(Keep(layout.kept_directory(scratch, plan), state=True), plan))

        try:
            with ExitStack() as stack:
                if not quiet:
                    heard.insert(0, stack.enter_context(Progress.of(plan, numbers)))
                run_training(plan, numbers, Path(out), scratch, Compute(device, path, threads), heard)
        except Interrupted as stopped:
            raise KeyboardInterrupt(str(stopped).replace("command", "call")) from None
        except Stopped:
            pass
    return [Run(folder.output(seed), trust=True) for seed in numbers if folder.finished(seed)]
