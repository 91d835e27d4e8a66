"""Faster forms of the gradient step. Each wraps a `Stepper` and computes what its plain methods say."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fp3o.algorithms.turns import Rollout
from fp3o.execution.compiler import compiled
from fp3o.execution.cuda_graphs import Replayed, capture, run_concurrently
from fp3o.learner.state import Parameters, clone, overwrite
from fp3o.learner.step import (
    Stepper,
    StepStatistics,
    StepVariant,
    TurnAgents,
    TurnData,
    actor_sums,
    critic_sums,
    take_step,
)

Named = TypeVar("Named", bound=Any)  # a named tuple
Tensors = TypeVar("Tensors")
Step = Callable[[Tensor], StepStatistics]


class ThreadedSteps:
    """Gradients on several threads of a CPU: replicas in groups, and of each group actors and critics apart. The same
    operations on the same numbers, as replicas do not mix, so the same results.

    On two ARM cores, five seeds of FP3O: 3s5z's update took 25.7 instead of 46.2 s, that of the climbing game 0.18
    instead of 0.23 s. Not for compiled steps: they are one program.
    """

    def __init__(self, stepper: Stepper, threads: int) -> None:
        self._stepper = stepper
        self._others = ThreadPoolExecutor(threads - 1, initializer=partial(torch.set_num_threads, 1))
        replicas = len(stepper.state.running)
        thread_safe = stepper.actor.trunk.thread_safe and stepper.critic.trunk.thread_safe
        parts = torch.arange(replicas).tensor_split(min(replicas, (threads + 1) // 2) if thread_safe else 1)
        self._groups = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
        self._steppers = [_stepper_of(stepper, group) for group in self._groups]

    def begin(self, turn: TurnData, variant: StepVariant) -> Step:
        stepper, groups = self._stepper, self._groups
        turns = [_turn_of(turn, group) for group in groups]

        def step(rows: Tensor) -> StepStatistics:
            weights = stepper.loss_weights(turn, variant, rows)
            each = [(_rows_of(weights, group), rows[group]) for group in groups]
            given = list(zip(self._steppers, turns, each, strict=True))
            first, *others = (
                partial(sums, own, its_turn, variant, *its)
                for sums in (actor_sums, critic_sums)
                for own, its_turn, its in given
            )
            begun = [self._others.submit(job) for job in others]
            found: list[Any] = [first(), *(job.result() for job in begun)]
            actor, critic = _joined(found[: len(groups)]), _joined(found[len(groups) :])
            return stepper.apply(actor, critic, turn.members, variant)

        return step

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return function


def _stepper_of(stepper: Stepper, replicas: slice) -> Stepper:
    """The same stepper for some replicas, whose parameters are views of its own; for gradients alone."""
    own = copy.copy(stepper)
    own.parameters = Parameters(*(x.detach()[replicas].requires_grad_() for x in stepper.parameters))
    return own


def _turn_of(turn: TurnData, replicas: slice) -> TurnData:
    """The inputs of some replicas. Whole rollouts stay, as row numbers count from their start."""
    whole = turn.rollout.log_prob.shape
    return turn._replace(
        members=_rows_of(turn.members, replicas),
        inputs={name: x if x.shape == whole else x[replicas] for name, x in turn.inputs.items()},
        old_std=None if turn.old_std is None else turn.old_std[replicas],
    )


def _rows_of(given: Named, replicas: slice) -> Named:
    """A named tuple of tensors [R, …], of some replicas; what is no tensor stays."""
    parts = {name: x[replicas] for name, x in given._asdict().items() if isinstance(x, Tensor)}
    part: Named = given._replace(**parts)
    return part


def _joined(parts: Sequence[Named]) -> Named:
    """The inverse: [R, …] from the parts of all groups."""
    whole: Named = parts[0]._make(torch.cat(x) for x in zip(*parts, strict=True))
    return whole


class CompiledParts:
    """The methods of a stepper that make up a step, each a compiled program."""

    def __init__(self, stepper: Stepper) -> None:
        self.slice_units = stepper.slice_units
        self.loss_weights = compiled(stepper.loss_weights)
        self.actor_gradients = compiled(stepper.actor_gradients)
        self.critic_gradients = compiled(stepper.critic_gradients)
        self.apply = compiled(stepper.apply)


class CompiledSteps:
    """A step as one compiled program or, where it is large, as several, those of gradients for one replica at a time.

    A replica's numbers then stay in a core's cache: with GRUs (MPE, five seeds, one ARM core) an iteration took 1.96 s
    per seed, and 2.20 s with one program for all. Small steps are faster as one: HalfCheetah's update took 6.3, not
    8.5 s.
    """

    LARGE = 4096
    """Samples of a replica's minibatch, of all agents. HalfCheetah has 600, MPE 6,400, 3s5z 25,600."""

    def __init__(self, stepper: Stepper) -> None:
        self._slice_units, self._parts = stepper.slice_units, CompiledParts(stepper)
        self._whole = compiled(stepper.step)
        self._replicas = [slice(i, i + 1) for i in range(len(stepper.state.running))]
        self._parameters = [_stepper_of(stepper, replica).parameters for replica in self._replicas]
        self._one = copy.copy(stepper)
        self._parts_of_one = CompiledParts(self._one)

    def begin(self, turn: TurnData, variant: StepVariant) -> Step:
        turns = [_turn_of(turn, replica) for replica in self._replicas]

        def step(rows: Tensor) -> StepStatistics:
            statistics: StepStatistics
            if rows[0].numel() < self.LARGE and self._slice_units(rows) >= rows.shape[2]:
                statistics = self._whole(turn, variant, rows)
                return statistics
            weights = self._parts.loss_weights(turn, variant, rows)
            actors, critics = [], []
            for replica, parameters, its_turn in zip(self._replicas, self._parameters, turns, strict=True):
                self._one.parameters = parameters  # an input of the programs
                given = (self._parts_of_one, its_turn, variant, _rows_of(weights, replica), rows[replica])
                actors.append(actor_sums(*given))
                critics.append(critic_sums(*given))
            statistics = self._parts.apply(_joined(actors), _joined(critics), turn.members, variant)
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
