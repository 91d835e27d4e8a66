"""Arrays shared between processes: an unnamed file in memory, which the system frees when the last process ends."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.pettingzoo.spaces import Description


@dataclass(frozen=True)
class SharedSnapshot:
    """The arrays of a `Snapshot` (fp3o/envs/interface.py), before ids are appended."""

    observation: NDArray[np.float32]
    state: NDArray[np.float32]
    alive: NDArray[np.bool_]
    available: NDArray[np.bool_]


@dataclass(frozen=True)
class SharedArrays:
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
        for field in fields(SharedSnapshot):
            getattr(self.final, field.name)[slot] = getattr(self.now, field.name)[slot]

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
    agents, width = len(description.agents), len(description.sizes)
    gaussian = description.kind == "gaussian"
    snapshot = {
        "observation": ((slots, agents, max(description.observations)), np.float32),
        "state": ((slots, description.joint), np.float32),
        "alive": ((slots, agents), np.bool_),
        "available": ((slots, agents, sum(description.sizes)), np.bool_),
    }
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        **{f"now.{name}": shape for name, shape in snapshot.items()},
        **{f"final.{name}": shape for name, shape in snapshot.items()},
        "reward": ((slots, agents), np.float64),
        "terminated": ((slots,), np.bool_),
        "truncated": ((slots,), np.bool_),
        "action": ((slots, agents, description.sizes[0] if gaussian else width), np.float64 if gaussian else np.int64),
        "seed": ((slots,), np.uint64),
        "episode": ((slots,), np.int64),
        "length": ((slots,), np.int64),
        "running": ((slots,), np.bool_),
        "metrics": ((slots, metrics), np.float64),
        "progress": ((workers, 2), np.int64),
    }
    places, end = {}, 0
    for name, (shape, kind) in shapes.items():
        places[name] = end
        end += -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 64) * 64  # whole cache lines
    if os.fstat(descriptor).st_size < end:
        os.ftruncate(descriptor, end)
    shared = mmap.mmap(descriptor, end)
    arrays = {
        name: np.ndarray(shape, dtype=kind, buffer=shared, offset=places[name])
        for name, (shape, kind) in shapes.items()
    }
    names = [field.name for field in fields(SharedSnapshot)]
    return SharedArrays(
        now=SharedSnapshot(**{name: arrays[f"now.{name}"] for name in names}),
        final=SharedSnapshot(**{name: arrays[f"final.{name}"] for name in names}),
        **{field.name: arrays[field.name] for field in fields(SharedArrays) if field.name not in ("now", "final")},
    )
