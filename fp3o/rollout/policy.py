"""Acting: the policies of R replicas compute the actions for R × N environments in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fp3o.envs.checks import all_finite
from fp3o.envs.interface import ActionSpec, Snapshot
from fp3o.networks.actor import Actor, Owners


class Policy:
    """The actors of R replicas on the CPU, acting for all their environments in one call."""

    device = torch.device("cpu")

    def __init__(self, actor: Actor, replicas: int, slots: int) -> None:
        """slots: environments per replica."""
        self.actor, self.replicas, self.slots = actor, replicas, slots
        self.agents = actor.sharing.agents
        self.shown: dict[str, NDArray[Any]] = {}
        """Arrays [R·N, A, …] from which it takes what agents see, by the names of a `Snapshot`; snapshots in other
        arrays are copied there. Empty: it reads snapshots where they are."""
        shape = (replicas, self.agents, slots, actor.trunk.memory)
        self.hidden = torch.zeros(shape, device=self.device) if actor.trunk.memory else None
        self.history: Tensor | None = None
        self._frames: NDArray[Any] | None = None
        self._found: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._owners = Owners(*(self._rows(o) for o in (actor.sharing.trunk, actor.sharing.head)))
        self.compute: Callable[..., tuple[Tensor, ...]] = self.forward
        """Computes `forward`, or a faster form of it."""
        self._layers: dict[str, Tensor] = {}

    def _rows(self, owners: tuple[int, ...]) -> Tensor | None:
        """Parameter rows of the agents, [R, A]; None where agent a uses row a (nothing to gather)."""
        if owners == tuple(range(self.agents)):
            return None
        return torch.tensor(owners, device=self.device).expand(self.replicas, -1)

    def allocate_history(self, steps: int, pinned: bool, state_size: int | None = None) -> dict[str, Tensor]:
        """From now on record the GRU state before each step of a rollout, in `history` [R, T, N, A, H]. Returns what
        else it records, [R, T, N, A, …] by name: of what agents see, and states of this size."""
        if self.hidden is not None:
            shape = (self.replicas, steps, self.slots, self.agents, self.actor.trunk.memory)
            self.history = torch.zeros(shape, pin_memory=pinned)
            self._frames = self.history.numpy().swapaxes(0, 1)
        return {}

    def restart(self) -> None:
        """Reset the recurrent state."""
        if self.hidden is not None:
            self.hidden = torch.zeros_like(self.hidden)

    def restore(self, hidden: Tensor) -> None:
        """Set the recurrent state to a saved one."""
        self.hidden = hidden

    @torch.no_grad()
    def load(self, trunks: Tensor, heads: Tensor) -> None:
        """Use these parameters [R, owners, size]; the weights derived from them are computed here, once."""
        rows = self.actor.rows(trunks.detach().to(self.device), heads.detach().to(self.device), self._owners)
        self._layers = {name: x.clone() for name, x in self.actor.layers(rows).items()}

    def act(
        self, snapshot: Snapshot, keep: NDArray[np.float32], noise: Tensor | None, time: int = 0
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Distribution parameters and actions, [R, N, A, …], for the observations of all R·N slots.

        keep [R, N]: 0 where a slot starts an episode. noise: for drawing actions; None: the distributions' mode. time:
        number of the step in a rollout.
        """
        self.begin(snapshot, keep, noise, time)
        return self.finish()

    def begin(self, snapshot: Snapshot, keep: NDArray[np.float32], noise: Tensor | None, time: int) -> None:
        """The first half of `act`: start computing. A GPU computes while the CPU does other work.

        Call within no_grad, entered once for all steps: here it would take a tenth of a step.
        """
        if self._frames is not None and self.hidden is not None:
            self._frames[time] = self.hidden.transpose(1, 2).numpy()
        shape = (self.replicas, self.slots, self.agents, -1)
        observation = torch.from_numpy(snapshot.observation).view(shape)
        available = None if snapshot.available is None else torch.from_numpy(snapshot.available).view(shape)
        location, action, *hidden = self.compute(
            self._layers, observation, available, self.hidden, torch.from_numpy(keep), noise
        )
        self.hidden = hidden[0].contiguous() if hidden else None
        self._found = location.numpy(), action.numpy()

    def finish(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The second half of `act`: wait for the results and return them."""
        assert self._found is not None
        return self._found

    def forward(
        self,
        layers: dict[str, Tensor],
        observation: Tensor,
        available: Tensor | None,
        hidden: Tensor | None,
        keep: Tensor,
        noise: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """One step of all agents: location (see `Distribution`), action and, with GRUs, the hidden state after it.

        keep [R, N] is 0 where a slot starts an episode.
        """
        distribution, hidden = self.actor.distribution(
            layers,
            observation.transpose(1, 2)[:, :, :, None],
            None if available is None else available.transpose(1, 2)[:, :, :, None],
            hidden,
            None if hidden is None else keep[:, None, :, None].expand(-1, self.agents, -1, -1),
        )
        if noise is None:
            action = self.actor.mode(distribution)
        else:
            action = self.actor.sample(distribution, noise.transpose(1, 2)[:, :, :, None])
        chosen = (distribution.location[:, :, :, 0].transpose(1, 2), action[:, :, :, 0].transpose(1, 2))
        return chosen if hidden is None else (*chosen, hidden)


MakePolicy: TypeAlias = Callable[[Actor, int, int], Policy]
"""Makes the policy of an actor that acts for so many replicas in so many slots each."""


def noise_of(spec: ActionSpec, source: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Noise for drawing actions, [*shape, numbers]: standard normal for Gaussian, uniform for categorical actions."""
    draw = source.standard_normal if spec.kind == "gaussian" else source.random
    return draw((*shape, spec.width), np.float32)


NONE = np.empty(0, np.intp)


def playable(
    spec: ActionSpec, location: NDArray[Any], action: NDArray[Any], snapshot: Snapshot
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Actions [R·N, A, …] for the engine, from [R, N, A, …], and the slots whose numbers are not finite.

    Those slots get zeros or the first legal choice: a diverged replica must not stop the others.
    """
    slots, agents = snapshot.alive.shape
    actions = action.reshape(slots, agents, -1)
    continuous = spec.kind == "gaussian"
    numbers = action if continuous else location
    if all_finite(numbers):
        return actions, NONE
    bad = ~np.isfinite(numbers).reshape(slots, -1).all(1)
    actions = actions.copy()
    if continuous or snapshot.available is None:
        actions[bad] = 0
    else:
        ends = np.cumsum(spec.sizes)
        for part, (end, size) in enumerate(zip(ends, spec.sizes, strict=True)):
            actions[bad, :, part] = snapshot.available[bad, :, end - size : end].argmax(-1)
    return actions, np.flatnonzero(bad)
