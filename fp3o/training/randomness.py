"""Everything random: counter-based generators keyed by seed, purpose and time, so there is no state to save.

A seed alone and the same seed in a stack draw the same numbers, because each replica has its own generator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

STREAMS = ("initialisation", "actions", "minibatches", "turns")


def generator(seed: int, stream: str, *time: int) -> np.random.Generator:
    """The generator of one seed for one purpose at one time (iteration, turn, …)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, STREAMS.index(stream), *time])))


class Draws:
    """Random decisions of one iteration's update, for all replicas."""

    def __init__(self, seeds: Sequence[int], iteration: int, device: torch.device | str = "cpu") -> None:
        self._seeds, self._iteration, self._device = seeds, iteration, device
        self._turns = [generator(seed, "turns", iteration) for seed in seeds]
        self._turn, self._minibatches = -1, self._turns

    def uniform(self, *shape: int) -> Tensor:
        """[R, *shape] in [0, 1)."""
        draws = np.stack([g.random(shape, dtype=np.float32) for g in self._turns])
        return torch.from_numpy(draws).to(self._device)

    def permutations(self, turn: int, epoch: int, count: int, units: int) -> Tensor:
        """[R, count, units]: an order of the samples for each of `count` agents, in the given epoch of a turn."""
        if turn != self._turn:
            self._turn = turn
            self._minibatches = [generator(s, "minibatches", self._iteration, turn) for s in self._seeds]
        straight = np.broadcast_to(np.arange(units), (count, units))
        return torch.from_numpy(np.stack([g.permuted(straight, axis=1) for g in self._minibatches]))
