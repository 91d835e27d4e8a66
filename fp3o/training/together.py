"""Compile several programs at the same time: torch compiles in one thread of Python, so other processes help.

`python -m fp3o.training.together` is such a process: it reads from its standard input what to compile, and compiles
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

from fp3o.caches import Busy
from fp3o.envs.checks import processors
from fp3o.processes import command
from fp3o.training import compiling
from fp3o.training.compiling import Inputs, Programs, Source, make, nested, trace
from fp3o.training.sources import described, read

# 3s5z's four programs took 13, 9, 4 and 2 s on an H200 machine, and a process is ready after 4 s: the first is compiled
# by this one, the second by another, and the others by a third.
MOST_PROCESSES = 2
# Of each process, for Triton's compiler.
THREADS = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}


class Postponed(NamedTuple):
    """A program that is still to be compiled."""

    source: Source
    outputs: pytree.TreeSpec
    programs: Programs  # where it belongs, and its key there
    key: Any

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
            noted[place] = Postponed(*trace(inputs), programs, inputs.key)
            if not processes and noted[place].missing:
                # The sooner, the better: they import torch while this process traces other programs.
                processes.extend(_start() for _ in range(min(MOST_PROCESSES, processors() - 1)))
        return pytree.tree_unflatten(_any_outputs(noted[place].source), noted[place].outputs)

    missing: list[Source] = []
    compiling.WORK.postpone = postpone
    try:
        yield
        missing = _largest_first([x.source for x in noted.values() if x.missing])
    finally:
        compiling.WORK.postpone = None
        for process in processes:
            _hand_over(process, missing)
    made: dict[str, Callable[..., Any]] = {}
    for source in missing:
        with contextlib.suppress(Busy):
            made[source.key] = make(source, wait=False)
    for source, outputs, programs, key in noted.values():
        programs[key] = nested(made.get(source.key) or make(source), outputs)


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


def _start() -> subprocess.Popen[bytes]:
    quiet, given = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(
        command("fp3o.training.together"), stdin=given, stdout=quiet, stderr=quiet, env=os.environ | THREADS
    )


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
            with contextlib.suppress(Busy):
                make(source, wait=False)


if __name__ == "__main__":
    main()
