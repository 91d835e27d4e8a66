"""CUDA graphs: GPU work is recorded once, and then launched as a whole."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from fp3o.execution.allocator import no_garbage_collection

WARM_UP_STEPS = 3  # before capture, as CUDA graphs need

Result = TypeVar("Result")
Second = TypeVar("Second")


@functools.cache
def _stream(device: int, urgent: bool) -> torch.cuda.Stream:
    """For captures alone: no other work may be on their stream, and torch gives out the same one now and then."""
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)


def capture(
    step: Callable[[], Result], undo: Callable[[], object], urgent: bool = False
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """A graph of one step, and the tensors into which its replays write their results.

    The step is executed for warm-up, and `undo` must restore what that changes; capturing executes nothing. urgent: its
    kernels go before others that wait for the GPU, of other processes too.
    """
    stream = _stream(torch.cuda.current_device(), urgent)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            step()
            undo()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Nothing may be freed on the GPU during a capture: destroying the graph of an earlier training aborts the process.
    # Other threads may use the GPU meanwhile: evaluations do, on a stream of their own.
    with no_garbage_collection(), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        result = step()
    return graph, result


def run_concurrently(
    stream: torch.cuda.Stream | None, first: Callable[[], Result], second: Callable[[], Second]
) -> tuple[Result, Second]:
    """The results of two independent functions; with a stream for the second, the GPU computes both at once."""
    if stream is None:
        return first(), second()
    now = torch.cuda.current_stream()
    stream.wait_stream(now)
    with torch.cuda.stream(stream):
        seconds = second()
    firsts = first()
    now.wait_stream(stream)
    return firsts, seconds


class Replayed:
    """A function of tensors of fixed shapes, replayed from a graph. The next call overwrites its result."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function = function
        self._captured: tuple[tuple[Tensor, ...], torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(self, *tensors: Tensor) -> Tensor:
        if self._captured is None:
            inputs = tuple(x.clone() for x in tensors)
            self._captured = (inputs, *capture(lambda: self._function(*inputs), lambda: None))
        inputs, graph, result = self._captured
        for own, given in zip(inputs, tensors, strict=True):
            own.copy_(given)
        graph.replay()
        return result
