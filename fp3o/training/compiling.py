"""Programs compiled by torch; each is compiled once per machine and kept in a cache.

Runs that start together often need the same program: the first process compiles it, the others wait and then load it
from the cache.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import os
import pickle
import platform
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from fp3o import caches
from fp3o.errors import UserError
from fp3o.runs.atomic import write_atomically
from fp3o.training.allocator import no_garbage_collection
from fp3o.training.comparing import check_program, compared

OURS = "programs-"
STARTED, STARTING = time.time(), 30.0  # when this module was imported, and how long the process had been there at most
CHOSEN, TRITON = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"  # the compilers' own variables


Programs = dict[Any, Callable[..., Any]]


@dataclass
class Work:
    """Counts the programs of this process, to show progress."""

    programs: int = 0
    """Compiled or loaded so far."""
    tell: Callable[[int], None] | None = None
    """Called with the number of a program before it is compiled or loaded."""


WORK = Work()
POSTPONE: ContextVar[Callable[[Programs, Inputs], Any] | None] = ContextVar("POSTPONE", default=None)
"""What `compiled` functions do at a first call instead of compiling and running (fp3o/training/together.py), in the
thread that sets it."""


@functools.cache
def cache_folder() -> Path | None:
    """The cache folder, which is also set for torch's compilers; None where nothing can be written."""
    chosen = os.environ.get(CHOSEN)
    folder = Path(chosen) if chosen else caches.folder_for(Path(__file__).parent, OURS + _digest(_machine()))
    if folder is not None:
        os.environ[CHOSEN] = str(folder)
        # Where torch puts it as well, but only once it compiles: a process that loads all its programs would miss what
        # Triton keeps beside its kernels, and call a C compiler for seconds.
        os.environ.setdefault(TRITON, str(folder / "triton" / "0"))
    return folder


def _machine() -> str:
    """Identifies the processor: programs are compiled for it, and machines of several types may share the folder."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else [platform.processor()]
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join((torch.__version__, platform.machine(), *sorted({x for x in lines if x.startswith(names)})))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def making(key: str, wait: bool = True) -> Iterator[Path | None]:
    """Compile or load the program with this key inside, once for several processes. Yields the cache folder.

    wait: for another process that is doing so; otherwise `caches.Busy` is raised.
    """
    if wait:
        _tell()
    folder = cache_folder()
    with nullcontext() if folder is None else caches.making(folder / "locks" / _digest(key), wait):
        if not wait:
            _tell()
        yield folder


def _tell() -> None:
    WORK.programs += 1
    if WORK.tell is not None:
        WORK.tell(WORK.programs)


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


class Inputs:
    """The tensors that a call of a function reads, each once. Made at every call, so it has to be quick."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._object = function.__self__ if isinstance(function, MethodType) else None
        held = {} if self._object is None else {k: v for k, v in vars(self._object).items() if _holds_tensors(v)}
        self._all = (held, arguments)
        leaves: list[Any] = []
        nesting: list[Any] = []
        _take_apart(self._all, leaves, nesting)
        numbers: dict[int, int] = {}  # by identity: which tensor it is
        self.tensors: list[Tensor] = []
        places: list[Any] = []  # for each leaf: the number of a tensor, or a constant
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                places.append(leaf)
                continue
            if id(leaf) not in numbers:
                numbers[id(leaf)] = len(self.tensors)
                self.tensors.append(leaf)
            places.append((numbers[id(leaf)],))
        self._places = places
        self._traits = getattr(self._object, "traits", None)
        self.key = (tuple(nesting), tuple(map(repr, places)), tuple(map(_kind, self.tensors)))

    def call(self, *tensors: Tensor) -> Any:
        """Call the function with these instead of the given tensors."""
        leaves = [tensors[x[0]] if isinstance(x, tuple) else x for x in self._places]
        held, arguments = pytree.tree_unflatten(leaves, pytree.tree_structure(self._all))
        if self._object is None:
            return self._function(*arguments)
        if self._traits is None:
            there = copy.copy(self._object)
        else:
            there = object.__new__(type(self._object))
            vars(there).update({name: getattr(self._object, name) for name in self._traits})
        vars(there).update(held)
        return self._function.__func__(there, *arguments)  # type: ignore[attr-defined]

    @functools.cached_property
    def name(self) -> str | None:
        """All that tracing depends on, without tracing: our code, the method, its object's `traits` and what it is
        called with. None if that is not known: the object does not say which of its attributes matter, or our code was
        changed when this process had perhaps been started."""
        if self._traits is None or _code() is None:
            return None
        traits = {name: getattr(self._object, name) for name in self._traits}
        method = f"{self._function.__module__}.{self._function.__qualname__} of {type(self._object)}"
        return f"{_code()}{method}{traits}{self.key}{_settings(self.tensors)}"


def _take_apart(value: Any, leaves: list[Any], nesting: list[Any]) -> None:
    """Append what nested tuples, lists and dictionaries hold, in torch's order, and a description that only equal
    nestings share. torch's own function takes three times as long."""
    if isinstance(value, dict):
        nesting.append(tuple(value))
        value = value.values()
    elif isinstance(value, (tuple, list)):
        nesting.append((type(value), len(value)))
    else:
        nesting.append(None)
        leaves.append(value)
        return
    for part in value:
        _take_apart(part, leaves, nesting)


def _holds_tensors(value: Any) -> bool:
    leaves: list[Any] = []
    _take_apart(value, leaves, [])
    return any(isinstance(x, Tensor) for x in leaves) and all(isinstance(x, Tensor | None) for x in leaves)


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
        return None if folder is None or constants else folder / f"program-{_digest(self.key)}"


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
    note(inputs, source, outputs)
    return program


def recalled(inputs: Inputs) -> Callable[..., Any] | None:
    """The program for these inputs, if one was noted, without tracing: four of 3s5z's took 1.4 s."""
    place = _note(inputs)
    if place is None or not place.exists():
        return None
    _tell()
    with contextlib.suppress(Exception):  # damaged: it is traced, and made again if need be
        kept, example = pickle.loads(place.read_bytes())
        with torch.no_grad(), no_garbage_collection():
            return nested(_load(place.with_name(kept)), pytree.tree_structure(example))
    return None


def note(inputs: Inputs, source: Source, outputs: pytree.TreeSpec) -> None:
    """Remember which program these inputs need."""
    place = _note(inputs)
    if place is not None and source.kept is not None and source.kept.exists():
        # torch warns of the description of a nesting when that is read again; of an example it does not.
        example = pytree.tree_unflatten(range(outputs.num_leaves), outputs)
        with contextlib.suppress(OSError, pickle.PicklingError, TypeError, AttributeError):
            write_atomically(place, pickle.dumps((source.kept.name, example)))


def _note(inputs: Inputs) -> Path | None:
    """Where that is remembered; None: nowhere. Not of programs that are compared with what they were made from."""
    folder = cache_folder()
    if folder is None or compared(inputs.tensors) or inputs.name is None:
        return None
    return folder / f"note-{_digest(inputs.name)}"


@functools.cache
def _code() -> str | None:
    """A digest of our sources; None if one is not older than this process, which may have read the one before it."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        try:
            digest.update(path.read_bytes())
            changed = path.stat().st_mtime
        except OSError:  # editors' links to nothing
            continue
        if changed > STARTED - STARTING:
            return None
    return digest.hexdigest()


def nested(run: Callable[..., Any], outputs: pytree.TreeSpec) -> Callable[..., Any]:
    """The program with its outputs nested like this."""
    return lambda *tensors: pytree.tree_unflatten(run(*tensors), outputs)


# Kernels are not chosen by timing them: that takes seconds, and sums in another order would differ in the last bits
# from one machine to the next. Nor named after all they do: Triton shortens the files of names above 150 letters, torch
# does not find them, and a C compiler runs for each such kernel (10 of HalfCheetah's 55, 2.3 s in all).
SETTINGS = {"deterministic": True, "triton.autotune_pointwise": False, "triton.descriptive_names": False}


def _load(kept: Path) -> Callable[..., Any]:
    importlib.import_module("torch._inductor.compile_fx")
    inductor: Any = torch._inductor
    with inductor.config.patch(SETTINGS):
        return cast(Callable[..., Any], inductor.CompiledArtifact.load(path=str(kept)))


def _made(graph: torch.fx.GraphModule, tensors: list[Tensor], kept: Path | None) -> Callable[..., Any]:
    inductor: Any = torch._inductor
    with inductor.config.patch(SETTINGS):
        if kept is not None and kept.exists():
            with contextlib.suppress(Exception):  # damaged: it is compiled again
                found = _load(kept)
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
    return f"{graph}{[_kind(x) for x in tensors]}{_settings(tensors)}"


def _settings(tensors: list[Tensor]) -> tuple[Any, ...]:
    importlib.import_module("torch._inductor.compile_fx")
    inductor: Any = torch._inductor
    return (
        _machine(),
        torch.backends.cpu.get_cpu_capability(),  # which ATEN_CPU_CAPABILITY changes
        sorted({torch.cuda.get_device_name(x.device) for x in tensors if x.is_cuda}),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        inductor.config.save_config_portable(),
    )


def _kind(x: Tensor) -> tuple[Any, ...]:
    return (x.dtype, x.shape, x.stride(), x.device)


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
            kept = None if folder is None or exported.constants else folder / f"ahead-{_digest(key)}.pt2"
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
