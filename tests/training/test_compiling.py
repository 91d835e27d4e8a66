"""Programs are made once per machine, under a lock while others wait; a damaged cache is made anew."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fp3o.training import compiling


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache that counts as ours, and nobody who listens."""
    chosen = tmp_path / f"{compiling.OURS}here"
    chosen.mkdir()
    monkeypatch.setenv(compiling.CHOSEN, str(chosen))
    monkeypatch.setattr(compiling, "WORK", compiling.Work())
    compiling.cache_folder.cache_clear()
    yield chosen
    compiling.cache_folder.cache_clear()


def make(made: Path, name: str, begun: multiprocessing.synchronize.Barrier) -> None:
    """What a job does with a program: look it up, and make it where it is missing."""
    begun.wait()
    with compiling.making(name):
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
    compiling.WORK.tell = told.append
    for name in ("one", "two"):
        with compiling.making(name) as found:
            assert found == folder
    assert told == [1, 2]


class Compiler:
    """Fails as long as a damaged file is in the cache, or always."""

    def __init__(self, damaged: Path | None) -> None:
        self.damaged = damaged

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        if self.damaged is None or self.damaged.exists():
            raise RuntimeError("cannot be compiled")
        return graph


def test_a_damaged_cache_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "damaged").touch()
    monkeypatch.setattr(compiling, "_forget", lambda: None)
    monkeypatch.setattr(compiling, "_inductor", Compiler(folder / "damaged"))
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    assert compiling._compile(graph, [torch.ones(2)]) is graph
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    (folder / "good").touch()
    monkeypatch.setattr(compiling, "_inductor", Compiler(None))  # not the cache's fault: it is kept
    with pytest.raises(RuntimeError, match="cannot be compiled"):
        compiling._compile(graph, [torch.ones(2)])
    assert (folder / "good").exists()


def test_training_does_not_import_the_compiler_before_it_is_needed() -> None:
    code = "import sys, fp3o.training.loop; print(sorted({'torch._dynamo', 'torch._inductor'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
