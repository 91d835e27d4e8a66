"""Random numbers of a battle: hashes of seed, episode, game loop, unit and purpose. There is no generator to save."""

from __future__ import annotations

import numpy as np

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.ranges import Records
from fp3o.envs.smac.constants import GOLDEN_RATIO, MIX_1, MIX_2, PURPOSE_ORDER, F


@inner
def scramble(h: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64, a hash: every bit of the input changes every bit of the output."""
    h = (h ^ (h >> np.uint64(30))) * MIX_1
    h = (h ^ (h >> np.uint64(27))) * MIX_2
    return h ^ (h >> np.uint64(31))


@inner
def moment(seed: np.uint64, episode: int, tick: int) -> np.uint64:
    """The hash of a game loop, from which `uniform` draws."""
    place = (np.uint64(episode) << np.uint64(32)) ^ np.uint64(tick)
    return scramble(scramble(seed + GOLDEN_RATIO) ^ place)


@inner
def uniform(now: np.uint64, unit: int, purpose: np.uint64) -> np.float32:
    """A random number in [0, 1)."""
    use = (np.uint64(unit) << np.uint64(8)) ^ purpose
    h = scramble(now + use * GOLDEN_RATIO)
    return F(h >> np.uint64(40)) * F(1.0 / 16777216.0)


@inner
def shuffle(now: np.uint64, w: Records) -> None:
    """A random order of units for choosing targets: the first get the best free places, of either side."""
    for u in range(w.shape[0]):
        w[u].order = u
    for last in range(w.shape[0] - 1, 0, -1):
        draw = uniform(now, last, PURPOSE_ORDER)
        other = int(draw * F(last + 1))
        w[last].order, w[other].order = w[other].order, w[last].order
