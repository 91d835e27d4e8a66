"""Arrays shared between processes: an unnamed file in memory, which the system frees when the last process ends."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.pettingzoo.spaces import Description


class SharedSnapshot(NamedTuple):
    """The arrays of a `Snapshot` (fp3o/envs/interface.py), before ids are appended."""

    observation: NDArray[np.float32]
    state: NDArray[np.float32]
    alive: NDArray[np.bool_]
    available: NDArray[np.bool_]


class SharedArrays(NamedTuple):
    """All data that the engine and its workers exchange, apart from one-word commands."""

    now: SharedSnapshot
    final: SharedSnapshot
    """Before auto-reset; valid for slots whose episode has just ended."""
    reward: NDArray[np.float64]  # [N, A]
    terminated: NDArray[np.bool_]  # [N]
    truncated: NDArray[np.bool_]  # [N]
    action: NDArray[Any]  # [N, A, width]
    seed: NDArray[np.uint64]  # [N]
    episode: NDArray[np.int64]  # [N] number of the current episode
    length: NDArray[np.int64]  # [N] steps of the current episode so far
    running: NDArray[np.bool_]  # [N] false for frozen slots
    metrics: NDArray[np.float64]  # [N, columns] of the episode that ended last
    progress: NDArray[np.int64]  # [workers, 2] number of finished steps and resets; slot being stepped or reset

    def keep_final(self, slot: int) -> None:
        """What agents see now is what they see last in the episode."""
        for last, now in zip(self.final, self.now, strict=True):
            last[slot] = now[slot]

    def lose_episode(self, slot: int) -> None:
        """Truncate the slot's episode after a failure; the next one has its number."""
        self.keep_final(slot)
        self.reward[slot] = 0.0
        self.terminated[slot], self.truncated[slot] = False, True
        self.episode[slot] += 1


def unnamed_file() -> int:
    """Descriptor of an empty file without a name, in memory (/dev/shm) where the system has that."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryFile(dir=place) as file:
        return os.dup(file.fileno())


def attach(descriptor: int, description: Description, slots: int, workers: int, metrics: int) -> SharedArrays:
    """The shared arrays in the file `descriptor`; processes that pass the same arguments share the same memory.

    metrics: how many numbers an episode has besides return and length.
    """
    agents, sizes, gaussian = len(description.agents), description.sizes, description.kind == "gaussian"
    end = 0

    def array(kind: Any, *shape: int) -> NDArray[Any]:
        """The next array in the file; each has pages of its own."""
        nonlocal end
        place, pages = end, math.ceil(math.prod(shape) * np.dtype(kind).itemsize / mmap.ALLOCATIONGRANULARITY)
        end += max(pages, 1) * mmap.ALLOCATIONGRANULARITY
        if os.fstat(descriptor).st_size < end:
            os.ftruncate(descriptor, end)
        return np.ndarray(shape, kind, mmap.mmap(descriptor, end - place, offset=place))

    def snapshot() -> SharedSnapshot:
        return SharedSnapshot(
            observation=array(np.float32, slots, agents, max(description.observations)),
            state=array(np.float32, slots, description.joint),
            alive=array(np.bool_, slots, agents),
            available=array(np.bool_, slots, agents, sum(sizes)),
        )

    return SharedArrays(
        now=snapshot(),
        final=snapshot(),
        reward=array(np.float64, slots, agents),
        terminated=array(np.bool_, slots),
        truncated=array(np.bool_, slots),
        action=array(np.float64, slots, agents, sizes[0]) if gaussian else array(np.int64, slots, agents, len(sizes)),
        seed=array(np.uint64, slots),
        episode=array(np.int64, slots),
        length=array(np.int64, slots),
        running=array(np.bool_, slots),
        metrics=array(np.float64, slots, metrics),
        progress=array(np.int64, workers, 2),
    )
