"""Compile several programs at the same time: torch compiles in one thread of Python, so other processes help.

`python -m fp3o.execution.together` is such a process: it reads from its standard input what to compile, and compiles
what no other process is compiling. The programs are kept in the cache, where the process that needs them finds them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fp3o import caches
from fp3o.caches import Busy
from fp3o.envs.checks import processors
from fp3o.execution.call_signature import Inputs
from fp3o.execution.compiler import POSTPONE, Programs, Source, make, trace
from fp3o.execution.program_cache import cache_folder, nested
from fp3o.execution.recalling import note
from fp3o.execution.sources import described, read
from fp3o.processes import command

# 3s5z's four programs took 13, 9, 4 and 2 s on an H200 machine, and a process is ready after 4 s: the first is compiled
# by this one, the second by another, and the others by a third.
MOST_PROCESSES = 2
# Of each process, for Triton's compiler.
THREADS = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}


class Postponed(NamedTuple):
    """A program that is still to be compiled."""

    source: Source
    outputs: pytree.TreeSpec
    programs: Programs  # where it belongs, by the key of its inputs
    inputs: Inputs

    @property
    def missing(self) -> bool:
        """Whether it can be kept, but is not there yet."""
        return self.source.kept is not None and not self.source.kept.exists()


@contextmanager
def together() -> Iterator[None]:
    """Programs that would be compiled inside are only traced, and calls of them return any numbers. In the end they are
    compiled at the same time, or loaded."""
    noted: dict[Any, Postponed] = {}
    processes: list[subprocess.Popen[bytes]] = []

    def postpone(programs: Programs, inputs: Inputs) -> Any:
        place = (id(programs), inputs.key)
        if place not in noted:
            noted[place] = Postponed(*trace(inputs), programs, inputs)
            if not processes and noted[place].missing:
                # The sooner, the better: they import torch while this process traces other programs.
                processes.extend(_started(held))
        return pytree.tree_unflatten(_any_outputs(noted[place].source), noted[place].outputs)

    with contextlib.ExitStack() as held:
        missing: list[Source] = []
        before = POSTPONE.set(postpone)
        try:
            yield
            missing = _largest_first([x.source for x in noted.values() if x.missing])
        finally:
            POSTPONE.reset(before)
            for process in processes:
                _hand_over(process, missing)
        made: dict[str, Callable[..., Any]] = {}
        for source in missing:
            with contextlib.suppress(Exception):  # `Busy`; what fails is tried again
                made[source.key] = make(source, wait=False)
        for source, outputs, programs, inputs in noted.values():
            programs[inputs.key] = nested(made.get(source.key) or make(source), outputs)
            note(inputs, source.kept, outputs)


def _largest_first(sources: list[Source]) -> list[Source]:
    return sorted(sources, key=lambda source: len(source.graph.graph.nodes), reverse=True)


def _any_outputs(source: Source) -> list[Any]:
    """Uninitialised tensors like those that the program would return."""
    made: dict[torch.fx.Node, Tensor] = {}

    def output(x: Any) -> Any:
        if not isinstance(x, torch.fx.Node):
            return x
        like = x.meta["val"]
        if x not in made:
            made[x] = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
        return made[x]

    return [output(x) for x in source.graph.graph.output_node().args[0]]  # type: ignore[union-attr]


# The other processes --------------------------------------------------------------------------------------------------


def _started(held: contextlib.ExitStack) -> list[subprocess.Popen[bytes]]:
    """None if another job of this machine has some: there are cores, memory and clients of MPS for a few only."""
    folder, quiet, count = cache_folder(), subprocess.DEVNULL, min(MOST_PROCESSES, processors() - 1)
    assert folder is not None
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.suppress(Busy, OSError):  # no more processes are allowed
        held.enter_context(caches.making(folder / "locks" / "together", wait=False))
        while len(started) < count:
            how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": quiet, "stderr": quiet}
            started.append(subprocess.Popen(command("fp3o.execution.together"), env=os.environ | THREADS, **how))
    return started


def _hand_over(process: subprocess.Popen[bytes], sources: list[Source]) -> None:
    """By a thread, as the process reads only after its imports; it also waits for the process's end."""
    try:
        description = described(sources)
    except (pickle.PicklingError, TypeError, AttributeError):  # a constant that cannot leave this process
        description = described([])
    threading.Thread(target=process.communicate, args=(description,), daemon=True).start()


def main() -> None:
    torch.set_num_threads(1)
    for module in ("fp3o.networks.recurrent", "torch._inductor.compile_fx"):  # operators of ours; the compiler
        importlib.import_module(module)
    for source in read(sys.stdin.buffer.read()):
        if source.kept is not None and not source.kept.exists():
            with contextlib.suppress(Exception):  # `Busy`; what fails is tried again by the process that needs it
                make(source, wait=False)


if __name__ == "__main__":
    main()
