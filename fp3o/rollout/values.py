"""Critics evaluate a whole rollout: at once or, with GRUs, along its steps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fp3o.learner.update import EVALUATION_ROWS, Learner
from fp3o.networks.critic import Critic
from fp3o.networks.recurrent import scan
from fp3o.networks.trunk import StandardTrunk

Replayed = Callable[[Callable[[], None]], Callable[[], object]]
# Numbers of a replica's rollout from which critics with GRUs compute at once; several times as many are in memory
# meanwhile. Of SMAC's maps only bane_vs_bane has more, 94 million. A constant, so that results do not depend on a
# machine's memory, and of one replica, so that they do not depend on how many there are.
PIECE = 1 << 24


class Values:
    """Computes critic outputs, in units of the value normaliser, for a whole rollout."""

    def __init__(self, learner: Learner, scan: Scanning | None) -> None:
        """scan: for critics with a memory."""
        flat, rows = learner.stepper.parameters.critic.detach(), learner.sharing.trunk
        identity = rows == tuple(range(len(rows)))
        owners = None if identity else torch.tensor(rows, device=flat.device).expand(len(flat), -1)
        self._layers = learner.critic.layers(learner.critic.rows(flat, owners))
        self._value, self._scan = learner.critic.value, scan
        self.hidden: Tensor | None = None

    def __call__(
        self, state: Tensor, keep: Tensor, last: Tensor, keep_last: Tensor, hidden: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values [R, T, N, A], values after the last step [R, N, A], and GRU states before each step.

        Arguments: critic input and keep of the rollout; the same after the last step; GRU state before the first.
        """
        replicas, times, slots, agents, _ = state.shape
        if self._scan is not None:
            assert hidden is not None
            scanned = self._scan(self._layers, state, keep, last, keep_last, hidden)
            self.hidden = scanned.hidden
            return scanned.value, scanned.next_value, scanned.stored
        rows = state.permute(0, 3, 1, 2, 4).reshape(replicas, agents, times * slots, 1, -1)
        parts = [self._value(self._layers, part, None, None)[0] for part in rows.split(EVALUATION_ROWS, 2)]
        value = torch.cat(parts, 2).view(replicas, agents, times, slots).permute(0, 2, 3, 1).contiguous()
        return value, self.once(last, None), None

    def once(self, state: Tensor, hidden: Tensor | None) -> Tensor:
        """Values [R, N, A] of critic inputs [R, N, A, S], with the GRU state [R, A, N, H] before them."""
        keep = None if hidden is None else torch.ones(*hidden.shape[:3], 1, device=state.device)
        out, _ = self._value(self._layers, state.transpose(1, 2)[:, :, :, None], hidden, keep)
        return out[..., 0].transpose(1, 2).contiguous()

    def after(self, stored: Tensor, time: int) -> Tensor:
        """GRU state [R, A, N, H] after step `time`, before it is reset where an episode ended."""
        if time + 1 < stored.shape[1]:
            return stored[:, time + 1].transpose(1, 2)
        assert self.hidden is not None
        return self.hidden


class Scanned(NamedTuple):
    """Outputs of a critic with a GRU for a whole rollout."""

    value: Tensor  # [R, T, N, A]
    next_value: Tensor  # [R, N, A] of the state after the last step
    stored: Tensor  # [R, T, N, A, H] GRU state before each step
    hidden: Tensor  # [R, A, N, H] after the last step


Scanning: TypeAlias = Callable[[dict[str, Tensor], Tensor, Tensor, Tensor, Tensor, Tensor], Scanned]


def make_scan(
    critic: Critic, replicas: int, steps: int, slots: int, device: torch.device, replayed: Replayed
) -> Scanning | None:
    """Runs critics along rollouts of these sizes; None where they have no memory. replayed: as for `Scan`."""
    if not critic.trunk.memory:
        return None
    if isinstance(critic.trunk, StandardTrunk):
        return Scan(critic, critic.trunk, replicas, steps, slots, device, replayed)
    return functools.partial(scan_by_steps, critic)


def scan_by_steps(
    critic: Critic,
    layers: dict[str, Tensor],
    state: Tensor,
    keep: Tensor,
    last: Tensor,
    keep_last: Tensor,
    hidden: Tensor,
) -> Scanned:
    """What `Scan` computes, for any critic; arguments as of its call."""
    times, agents = state.shape[1], state.shape[3]
    every = torch.cat((state, last[:, None]), 1).permute(0, 3, 2, 1, 4)  # [R, A, N, T + 1, S]
    mask = torch.cat((keep, keep_last[:, None]), 1).transpose(1, 2)[:, None].expand(-1, agents, -1, -1)
    value, states = critic.value(layers, every, hidden, mask)
    assert states is not None
    before = torch.cat((hidden[:, :, :, None], states[:, :, :, : times - 1]), 3)
    return Scanned(
        value[..., :times].permute(0, 3, 2, 1).contiguous(),
        value[..., times].transpose(1, 2).contiguous(),
        before.permute(0, 3, 2, 1, 4).contiguous(),
        states[:, :, :, times - 1].clone(),
    )


class Scan:
    """Runs a critic with a GRU along a rollout of T steps. What does not depend on the GRU's state is computed for all
    steps at once, the state step by step."""

    def __init__(
        self,
        critic: Critic,
        trunk: StandardTrunk,
        replicas: int,
        steps: int,
        slots: int,
        device: torch.device,
        replayed: Replayed = lambda run: run,
    ) -> None:
        """replayed: gives a faster form of a function that computes from fixed addresses to fixed addresses."""
        self.critic, self.trunk, self.steps, self._replayed = critic, trunk, steps, replayed
        agents, width = critic.sharing.agents, trunk.width
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
            self._run = self._replayed(self.run)
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
        gates = self.trunk.gate_inputs(layers, rows).view(replicas, owners, each, state.shape[1], slots, -1)
        return gates.permute(3, 0, 1, 2, 4, 5)

    @torch.no_grad()
    def run(self) -> None:
        """Compute the states after the first."""
        weight, bias = self._weights["gru.weight_hh"], self._weights["gru.bias_hh"]
        scan(self._inputs, self._keep, self._states[0], weight, bias, self._states[1:])
