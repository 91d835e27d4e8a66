"""Arrays that several processes see: one unnamed file in memory, gone when the last process is."""

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
class View:
    """What agents see, as in the protocol's Snapshot."""

    observation: NDArray[np.float32]
    state: NDArray[np.float32]
    alive: NDArray[np.bool_]
    available: NDArray[np.bool_]


@dataclass(frozen=True)
class Board:
    """All that passes between the engine and its workers, beside one-word commands."""

    now: View
    final: View
    """Before auto-reset; rows of slots that have just ended."""
    reward: NDArray[np.float64]  # [N, A]
    terminated: NDArray[np.bool_]  # [N]
    truncated: NDArray[np.bool_]  # [N]
    action: NDArray[Any]  # [N, A, width]
    seed: NDArray[np.uint64]  # [N]
    episode: NDArray[np.int64]  # [N] number of the running episode
    length: NDArray[np.int64]  # [N] steps of the running episode
    running: NDArray[np.bool_]  # [N]
    progress: NDArray[np.int64]  # [workers, 2] steps or resets finished, slot at work


def unnamed_file() -> int:
    """A descriptor of an empty file that has no name, in memory where the system has such a place."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryFile(dir=place) as file:
        return os.dup(file.fileno())


def attach(descriptor: int, description: Description, slots: int, workers: int) -> Board:
    """The same arrays over the same file in whichever process calls this with the same numbers."""
    agents, width = len(description.agents), len(description.sizes)
    gaussian = description.kind == "gaussian"
    view = {
        "observation": ((slots, agents, max(description.observations)), np.float32),
        "state": ((slots, description.joint), np.float32),
        "alive": ((slots, agents), np.bool_),
        "available": ((slots, agents, sum(description.sizes)), np.bool_),
    }
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        **{f"now.{name}": shape for name, shape in view.items()},
        **{f"final.{name}": shape for name, shape in view.items()},
        "reward": ((slots, agents), np.float64),
        "terminated": ((slots,), np.bool_),
        "truncated": ((slots,), np.bool_),
        "action": ((slots, agents, description.sizes[0] if gaussian else width), np.float64 if gaussian else np.int64),
        "seed": ((slots,), np.uint64),
        "episode": ((slots,), np.int64),
        "length": ((slots,), np.int64),
        "running": ((slots,), np.bool_),
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
    names = [field.name for field in fields(View)]
    return Board(
        now=View(**{name: arrays[f"now.{name}"] for name in names}),
        final=View(**{name: arrays[f"final.{name}"] for name in names}),
        **{field.name: arrays[field.name] for field in fields(Board) if field.name not in ("now", "final")},
    )
