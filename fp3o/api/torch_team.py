"""A trained team as a plain torch.nn.Module."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fp3o.errors import optional_module
from fp3o.networks.actor import UNAVAILABLE, Distribution
from fp3o.networks.stacked import ParameterLayout
from fp3o.rollout.evaluation import Trained


class Acted(NamedTuple):
    """What a team does; [N, A, …] each."""

    action: Tensor
    """The most likely one: numbers, or one choice per sub-action."""
    location: Tensor
    """Gaussian: the mean. Categorical: the log-probability of every choice, sub-actions side by side."""
    memory: Tensor | None
    """After the step; None for policies without one."""


class TorchTeam(nn.Module):
    """Actors and critics of a trained team. Get it by `team.to_torch()`.

    Parameters, one module per owner (an agent's are `trunks[sharing.trunk[agent]]`, `heads[sharing.head[agent]]`):
    `trunks.0.*` of what an actor computes before its last layer (the standard network: feature_norm, fc1, fc1_norm, …,
    gru, gru_norm; else those of the plug-in's module), `heads.0.weight`, `heads.0.bias` of the last layer, `log_std.0`
    of Gaussian policies (σ = 0.5·sigmoid of it, or its exponential with gaussian_std = exp); `critics.0.*`,
    `values.0.*` likewise of critics. Buffers `value_mean` and `value_std` [owners] turn their outputs into returns.
    """

    def __init__(self, run: Trained) -> None:
        super().__init__()
        actor, critic, self.sharing = run.actor, run.critic, run.actor.sharing
        self._actor = actor
        self.memory_sizes = (actor.trunk.memory, critic.trunk.memory)
        """Numbers that actors and critics carry from step to step; 0: none."""
        self.trunks = nn.ModuleList(actor.trunk.module(p) for p in _rows(actor.trunk_layout, run.trunks))
        heads = _rows(actor.head_layout, run.heads)
        self.heads = nn.ModuleList(_linear(p, "head") for p in heads)
        self.log_std = nn.ParameterList(p["head.log_std"].clone() for p in heads if "head.log_std" in p)
        critics = _rows(critic.layout, run.critics)
        self.critics = nn.ModuleList(critic.trunk.module(p) for p in critics)
        self.values = nn.ModuleList(_linear(p, "v_out") for p in critics)
        self.value_mean: Tensor
        self.value_std: Tensor
        for name, units in zip(("value_mean", "value_std"), run.value_units, strict=True):
            self.register_buffer(name, units)
        action = run.spec.action
        used = None if action.used is None else torch.arange(action.width) < torch.tensor(action.used)[:, None]
        self._used: Tensor | None
        self.register_buffer("_used", used, persistent=False)
        self.eval()

    def forward(self, observation: Tensor, available: Tensor | None = None, memory: Tensor | None = None) -> Acted:
        """The team's actions on observations [N, A, O]; available [N, A, D]: legal choices. memory [N, A, H]: of
        recurrent policies, zeros at the start of an episode."""
        distribution, after = self.distribution(observation, available, memory)
        return Acted(self._actor.mode(distribution), distribution.location, after)

    def distribution(
        self, observation: Tensor, available: Tensor | None = None, memory: Tensor | None = None
    ) -> tuple[Distribution, Tensor | None]:
        """The policies, and the memory after the step; arguments as of `forward`."""
        found = [
            _called(self.trunks[trunk], observation[:, a], _of(available, a), _of(memory, a))
            for a, trunk in enumerate(self.sharing.trunk)
        ]
        outputs = torch.stack([self.heads[h](x) for h, (x, _) in zip(self.sharing.head, found, strict=True)], 1)
        after = torch.stack([state for _, state in found if state is not None], 1) if self.memory_sizes[0] else None
        if self._actor.action.kind == "gaussian":
            psi = torch.stack([self.log_std[h] for h in self.sharing.head])
            std = self._actor.std(psi[None])[0].squeeze((1, 2))
            return Distribution(outputs, std.expand_as(outputs)), after
        if available is not None:
            outputs = torch.where(available, outputs, UNAVAILABLE)
        parts = [torch.log_softmax(part, -1) for part in outputs.split(self._actor.action.sizes, -1)]
        return Distribution(torch.cat(parts, -1), None), after

    def log_prob(
        self, observation: Tensor, action: Tensor, available: Tensor | None = None, memory: Tensor | None = None
    ) -> Tensor:
        """log π(action) of every agent, [N, A]; action as `forward` returns it."""
        return self._actor.log_prob(self.distribution(observation, available, memory)[0], action, self._used)

    def value(self, state: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Expected returns [N, A] of states [N, A, S], and the critics' memory [N, A, H] after the step."""
        owners = self.sharing.trunk
        found = [_called(self.critics[o], state[:, a], None, _of(memory, a)) for a, o in enumerate(owners)]
        outputs = torch.cat([self.values[o](x) for o, (x, _) in zip(owners, found, strict=True)], -1)
        after = torch.stack([x for _, x in found if x is not None], 1) if self.memory_sizes[1] else None
        return outputs * self.value_std[list(owners)] + self.value_mean[list(owners)], after

    def to_onnx(self, path: str | Path) -> None:
        """Write what `forward` computes as an ONNX file; inputs observation, available (of discrete actions), memory
        (of recurrent policies), outputs action, location, memory_after; the number of environments is free."""
        # Torch's exporter needs it.
        optional_module("onnxscript", "to_onnx needs onnx and onnxscript: pip install onnx onnxscript")
        agents, action = self.sharing.agents, self._actor.action
        given = {"observation": torch.zeros(2, agents, self._actor.trunk.inputs)}
        if action.kind == "categorical":
            given["available"] = torch.ones(2, agents, action.parameters, dtype=torch.bool)
        if self.memory_sizes[0]:
            given["memory"] = torch.zeros(2, agents, self.memory_sizes[0])
        free = {name: {0: torch.export.Dim("environments")} if name in given else None for name in _INPUTS}
        outputs = ["action", "location", "memory_after"][: 2 + bool(self.memory_sizes[0])]
        arguments = tuple(given.get(name) for name in _INPUTS)
        names = list(given)
        with warnings.catch_warnings(action="ignore"):  # of the exporter, about itself
            torch.onnx.export(
                self, arguments, str(path), input_names=names, output_names=outputs, dynamic_shapes=free, verbose=False
            )


_INPUTS = ("observation", "available", "memory")


def _rows(layout: ParameterLayout, flat: Tensor) -> list[dict[str, Tensor]]:
    """The named parameters of every owner."""
    return [layout.views(row) for row in flat[0].detach()]


def _linear(p: dict[str, Tensor], name: str) -> nn.Linear:
    weight = p[f"{name}.weight"].T
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": p[f"{name}.bias"]})
    return layer


def _called(
    module: nn.Module, x: Tensor, available: Tensor | None, memory: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    result = module(x, available, memory)
    return result if isinstance(result, tuple) else (result, None)


def _of(x: Tensor | None, agent: int) -> Tensor | None:
    return None if x is None else x[:, agent]
