"""Random numbers of training: counter-based generators keyed by seed, purpose and time, so that no state is saved.

Each replica has its own generator, so that a seed trained alone and in a stack draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

STREAMS = ("initialisation", "actions", "minibatches", "turns", "evaluation")


def generator(seed: int, stream: str, *time: int) -> np.random.Generator:
    """The generator of a seed for a purpose (one of STREAMS) at a time: iteration, turn, …"""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, STREAMS.index(stream), *time])))


class Draws:
    """The random numbers of one iteration's update, for all replicas."""

    def __init__(self, seeds: Sequence[int], iteration: int, device: torch.device | str = "cpu") -> None:
        self.iteration = iteration
        self._seeds, self._device = seeds, device
        self._turns = [generator(seed, "turns", iteration) for seed in seeds]
        self._turn, self._minibatches = -1, self._turns

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), [R, *shape]."""
        draws = np.stack([g.random(shape, dtype=np.float32) for g in self._turns])
        return torch.from_numpy(draws).to(self._device)

    def permutations(self, turn: int, epoch: int, count: int, units: int) -> Tensor:
        """Random orders of units for an epoch of a turn, one for each of `count` agents: [R, count, units].

        To be called once per epoch, in order.
        """
        if turn != self._turn:
            self._turn = turn
            self._minibatches = [generator(s, "minibatches", self.iteration, turn) for s in self._seeds]
        straight = np.broadcast_to(np.arange(units), (count, units))
        return torch.from_numpy(np.stack([g.permuted(straight, axis=1) for g in self._minibatches]))
