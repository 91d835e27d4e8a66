"""Policies that act on the learner's device instead of the CPU.

All tensors are at fixed addresses, so that a GPU can replay a step as one CUDA graph: a copy in, the policy, a copy
out, and at the same time a copy of what only critics see. The class also runs without a graph, on any device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fp3o.envs.interface import Snapshot
from fp3o.execution.cuda_graphs import capture, run_concurrently
from fp3o.networks.actor import Actor
from fp3o.rollout.policy import Policy

ALIGNMENT = 16  # bytes; more than any element needs


class Packed:
    """Named arrays in one buffer on the host and in one on the device, so that a single copy transfers them all."""

    def __init__(self, shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]], device: torch.device) -> None:
        sizes = {name: math.prod(shape) * dtype.itemsize for name, (shape, dtype) in shapes.items()}
        total = sum(_aligned(size) for size in sizes.values())
        # Pinned memory: the GPU copies it while the CPU does other work.
        self._host = torch.zeros(total, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = torch.zeros(total, dtype=torch.uint8, device=device)
        self.arrays: dict[str, NDArray[Any]] = {}
        self.tensors: dict[str, Tensor] = {}
        start = 0
        for name, (shape, dtype) in shapes.items():
            here, there = (x[start : start + sizes[name]].view(dtype).view(shape) for x in (self._host, self._device))
            self.arrays[name], self.tensors[name] = here.numpy(), there
            start += _aligned(sizes[name])

    def upload(self) -> None:
        self._device.copy_(self._host, non_blocking=True)

    def download(self) -> None:
        self._host.copy_(self._device, non_blocking=True)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class GpuPolicy(Policy):
    """A policy whose weights, recurrent states and their history stay on the device."""

    def __init__(
        self,
        actor: Actor,
        replicas: int,
        slots: int,
        device: torch.device | str = "cuda",
        graph: bool = True,
    ) -> None:
        """graph: replay steps from CUDA graphs; otherwise they run operation by operation."""
        self.device = torch.device(device)
        super().__init__(actor, replicas, slots)
        self.graph = graph
        each, action, real = (replicas, slots, self.agents), actor.action, torch.get_default_dtype()
        inputs = {
            "time": ((1,), torch.int64),
            "observation": ((*each, actor.trunk.inputs), real),
            "keep": ((replicas, slots), real),
            "noise": ((*each, action.width), real),
        }
        if action.kind == "categorical":
            inputs["available"] = ((*each, action.parameters), torch.bool)
        self._inputs = Packed(inputs, self.device)
        if "available" in inputs:
            self._inputs.arrays["available"][:] = True
        outputs = {
            "location": ((*each, action.parameters), real),
            "action": ((*each, action.width), torch.int64 if action.kind == "categorical" else real),
        }
        self._outputs = Packed(outputs, self.device)
        self._states: Packed | None = None
        self._recorded: dict[str, Tensor] = {}
        self._steps: dict[bool, Callable[[], object]] = {}
        self.shown = {name: _flat(self._inputs.arrays[name]) for name in ("observation", "available") if name in inputs}

    def allocate_history(self, steps: int, pinned: bool, state_size: int | None = None) -> dict[str, Tensor]:
        each, size, real = (self.replicas, self.slots, self.agents), self.actor.trunk.memory, torch.get_default_dtype()
        if self.hidden is not None:
            self.history = torch.zeros(self.replicas, steps, *each[1:], size, device=self.device)
        sources = [self._inputs]
        if state_size is not None:
            self._states = Packed({"state": ((*each, state_size), real)}, self.device)
            self.shown["state"] = _flat(self._states.arrays["state"])
            sources.append(self._states)
        for source in sources:
            for name in source.tensors.keys() & self.shown.keys():
                first = torch.from_numpy(source.arrays[name]).to(self.device)  # waits: engines write there next
                self._recorded[name] = first[:, None].repeat(1, steps, 1, 1, 1)
        return self._recorded

    def restart(self) -> None:
        if self.hidden is not None:
            self.hidden.zero_()

    def restore(self, hidden: Tensor) -> None:
        assert self.hidden is not None
        self.hidden.copy_(hidden)

    @torch.no_grad()
    def load(self, trunks: Tensor, heads: Tensor) -> None:
        fixed = self._layers
        super().load(trunks, heads)
        if fixed:
            for name, new in self._layers.items():
                fixed[name].copy_(new)
            self._layers = fixed

    def begin(self, snapshot: Snapshot, keep: NDArray[np.float32], noise: Tensor | None, time: int) -> None:
        arrays = self._inputs.arrays
        arrays["time"][0] = time
        arrays["keep"][:] = keep
        for name, array in self.shown.items():
            given = getattr(snapshot, name)
            if given is not None and given is not array:
                array[:] = given
        samples = noise is not None
        if noise is not None:
            arrays["noise"][:] = noise.numpy()
        if samples not in self._steps:
            self._steps[samples] = self._prepare(samples)
        self._steps[samples]()

    def finish(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        # Copies: the next step writes to the same memory.
        return self._outputs.arrays["location"].copy(), self._outputs.arrays["action"].copy()

    def _prepare(self, samples: bool) -> Callable[[], object]:
        def step() -> None:
            self.step(samples)

        if not self.graph:
            return step
        before = None if self.hidden is None else self.hidden.clone()

        def undo() -> None:
            if before is not None:
                self.restore(before)

        return capture(step, undo, urgent=True)[0].replay

    @torch.no_grad()
    def step(self, samples: bool) -> None:
        """One step, from the host to the host; samples: draw actions from the given noise, else take the mode."""
        self._inputs.upload()
        run_concurrently(self._side, functools.partial(self._act, samples), self._store_observations)

    def _act(self, samples: bool) -> None:
        given = self._inputs.tensors
        if self.history is not None and self.hidden is not None:
            self.history.index_copy_(1, given["time"], self.hidden.transpose(1, 2)[:, None])
        location, action, *hidden = self.compute(
            self._layers,
            given["observation"],
            given.get("available"),
            self.hidden,
            given["keep"],
            given["noise"] if samples else None,
        )
        if self.hidden is not None:
            self.hidden.copy_(hidden[0])
        self._outputs.tensors["location"].copy_(location)
        self._outputs.tensors["action"].copy_(action)
        self._outputs.download()

    def _store_observations(self) -> None:
        """Record what agents see, for the rollout."""
        seen = dict(self._inputs.tensors)
        if self._states is not None:
            self._states.upload()
            seen |= self._states.tensors
        for name, recorded in self._recorded.items():
            recorded.index_copy_(1, seen["time"], seen[name][:, None])

    @functools.cached_property
    def _side(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.device, priority=-1) if self.device.type == "cuda" and self._recorded else None


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """[R, N, …] as engines know it, [R·N, …]; the same memory."""
    return array.reshape(-1, *array.shape[2:])
