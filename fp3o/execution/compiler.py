"""Functions compiled by torch's inductor; each program is compiled once per machine and cached.

Runs that start at the same time often need the same program: the first process compiles it, the others wait and then
load it from the cache (`program_cache.py`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from fp3o.errors import UserError
from fp3o.execution.allocator import no_garbage_collection
from fp3o.execution.call_signature import CallSignature, kind
from fp3o.execution.check_against_eager import check_program
from fp3o.execution.program_cache import OURS, cache_folder, compile_lock, conditions, digest

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]

# Kernels are not chosen by timing them: that takes seconds, and sums in another order would differ in the last bits
# from one machine to the next. Nor named after all they do: Triton shortens the files of names above 150 letters, torch
# does not find them, and a C compiler runs for each such kernel (10 of HalfCheetah's 55, 2.3 s in all).
SETTINGS = {
    "deterministic": True,
    "triton.autotune_pointwise": False,
    "triton.descriptive_names": False,
    # Vector instructions that the processor has are used. torch would compile test programs for them and load those in
    # processes of their own, before the first program of every process: of the processor time of a short cell on an
    # x86-64 machine (Reacher, MAPPO) that took 9 of 66 s with an empty cache, and 1.8 of 12 s with a full one.
    "cpp.vec_isa_ok": True,
}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, once for each combination of shapes and constants among its arguments.

    Arguments are tensors, constants, and tuples, lists or dictionaries of them. If the function is a method, tensors
    that its object has as attributes are inputs, too; it may use no others, and other attributes must not change. It
    may take gradients inside, and change inputs in place that share memory with no other input (torch would take
    programs for one case in the other); no gradient flows through it. It is traced here and compiled by torch's
    inductor without torch.compile, whose tracing and checks would take longer than loading a cached program.
    """
    programs: dict[Any, Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        signature = CallSignature(function, arguments)
        if signature.key not in programs:
            programs[signature.key] = _compile(signature)
        with torch.no_grad():
            return programs[signature.key](*(x.detach() for x in signature.tensors))

    return call


def compiled_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled on first call, without looking at its arguments again at every call, as `compiled` does.

    They are different tensors, dictionaries of them or None, and their shapes and strides must never change. On an ARM
    core a step of five HalfCheetah policies took 0.33 ms, and 0.58 ms with `compiled`.
    """
    run: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal run
        if run is None:
            # A plain function: with a method, the tensors of its object would be inputs, too.
            run = _compile(CallSignature(lambda *given: function(*given), arguments))
        tensors = [x for a in arguments if a is not None for x in (a.values() if isinstance(a, dict) else (a,))]
        with torch.no_grad():
            return run(*tensors)

    return call


def _compile(signature: CallSignature) -> Callable[..., Any]:
    """The program for these arguments, cached or compiled; if that fails, compiled with an empty cache: ours may be
    damaged."""
    graph, outputs = trace(signature)
    # Takes seconds; before a lock is taken, so that other processes need not wait for it.
    importlib.import_module("torch._inductor.compile_fx")
    key = f"{graph.graph}{[kind(x) for x in signature.tensors]}{conditions(signature.tensors)}"
    # Looking for garbage took 1.8 s of the 14 s of compiling a step (HalfCheetah on an H200 machine).
    with compile_lock(key) as folder, torch.no_grad(), no_garbage_collection():
        # Constants are not part of the key: a program with constants is compiled every time.
        constants = any(node.op == "get_attr" for node in graph.graph.nodes)
        cached = None if folder is None or constants else folder / f"program-{digest(key)}"
        try:
            run = _load_or_compile(graph, signature.tensors, cached)
        except UserError:
            raise
        except Exception:
            if folder is None or not folder.name.startswith(OURS):
                raise
            with _emptied(folder):
                run = _load_or_compile(graph, signature.tensors, cached)
    return lambda *tensors: pytree.tree_unflatten(run(*tensors), outputs)


def trace(signature: CallSignature) -> tuple[torch.fx.GraphModule, pytree.TreeSpec]:
    """The operations that a call runs, and how its outputs are nested."""
    outputs: Any = None

    def flat(*tensors: Tensor) -> list[Any]:
        nonlocal outputs
        leaves, outputs = pytree.tree_flatten(signature.call(*tensors))
        return leaves

    cache_folder()  # first: what tracing imports would set another one, which all users share
    return make_fx(flat, tracing_mode="fake")(*signature.tensors), outputs


def _load_or_compile(graph: torch.fx.GraphModule, tensors: list[Tensor], cached: Path | None) -> Callable[..., Any]:
    inductor: Any = torch._inductor
    with inductor.config.patch(SETTINGS):
        if cached is not None and cached.exists():
            with contextlib.suppress(Exception):  # damaged: it is compiled again
                found = cast(Callable[..., Any], inductor.CompiledArtifact.load(path=str(cached)))
                check_program(found, graph, tensors)
                return found
        # Not autotuned: torch would run kernels on made-up inputs, among which numbers of actions that do not exist
        # stopped the GPU.
        program = inductor.standalone_compile(
            graph,
            [x.detach() for x in tensors],
            dynamic_shapes="from_example_inputs",
            options={"config_patches": {"triton.autotune_at_compile_time": False}},
        )
        check_program(program, graph, tensors)
        if cached is not None:
            with contextlib.suppress(RuntimeError, AssertionError, OSError):  # torch cannot save this one; disk full
                program.save(path=str(cached))
    return cast(Callable[..., Any], program)


def _clear_memory() -> None:
    """Forget what the compiler holds of its cache in this process's memory."""
    from torch._inductor.utils import clear_caches

    clear_caches()


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Empty the cache folder; its old content is put back if what happens inside fails as well."""
    aside = folder.with_name(f"{folder.name}-aside-{os.getpid()}")
    folder.rename(aside)
    folder.mkdir(exist_ok=True)
    _clear_memory()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
