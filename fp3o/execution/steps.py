"""Faster forms of the gradient step. Each wraps a `Stepper` and computes what its plain methods say."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fp3o.algorithms.turns import Rollout
from fp3o.execution.compiler import compiled
from fp3o.execution.cuda_graphs import Replayed, capture, run_concurrently
from fp3o.learner.state import clone, overwrite
from fp3o.learner.step import Stepper, StepStatistics, StepVariant, TurnAgents, TurnData, take_step

First = TypeVar("First")
Second = TypeVar("Second")
Tensors = TypeVar("Tensors")
Step = Callable[[Tensor], StepStatistics]


class PairedSteps:
    """Actors' gradients on this thread of a CPU, critics' on another: the same operations, so the same numbers.

    On two ARM cores, five seeds of FP3O: 3s5z's update took 25.7 instead of 46.2 s, that of the climbing game 0.18
    instead of 0.23 s. Not for compiled steps: they are one program.
    """

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._other_thread = ThreadPoolExecutor(1, initializer=partial(torch.set_num_threads, 1))

    def begin(self, turn: TurnData, variant: StepVariant) -> Step:
        return partial(take_step, self._stepper, turn, variant, both=self.both)

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return function

    def both(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        begun = self._other_thread.submit(second)
        return first(), begun.result()


class CompiledParts:
    """The methods of a stepper that make up a step, each a compiled program."""

    def __init__(self, stepper: Stepper) -> None:
        self.slice_units = stepper.slice_units
        self.loss_weights = compiled(stepper.loss_weights)
        self.actor_gradients = compiled(stepper.actor_gradients)
        self.critic_gradients = compiled(stepper.critic_gradients)
        self.apply = compiled(stepper.apply)


class CompiledSteps:
    """A step as one compiled program or, where it is computed in slices, as four."""

    def __init__(self, stepper: Stepper) -> None:
        self._slice_units, self._parts = stepper.slice_units, CompiledParts(stepper)
        self._whole = compiled(stepper.step)

    def begin(self, turn: TurnData, variant: StepVariant) -> Step:
        def step(rows: Tensor) -> StepStatistics:
            if self._slice_units(rows) < rows.shape[2]:
                return take_step(self._parts, turn, variant, rows)
            statistics: StepStatistics = self._whole(turn, variant, rows)
            return statistics

        return step

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return function


class GraphSteps:
    """Steps replayed from CUDA graphs, one launch per step. A graph reads its inputs from fixed addresses, so the
    inputs of a turn are copied there. A step is four programs: a graph launches them as fast as one, and the gradients
    of actors and critics run at the same time, as either keeps only a part of the GPU busy."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper, self._parts = stepper, CompiledParts(stepper)
        self._graphs: dict[Any, _Captured] = {}
        self._inputs: tuple[Rollout, Tensor] | None = None
        self._second_stream: torch.cuda.Stream | None = None

    def begin(self, turn: TurnData, variant: StepVariant) -> Step:
        if self._inputs is None:
            self._inputs = (_clone(turn.rollout), turn.samples.clone())
        rollout, samples = self._inputs
        _copy_into(rollout, turn.rollout)
        samples.copy_(turn.samples)
        members = turn.members

        def step(rows: Tensor) -> StepStatistics:
            own = tuple((name, x.shape) for name, x in turn.inputs.items())
            key = (variant, rows.shape, members.others is None, own)
            if key not in self._graphs:
                inputs = TurnData(rollout, samples, *_clone(turn[2:]))
                self._graphs[key] = self._capture(inputs, variant, rows)
            captured = self._graphs[key]
            if captured.loaded is not members:
                _copy_into(captured.turn[2:], turn[2:])
                captured.loaded = members
            captured.rows.copy_(rows)
            captured.graph.replay()
            return captured.statistics

        return step

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return Replayed(function)

    def _capture(self, turn: TurnData, variant: StepVariant, rows: Tensor) -> _Captured:
        stepper, own_rows = self._stepper, rows.clone()
        before, totals = clone(stepper.state), stepper.totals.clone()
        self._second_stream = self._second_stream or torch.cuda.Stream(stepper.device)
        both = partial(run_concurrently, self._second_stream)

        def step() -> StepStatistics:
            return take_step(self._parts, turn, variant, own_rows, both)

        def undo() -> None:
            overwrite(stepper.state, before)
            stepper.totals.copy_(totals)

        graph, statistics = capture(step, undo)
        return _Captured(graph, turn, own_rows, statistics)


class _Captured:
    def __init__(self, graph: torch.cuda.CUDAGraph, turn: TurnData, rows: Tensor, statistics: StepStatistics) -> None:
        self.graph, self.turn, self.rows, self.statistics = graph, turn, rows, statistics
        self.loaded: TurnAgents | None = None
        """Whose turn's values are in `turn` now."""


def _clone(tensors: Tensors) -> Tensors:
    """Copies of all tensors in nested tuples and dictionaries."""
    copied: Tensors = pytree.tree_map_only(Tensor, torch.clone, tensors)
    return copied


def _copy_into(target: object, source: object) -> None:
    for to, given in zip(pytree.tree_leaves(target), pytree.tree_leaves(source), strict=True):
        if to is not None and given is not None:
            to.copy_(given)
