"""CUDA graphs without a GPU: a replay repeats the step on the CPU, from the addresses it was captured with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fp3o.execution import steps


class FakeGraph:
    def __init__(self, step: Callable[[], Any], undo: Callable[[], object]) -> None:
        self._step = step
        self.statistics = step()
        undo()

    def replay(self) -> None:
        for target, new in zip(self.statistics, self._step(), strict=True):
            target.copy_(new)


def replay_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`GraphSteps` from now on replays such graphs of plain operations."""

    def capture(step: Callable[[], Any], undo: Callable[[], object]) -> tuple[FakeGraph, Any]:
        step()  # warming up must leave no trace
        undo()
        graph = FakeGraph(step, undo)
        return graph, graph.statistics

    monkeypatch.setattr(steps, "capture", capture)
    monkeypatch.setattr(steps, "compiled", lambda function: function)
    monkeypatch.setattr(steps, "Replayed", lambda function: function)
    monkeypatch.setattr(torch.cuda, "Stream", lambda *_: "a stream")
    monkeypatch.setattr(steps, "run_concurrently", lambda stream, first, second: (first(), second()))
