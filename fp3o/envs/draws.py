"""Random numbers for the start states of many slots at once; they depend on slot seed and episode number alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import Doubles, Seeds

# SplitMix64 (Steele, Lea & Flood 2014), a hash of a counter: resetting 128 slots takes some ten array operations,
# whereas 128 NumPy generators would cost more than the physics of the episode.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_TO_DOUBLE = np.uint64(11), 2.0**-53


def _mixed(numbers: Seeds) -> Seeds:
    one, two, three = _SHIFTS
    numbers = (numbers ^ (numbers >> one)) * _FIRST
    numbers = (numbers ^ (numbers >> two)) * _SECOND
    return numbers ^ (numbers >> three)


def uniform_draws(seeds: Seeds, episodes: NDArray[np.int64], count: int) -> Doubles:
    """Numbers in [0, 1), [count, slots]: column i is for episode number episodes[i] of the slot with seed seeds[i]."""
    keys = _mixed(_mixed(seeds) + _INCREMENT * (episodes + 1).astype(np.uint64))
    counters = _INCREMENT * np.arange(1, count + 1, dtype=np.uint64)
    shift, scale = _TO_DOUBLE
    numbers = (_mixed(counters[:, None] + keys) >> shift).astype(np.float64)
    return numbers * scale
