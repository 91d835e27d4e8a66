"""Programs are made once per machine, under a lock while others wait; a damaged cache is made anew."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch import Tensor

from fp3o import machine
from fp3o.errors import UserError
from fp3o.execution import compiler as compiling
from fp3o.execution import program_cache
from fp3o.execution.choice import why_not_compiled

needs_compiler = pytest.mark.skipif(why_not_compiled() is not None, reason=str(why_not_compiled()))


def make(made: Path, name: str, begun: multiprocessing.synchronize.Barrier) -> None:
    """What a job does with a program: look it up, and make it where it is missing."""
    begun.wait()
    with program_cache.compile_lock(name):
        if not made.exists():
            made.write_text("")
            with (made.parent / "count").open("a") as count:
                count.write(f"{name}\n")


def test_jobs_that_start_together_make_a_program_once(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    begun = context.Barrier(6)
    jobs = [
        context.Process(target=make, args=(folder / name, name, begun)) for name in ("one", "two") for _ in range(3)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0] * 6
    assert sorted((folder / "count").read_text().split()) == ["one", "two"]


def test_who_waits_is_told(folder: Path) -> None:
    told: list[int] = []
    program_cache.PROGRESS.report = told.append
    for name in ("one", "two"):
        with program_cache.compile_lock(name) as found:
            assert found == folder
    assert told == [1, 2]


class Compiler:
    """Fails as long as a damaged file is in the cache, or always."""

    def __init__(self, damaged: Path | None) -> None:
        self.damaged = damaged

    def __call__(self, graph: torch.fx.GraphModule, tensors: list[Tensor], kept: Path | None) -> torch.fx.GraphModule:
        if self.damaged is None or self.damaged.exists():
            raise RuntimeError("cannot be compiled")
        return graph


def test_a_damaged_cache_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "damaged").touch()
    monkeypatch.setattr(compiling, "_clear_memory", lambda: None)
    monkeypatch.setattr(compiling, "_load_or_compile", Compiler(folder / "damaged"))
    assert compiling.compiled(torch.relu)(torch.ones(2)).tolist() == [1, 1]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    (folder / "good").touch()
    monkeypatch.setattr(compiling, "_load_or_compile", Compiler(None))  # not the cache's fault: it is kept
    with pytest.raises(RuntimeError, match="cannot be compiled"):
        compiling.compiled(torch.relu)(torch.ones(2))
    assert (folder / "good").exists()


@pytest.fixture
def kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names under which programs would be kept; nothing is compiled."""
    names: list[str] = []

    def keep(graph: torch.fx.GraphModule, _: list[Tensor], kept: Path) -> torch.fx.GraphModule:
        names.append(kept.name)
        return graph

    monkeypatch.setattr(compiling, "_load_or_compile", keep)
    return names


def test_programs_for_other_machines_and_settings_are_others(kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> None:
        compiling.compiled(torch.relu)(torch.ones(2))

    make()
    make()
    for place, name in (
        (machine, "processor_model"),
        (torch, "get_num_threads"),
        (torch, "get_float32_matmul_precision"),
        (torch, "are_deterministic_algorithms_enabled"),
        (torch.backends.cpu, "get_cpu_capability"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda: "another")
            make()
    with torch._inductor.config.patch("max_autotune", True):
        make()
    assert kept[0] == kept[1]
    assert len(set(kept)) == 7


def test_a_number_and_its_text_are_two_constants(kept: list[str]) -> None:
    double = compiling.compiled(lambda x, how: x + x if how == 2 else x)
    assert [double(torch.ones(1), how).item() for how in (2, "2")] == [2, 1]
    assert len(kept) == 2


class Hides:
    """Has a tensor where it is not looked for."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"rate": 0.5, "weight": torch.ones(2)}

    def scaled(self, x: Tensor) -> Tensor:
        return x * cast(Tensor, self.settings["weight"])


def test_a_tensor_that_would_be_a_constant_is_refused(kept: list[str]) -> None:
    with pytest.raises(AssertionError, match="convert all Tensors"):  # torch's words
        compiling.compiled(Hides().scaled)(torch.ones(2))


class Unsaved:
    """A program for which the disk has no room."""

    def __init__(self, run: Callable[..., list[Tensor]]) -> None:
        self._run = run

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        return self._run(*tensors)

    def save(self, path: str) -> None:
        raise OSError(28, "No space left on device", path)


def test_a_program_that_cannot_be_kept_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._inductor, "standalone_compile", lambda graph, *_, **__: Unsaved(graph))
    assert compiling.compiled(lambda x: 2 * x)(torch.ones(2)).tolist() == [2, 2]


class State(NamedTuple):
    weight: Tensor
    moment: Tensor


class Learns:
    """Takes a gradient of its weights, and changes them in place."""

    def __init__(self) -> None:
        self.state = State(torch.arange(6.0).view(2, 3).requires_grad_(), torch.zeros(2, 3))
        self.weight = self.state.weight  # the same tensor under another name
        self.rate, self.found = 0.01, ("not", "a", "tensor")

    def step(self, x: Tensor, options: dict[str, Tensor | None], kind: str) -> State:
        loss = ((x @ self.weight) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, [self.weight])
        with torch.no_grad():
            self.state.moment.mul_(0.5).add_(gradient)
            self.weight.sub_(self.state.moment * (self.rate if kind == "slow" else 0.1))
        return State(loss.detach(), gradient.norm())


def same_steps(kinds: Sequence[str], x: Tensor) -> None:
    plain, fast = Learns(), Learns()
    step = compiling.compiled(fast.step)
    for kind in kinds:
        one, other = plain.step(x, {"none": None}, kind), step(x, {"none": None}, kind)
        assert isinstance(other, State)
        for a, b in zip((*one, *plain.state), (*other, *fast.state), strict=True):
            torch.testing.assert_close(a, b)


@needs_compiler
def test_a_program_is_kept_and_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_steps(["slow", "slow", "fast"], torch.ones(4, 2))
    assert program_cache.PROGRESS.programs == 2  # one for each kind
    kept = sorted(folder.glob("program-*"))
    assert len(kept) == 2

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(torch._inductor, "standalone_compile", fails)
        same_steps(["slow", "fast"], torch.ones(4, 2))
    content = kept[0].read_bytes()
    kept[0].write_bytes(b"damaged")
    same_steps(["slow", "fast"], torch.ones(4, 2))
    assert len(kept[0].read_bytes()) > len(content) // 2  # made again
    with monkeypatch.context() as patch:  # damaged, and loaded nevertheless
        artifact: Any = vars(torch._inductor)["CompiledArtifact"]
        patch.setattr(artifact, "load", lambda **_: lambda *tensors: [x - 1 for x in tensors])
        same_steps(["slow"], torch.ones(4, 2))


@needs_compiler
def test_kernels_are_not_run_while_they_are_compiled_and_have_short_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch would run them on made-up inputs, where row numbers are of rows that do not exist; and not find the files
    of names longer than Triton's files have."""
    from torch._inductor import config, graph

    settings: list[tuple[object, object]] = []
    lower = graph.GraphLowering.codegen

    def watched(self: Any) -> Any:
        settings.append((config.triton.autotune_at_compile_time, config.triton.descriptive_names))
        return lower(self)

    monkeypatch.setattr(graph.GraphLowering, "codegen", watched)
    compiling.compiled(lambda x, rows: x.index_select(0, rows) + 1)(torch.ones(3), torch.tensor([2, 0]))
    assert settings == [(False, False)]


def test_training_does_not_import_the_compiler_before_it_is_needed() -> None:
    code = "import sys, fp3o.training.run; print(sorted({'torch._dynamo', 'torch._inductor'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_programs_are_kept_in_a_folder_of_our_own() -> None:
    """Not where torch keeps them, which other users can write to; what it imports to trace would choose that."""
    code = (
        "import os, sys, torch\nfrom fp3o.execution import compiler, program_cache\n"
        "from fp3o.execution.call_signature import CallSignature\n"
        "compiler.trace(CallSignature(lambda x: x + 1, (torch.ones(1),)))\nsys.exit(os.environ[program_cache.CHOSEN])"
    )
    others = {name: value for name, value in os.environ.items() if name != program_cache.CHOSEN}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=others)
    assert Path(done.stderr.strip()).name.startswith(program_cache.OURS), done.stderr


@needs_compiler
def test_a_function_compiled_once_takes_new_tensors(folder: Path) -> None:
    class Line:
        def __init__(self) -> None:
            self.kept = torch.ones(1)  # an input of a program by `compiled`

        def at(self, layers: dict[str, Tensor], x: Tensor, nothing: None) -> Tensor:
            return layers["slope"] * x + layers["start"]

    once = compiling.compiled_once(Line().at)
    for slope in (2.0, -3.0):
        layers = {"slope": torch.tensor([slope]), "start": torch.tensor([1.0])}
        assert once(layers, torch.arange(3.0), None).tolist() == [1 + slope * x for x in range(3)]
    assert program_cache.PROGRESS.programs == 1


@needs_compiler
def test_tensors_of_other_strides_have_a_program_of_their_own(folder: Path) -> None:
    """A program reads its inputs by the strides it was compiled for."""
    rows = compiling.compiled(torch.Tensor.cumsum)
    x = torch.arange(6.0).reshape(2, 3)
    turned = x.T.contiguous().T  # the same numbers in another order in memory
    for given in (x, turned, x):
        assert rows(given, 1).tolist() == x.cumsum(1).tolist()
    assert program_cache.PROGRESS.programs == 2


class Walk:
    """A step that changes what its object holds, as an optimiser's does."""

    def __init__(self) -> None:
        self.place = torch.arange(4.0)

    def step(self, x: Tensor) -> Tensor:
        self.place.add_(x)
        return 2 * x


@pytest.mark.parametrize("wrong", ["nothing", "a result", "a change", "no number"])
@pytest.mark.parametrize("diverged", [False, True])
def test_a_program_that_computes_something_else_is_not_used(
    wrong: str, diverged: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """diverged: some of the numbers are not finite, of a replica that the others do not depend on."""

    def made(graph: torch.fx.GraphModule, *_: object, **__: object) -> Unsaved:
        def run(*tensors: Tensor) -> list[Tensor]:
            place, _ = tensors
            before = place.clone()
            results = cast(list[Tensor], graph(*tensors))
            if wrong == "a change":
                place[1] = before[1]
            factor = {"a result": 1.5, "no number": math.nan}.get(wrong, 1.0)
            return [factor * x for x in results]

        return Unsaved(run)

    monkeypatch.setattr(torch._inductor, "standalone_compile", made)
    walk, x = Walk(), torch.ones(4)
    x[3] = math.inf if diverged else 1.0
    if wrong == "nothing" or (wrong == "no number" and diverged):
        compiling.compiled(walk.step)(x)
        assert walk.place.tolist() == [1.0, 2.0, 3.0, math.inf if diverged else 4.0]
    else:
        with pytest.raises(UserError, match=r"compiles this step wrongly .*allowed: --path eager"):
            compiling.compiled(walk.step)(x)
        assert walk.place.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_comparing_a_program_changes_no_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one whose only element has a stride of 0, as many elements that share memory have."""
    monkeypatch.setattr(torch._inductor, "standalone_compile", lambda graph, *_, **__: Unsaved(graph))
    place, flags = torch.zeros(3).as_strided((1,), (0,)), torch.ones(2, dtype=torch.bool)

    def step(place: Tensor, shared: Tensor, nothing: Tensor, flags: Tensor) -> Tensor:
        place.add_(shared[0])
        flags.logical_not_()
        return nothing.sum() + shared.sum()

    result = compiling.compiled(step)(place, torch.ones(1).expand(3), torch.empty(0), flags)
    assert (float(result), place.tolist(), flags.tolist()) == (3.0, [1.0], [False, False])
