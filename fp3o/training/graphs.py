"""Recording work for a GPU once, to be launched as a whole from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

WARM_UP_STEPS = 3  # before capture, as CUDA graphs need

Result = TypeVar("Result")


def capture(step: Callable[[], Result], undo: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, Result]:
    """A graph of one step, and the tensors in which its replays leave their results.

    Warming up runs the step; undo takes back what it changed, so that nothing of it is left. Capture runs nothing.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            step()
            undo()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result
