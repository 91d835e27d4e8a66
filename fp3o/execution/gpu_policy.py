"""Policies that act on the learner's device instead of the CPU, and critics with GRUs that evaluate a rollout.

All tensors are at fixed addresses, so that a GPU can replay a step as one CUDA graph: a copy in, the policy, a copy
out, and beside it a copy of what only critics see. The same classes also run without a graph, on any device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fp3o.envs.interface import Snapshot
from fp3o.execution.cuda_graphs import beside, capture
from fp3o.learner.step import Compiler
from fp3o.learner.update import EVALUATION_ROWS
from fp3o.networks.actor import Actor
from fp3o.networks.critic import Critic
from fp3o.networks.recurrent import scan
from fp3o.networks.stacked import gate_inputs
from fp3o.rollout.policy import Policy

ALIGNMENT = 16  # bytes; more than any element needs
# Numbers of a replica's rollout from which critics with GRUs compute at once; several times as many are in memory
# meanwhile. Of SMAC's maps only bane_vs_bane has more, 94 million. A constant, so that results do not depend on a
# machine's memory, and of one replica, so that they do not depend on how many there are.
PIECE = 1 << 24


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


class ResidentPolicy(Policy):
    """A policy whose weights, recurrent states and their history stay on the device."""

    def __init__(
        self,
        actor: Actor,
        replicas: int,
        slots: int,
        compiler: Compiler = lambda function: function,
        device: torch.device | str = "cuda",
        graph: bool = True,
    ) -> None:
        """graph: replay steps from CUDA graphs; otherwise they run operation by operation."""
        self.device = torch.device(device)
        super().__init__(actor, replicas, slots, compiler)
        self.graph = graph
        each, action, real = (replicas, slots, self.agents), actor.action, torch.get_default_dtype()
        inputs = {
            "time": ((1,), torch.int64),
            "observation": ((*each, actor.observation_size), real),
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
        self._remembered: dict[str, Tensor] = {}
        self._steps: dict[bool, Callable[[], object]] = {}
        self.shown = {name: _flat(self._inputs.arrays[name]) for name in ("observation", "available") if name in inputs}

    def remember(self, steps: int, pinned: bool, state_size: int | None = None) -> dict[str, Tensor]:
        each, size, real = (self.replicas, self.slots, self.agents), self.actor.hidden_size, torch.get_default_dtype()
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
                self._remembered[name] = first[:, None].repeat(1, steps, 1, 1, 1)
        return self._remembered

    def restart(self) -> None:
        if self.hidden is not None:
            self.hidden.zero_()

    def restore(self, hidden: Tensor) -> None:
        assert self.hidden is not None
        self.hidden.copy_(hidden)

    @torch.no_grad()
    def load(self, trunks: Tensor, heads: Tensor) -> None:
        kept = self._layers
        super().load(trunks, heads)
        if kept:
            for name, new in self._layers.items():
                kept[name].copy_(new)
            self._layers = kept

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
        """One step, from inputs on the host to outputs on the host; samples: draw actions from the given noise, else
        take the distribution's mode."""
        self._inputs.upload()
        beside(self._side, functools.partial(self._answer, samples), self._keep_in_mind)

    def _answer(self, samples: bool) -> None:
        given = self._inputs.tensors
        if self.history is not None and self.hidden is not None:
            self.history.index_copy_(1, given["time"], self.hidden.transpose(1, 2)[:, None])
        location, action, *hidden = self._forward(
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

    def _keep_in_mind(self) -> None:
        """What agents see, for the rollout."""
        seen = dict(self._inputs.tensors)
        if self._states is not None:
            self._states.upload()
            seen |= self._states.tensors
        for name, remembered in self._remembered.items():
            remembered.index_copy_(1, seen["time"], seen[name][:, None])

    @functools.cached_property
    def _side(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.device, priority=-1) if self.device.type == "cuda" and self._remembered else None


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """[R, N, …] as engines know it, [R·N, …]; the same memory."""
    return array.reshape(-1, *array.shape[2:])


class Scanned(NamedTuple):
    """Outputs of a critic with a GRU for a whole rollout."""

    value: Tensor  # [R, T, N, A]
    next_value: Tensor  # [R, N, A] of the state after the last step
    stored: Tensor  # [R, T, N, A, H] GRU state before each step
    hidden: Tensor  # [R, A, N, H] after the last step


class Scan:
    """Runs a critic with a GRU along a rollout of T steps. What does not depend on the GRU's state is computed for all
    steps at once, the state step by step."""

    def __init__(
        self,
        critic: Critic,
        replicas: int,
        steps: int,
        slots: int,
        device: torch.device,
        graph: bool,
    ) -> None:
        """graph: replay all steps from one CUDA graph."""
        self.critic, self.steps, self.graph = critic, steps, graph
        agents, width = critic.sharing.agents, critic.hidden_size
        owners = 1 if critic.sharing.trunks == 1 else agents  # networks side by side, as `select` gives them
        self._folded = (replicas, owners, agents // owners, slots)
        rows = (replicas, owners, agents // owners * slots)
        # One step more than the rollout has, for the value after its last step. State t is that before step t.
        self._inputs = torch.zeros(steps + 1, *rows, 3 * width, device=device)
        self._keep = torch.zeros(steps + 1, *rows, device=device)
        self._states = torch.zeros(steps + 2, *rows, width, device=device)
        self._weights: dict[str, Tensor] = {}
        self._run: Callable[[], object] | None = None

    @torch.no_grad()
    def __call__(
        self,
        layers: dict[str, Tensor],
        state: Tensor,
        keep: Tensor,
        last: Tensor,
        keep_last: Tensor,
        hidden: Tensor,
    ) -> Scanned:
        """state [R, T, N, A, S] and keep [R, T, N] of the rollout; last [R, N, A, S] and keep_last [R, N] after its
        last step; hidden [R, A, N, H] before its first."""
        times, (replicas, owners, each, slots) = self.steps, self._folded
        self._load(layers)
        inputs = self._inputs.view(times + 1, *self._folded, -1)
        length = max(1, min(EVALUATION_ROWS // slots, PIECE // state[0, 0].numel()))
        for into, part in zip(inputs[:times].split(length), state.split(length, 1), strict=True):
            into.copy_(self._gate_inputs(layers, part))
        inputs[times:] = self._gate_inputs(layers, last[:, None])
        mask = self._keep.view(times + 1, *self._folded)
        mask[:times] = keep.transpose(0, 1)[:, :, None, None]
        mask[times] = keep_last[:, None, None]
        self._states[0] = hidden.reshape(self._states.shape[1:])
        if self._run is None:
            self._run = capture(self.run, lambda: None)[0].replay if self.graph else self.run
        self._run()
        states = self._states.view(times + 2, replicas, owners * each, slots, -1)
        value = self.critic.value_of_state(layers, states[1:].permute(1, 2, 0, 3, 4))  # [R, A, T + 1, N]
        return Scanned(
            value[:, :, :times].permute(0, 2, 3, 1).contiguous(),
            value[:, :, times].transpose(1, 2).contiguous(),
            states[:times].permute(1, 0, 3, 2, 4).contiguous(),
            states[times].clone(),
        )

    def _load(self, layers: dict[str, Tensor]) -> None:
        for name in ("gru.weight_hh", "gru.bias_hh"):
            if name in self._weights:
                self._weights[name].copy_(layers[name])
            else:
                self._weights[name] = layers[name].clone(memory_format=torch.contiguous_format)

    def _gate_inputs(self, layers: dict[str, Tensor], state: Tensor) -> Tensor:
        """The GRU gates' contributions from inputs [R, t, N, A, S], as [t, R, P, A/P, N, 3H]."""
        replicas, owners, each, slots = self._folded
        rows = state.permute(0, 3, 1, 2, 4).reshape(replicas, owners, -1, state.shape[-1])
        gates = gate_inputs(layers, rows).view(replicas, owners, each, state.shape[1], slots, -1)
        return gates.permute(3, 0, 1, 2, 4, 5)

    @torch.no_grad()
    def run(self) -> None:
        """Compute the states after the first."""
        weight, bias = self._weights["gru.weight_hh"], self._weights["gru.bias_hh"]
        scan(self._inputs, self._keep, self._states[0], weight, bias, self._states[1:])
