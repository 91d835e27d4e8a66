"""Programs compiled at the same time by several processes are the same programs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout, with_settings
from torch import Tensor

from fp3o.caches import Busy
from fp3o.config.settings import Settings
from fp3o.execution import compiler as compiling
from fp3o.execution import together
from fp3o.execution.call_signature import Inputs
from fp3o.execution.choice import why_not_compiled
from fp3o.execution.sources import described, read
from fp3o.learner.randomness import Draws
from fp3o.processes import command

needs_compiler = pytest.mark.skipif(why_not_compiled() is not None, reason=str(why_not_compiled()))


def steps() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two programs; the second is given what the first returns, and changes an input."""

    def first(x: Tensor, factor: int) -> tuple[Tensor, dict[str, Tensor]]:
        return x @ x.T, {"sum": factor * x.sum(1)}

    def second(y: Tensor, sums: dict[str, Tensor], total: Tensor) -> Tensor:
        total.add_(sums["sum"].sum() + torch.ones(2).sum())
        return (y * y + sums["sum"]).relu()

    return compiling.compiled(first), compiling.compiled(second)


def run(first: Callable[..., Any], second: Callable[..., Any], total: Tensor) -> Tensor:
    y, sums = first(torch.arange(6.0).view(2, 3), 3)
    result: Tensor = second(y, sums, total)
    return result


@pytest.fixture
def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the graphs that this process makes; nothing is compiled, and no other process started."""
    sizes: list[int] = []

    def make(graph: torch.fx.GraphModule, _: list[Tensor], kept: Path | None) -> torch.fx.GraphModule:
        sizes.append(len(graph.graph.nodes))
        return graph

    monkeypatch.setattr(compiling, "_made", make)
    monkeypatch.setattr(together, "processors", lambda: 1)
    return sizes


def test_programs_are_made_in_the_end_the_largest_first(made: list[int]) -> None:
    programs, total = steps(), torch.zeros(1)
    with together.together():
        assert run(*programs, total).shape == (2, 2)
        assert run(*programs, total).shape == (2, 2)
        assert made == []
    assert len(made) == 2
    assert made[0] > made[1]
    assert total.item() == 0, "nothing has run"
    with together.together():
        result = run(*programs, total)
    assert len(made) == 2
    expected, other = torch.zeros(1), steps()
    assert torch.equal(result, run(*other, expected))
    assert total.item() == expected.item() == 47


def test_what_another_process_makes_is_waited_for(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def make(source: compiling.Source, wait: bool = True) -> Callable[..., Any]:
        tried.append(wait)
        if not wait:
            raise Busy
        return compiling.make(source)

    monkeypatch.setattr(together, "make", make)
    with together.together():
        run(*steps(), torch.zeros(1))
    assert tried == [False, False, True, True]


def test_after_an_error_nothing_is_postponed(made: list[int]) -> None:
    programs = steps()
    with pytest.raises(AttributeError), together.together():
        run(*programs, total=None)  # type: ignore[arg-type]
    assert made == []
    assert run(*programs, torch.zeros(1)).shape == (2, 2)
    assert len(made) == 2


def test_other_threads_compile_at_once(made: list[int]) -> None:
    programs, total = steps(), torch.zeros(1)
    with together.together(), ThreadPoolExecutor(1) as thread:
        thread.submit(run, *programs, total).result()
        assert len(made) == 2
    assert total.item() == 47


def test_what_fails_is_tried_again_with_an_empty_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only once no other process is at work in it."""
    tried: list[list[str]] = []

    def make(graph: torch.fx.GraphModule, _: list[Tensor], kept: Path | None) -> torch.fx.GraphModule:
        tried.append(sorted(path.name for path in folder.iterdir() if path.is_file()))
        if (folder / "damaged").exists():
            raise RuntimeError
        return graph

    monkeypatch.setattr(compiling, "_made", make)
    monkeypatch.setattr(compiling, "_forget", lambda: None)
    monkeypatch.setattr(together, "processors", lambda: 1)
    (folder / "damaged").touch()
    with together.together():
        run(*steps(), torch.zeros(1))
    assert tried == [["damaged"], ["damaged"], ["damaged"], [], []]


def test_one_job_at_a_time_starts_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def start(command: list[str], **_: Any) -> str:
        if len(commands) == 3:
            raise BlockingIOError("no more processes")
        commands.append(command)
        return "process"

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(together, "processors", lambda: 8)
    with ExitStack() as mine, ExitStack() as another:
        assert len(together._started(mine)) == together.MOST_PROCESSES == 2
        assert together._started(another) == []
    with ExitStack() as another:
        assert len(together._started(another)) == 1
    assert commands == [command("fp3o.execution.together")] * 3


class Enough(Exception):
    pass


@pytest.mark.parametrize("settings", [SETTINGS, with_settings(recurrent=True)], ids=["mlp", "gru"])
def test_another_process_gets_the_same_sources(settings: Settings, folder: Path) -> None:
    """All of a step's, with the key by which the program is found again."""
    sources: list[compiling.Source] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if len(sources) == 4:
                raise Enough
            sources.append(compiling.trace(Inputs(function, arguments))[0])
            return function(*arguments)

        return call

    learner = make_learner("fp3o", "partial", settings, (0, 1), compiler=noting)
    learner.stepper.one_program = False
    with suppress(Enough):
        learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), 0))
    sent = sources
    found = read(described(sent))
    assert [x.key for x in found] == [x.key for x in sent]
    assert len({x.key for x in sent}) == 4
    for source in found:
        source.graph(*source.tensors)


@needs_compiler
def test_another_process_keeps_what_this_one_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x: Tensor) -> Tensor:
        return x + x

    source, _ = compiling.trace(Inputs(doubled, (torch.ones(3),)))
    subprocess.run(command("fp3o.execution.together"), input=described([source]), check=True)
    assert source.kept is not None
    assert source.kept.exists()
    monkeypatch.delattr(torch._inductor, "standalone_compile")
    assert compiling.compiled(doubled)(torch.arange(3.0)).tolist() == [0, 2, 4]
