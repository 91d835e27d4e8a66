"""Programs compiled by torch; each is compiled once per machine and kept in a cache.

Runs that start together often need the same program: the first process compiles it, the others wait and then load it
from the cache (`program_cache.py`), later ones without even tracing the function (`recalling.py`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from fp3o.errors import UserError
from fp3o.execution.allocator import no_garbage_collection
from fp3o.execution.call_signature import Inputs, kind
from fp3o.execution.check_against_eager import check_program
from fp3o.execution.program_cache import OURS, SETTINGS, cache_folder, conditions, digest, load, making, nested
from fp3o.execution.recalling import note, recalled
from fp3o.runs.atomic import write_atomically

Programs = dict[Any, Callable[..., Any]]
POSTPONE: ContextVar[Callable[[Programs, Inputs], Any] | None] = ContextVar("POSTPONE", default=None)
"""What `compiled` functions do at a first call instead of compiling and running (fp3o/execution/together.py), in the
thread that sets it."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, once for each combination of shapes and constants among its arguments.

    Arguments are tensors, constants, and tuples, lists or dictionaries of them. If the function is a method, tensors
    that its object has as attributes are inputs, too; it may use no others, and other attributes must not change. It
    may take gradients inside, and change inputs in place that share memory with no other input (torch would take
    programs for one case in the other); no gradient flows through it. It is traced here and compiled by torch's
    inductor without torch.compile, whose tracing and checks would take longer than loading a program that is in the
    cache.
    """
    programs: Programs = {}

    def call(*arguments: Any) -> Any:
        inputs = Inputs(function, arguments)
        if inputs.key not in programs:
            if (known := recalled(inputs)) is not None:
                programs[inputs.key] = known
            elif postpone := POSTPONE.get():
                return postpone(programs, inputs)
            else:
                programs[inputs.key] = _compile(inputs)
        with torch.no_grad():
            return programs[inputs.key](*(x.detach() for x in inputs.tensors))

    return call


@dataclass(frozen=True)
class Source:
    """What a program is compiled from: a function traced for certain tensors."""

    graph: torch.fx.GraphModule
    tensors: list[Tensor]

    @functools.cached_property
    def key(self) -> str:
        """All that the program depends on."""
        # Takes seconds; before a lock is taken, so that other processes need not wait for it.
        importlib.import_module("torch._inductor.compile_fx")
        return _key(self.graph.graph, self.tensors)

    @property
    def kept(self) -> Path | None:
        """Where the program is kept once it is compiled. Constants are not part of the key: a program with constants is
        compiled every time."""
        constants = any(node.op == "get_attr" for node in self.graph.graph.nodes)
        folder = cache_folder()
        return None if folder is None or constants else folder / f"program-{digest(self.key)}"


def trace(inputs: Inputs) -> tuple[Source, pytree.TreeSpec]:
    """What a program for these inputs is compiled from, and how its outputs are nested."""
    outputs: Any = None

    def flat(*tensors: Tensor) -> list[Any]:
        nonlocal outputs
        leaves, outputs = pytree.tree_flatten(inputs.call(*tensors))
        return leaves

    cache_folder()  # first: what tracing imports would set another one, which all users share
    graph = make_fx(flat, tracing_mode="fake")(*inputs.tensors)
    return Source(graph, inputs.tensors), outputs


def make(source: Source, wait: bool = True) -> Callable[..., Any]:
    """The program: from the cache, or compiled; if that fails, once more with an empty cache, as ours may be damaged.

    wait: as in `making`; without, the cache is not emptied either, as other processes are at work in it.
    """
    # Looking for garbage took 1.8 s of the 14 s of compiling a step (HalfCheetah on an H200 machine).
    with making(source.key, wait) as folder, torch.no_grad(), no_garbage_collection():
        try:
            return _made(source.graph, source.tensors, source.kept)
        except UserError:
            raise
        except Exception:
            if not wait or folder is None or not folder.name.startswith(OURS):
                raise
            with _without(folder):
                return _made(source.graph, source.tensors, source.kept)


def _compile(inputs: Inputs) -> Callable[..., Any]:
    source, outputs = trace(inputs)
    program = nested(make(source), outputs)
    note(inputs, source.kept, outputs)
    return program


def _made(graph: torch.fx.GraphModule, tensors: list[Tensor], kept: Path | None) -> Callable[..., Any]:
    inductor: Any = torch._inductor
    with inductor.config.patch(SETTINGS):
        if kept is not None and kept.exists():
            with contextlib.suppress(Exception):  # damaged: it is compiled again
                found = load(kept)
                check_program(found, graph, tensors)
                return found
        # Nor are they run while they are compiled, as this function of torch does by default: on made-up inputs, among
        # which numbers of actions that do not exist stopped the GPU.
        program = inductor.standalone_compile(
            graph,
            [x.detach() for x in tensors],
            dynamic_shapes="from_example_inputs",
            options={"config_patches": {"triton.autotune_at_compile_time": False}},
        )
        check_program(program, graph, tensors)
        if kept is not None:
            with contextlib.suppress(RuntimeError, AssertionError, OSError):  # torch cannot keep this one; disk full
                program.save(path=str(kept))
    return cast(Callable[..., Any], program)


def _key(graph: torch.fx.Graph, tensors: list[Tensor]) -> str:
    """All that a program depends on: what it computes, on which processor and GPU, and how torch is set to compile."""
    return f"{graph}{[kind(x) for x in tensors]}{conditions(tensors)}"


def _forget() -> None:
    """Clear what the compiler keeps of its cache in this process's memory."""
    from torch._inductor.utils import clear_caches

    clear_caches()


@contextmanager
def _without(folder: Path) -> Iterator[None]:
    """Empty the cache folder; its old content is put back if what happens inside fails as well."""
    aside = folder.with_name(f"{folder.name}-aside-{os.getpid()}")
    folder.rename(aside)
    folder.mkdir(exist_ok=True)
    _forget()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def compiled_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, without looking at its arguments again at every call, as `compiled` does.

    They are different tensors, dictionaries of them or None, and their shapes and strides must never change. On an ARM
    core a step of five HalfCheetah policies took 0.33 ms, and 0.58 ms with `compiled`.
    """
    run: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal run
        if run is None:
            # A plain function: of a method, what its object holds would be an input, too.
            run = _compile(Inputs(lambda *given: function(*given), arguments))
        with torch.no_grad():
            return run(*_tensors(arguments))

    return call


def ahead_of_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled_once`, by a library that needs no Python to run: 0.25 ms in the example there."""
    run: Callable[[list[Tensor]], Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal run
        if run is None:
            run = _program(function, arguments)
        return run(_tensors(arguments))

    return call


def _tensors(arguments: tuple[Any, ...]) -> list[Tensor]:
    return [x for a in arguments if a is not None for x in (a.values() if isinstance(a, dict) else (a,))]


def _program(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[list[Tensor]], Any]:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> Any:
            left = iter(tensors)
            return function(
                *(
                    {k: next(left) for k in a} if isinstance(a, dict) else None if a is None else next(left)
                    for a in arguments
                )
            )

    module, tensors = Module(), _tensors(arguments)
    cache_folder()  # as in `trace`

    def loaded(package: Path) -> Callable[[list[Tensor]], Any]:
        run: Callable[[list[Tensor]], Any] = torch._inductor.aoti_load_package(str(package)).loader.boxed_run
        check_program(lambda *given: run([*given]), lambda *given: pytree.tree_leaves(module(*given)), tensors)
        return run

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, about its pytrees
        exported = torch.export.export(module, tuple(tensors))
        key = _key(exported.graph, tensors)
        with making(key) as folder, tempfile.TemporaryDirectory() as made:
            # Constants are not part of the key: a program with constants is compiled every time.
            kept = None if folder is None or exported.constants else folder / f"ahead-{digest(key)}.pt2"
            if kept is not None and kept.exists():
                with contextlib.suppress(Exception):  # damaged: it is compiled again
                    return loaded(kept)
            # torch changes this setting for good, and programs compiled later would not be found in the cache again.
            with torch._inductor.config.patch("aot_inductor.metadata", {}):
                torch._inductor.aoti_compile_and_package(exported, package_path=f"{made}/program.pt2")
            package = Path(made, "program.pt2")
            run = loaded(package)  # before it is kept: it may be wrong
            if kept is not None:
                write_atomically(kept, package.read_bytes())
            return run
