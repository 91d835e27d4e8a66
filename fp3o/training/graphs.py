"""CUDA graphs: GPU work is recorded once, and then launched as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

WARM_UP_STEPS = 3  # before capture, as CUDA graphs need

Result = TypeVar("Result")


def capture(step: Callable[[], Result], undo: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, Result]:
    """A graph of one step, and the tensors into which its replays write their results.

    The step is executed for warm-up, and `undo` must restore what that changes; capturing executes nothing.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            step()
            undo()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Other threads may use the GPU meanwhile: evaluations do, on a stream of their own.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = step()
    return graph, result
