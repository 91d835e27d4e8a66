"""Multi-Agent MuJoCo: six robots, their joints divided among agents as in the release."""

from __future__ import annotations

from fp3o.config.options import MamujocoOptions
from fp3o.envs.mamujoco.bodies import task_names
from fp3o.envs.mamujoco.engine import MamujocoBatch

__all__ = ["MamujocoBatch", "make", "task_names"]


def make(
    task: str,
    slots: int,
    *,
    auto_reset: bool = True,
    threads: int = 0,
    options: MamujocoOptions | None = None,
) -> MamujocoBatch:
    """N environments of a task. threads: 0 lets the engine choose."""
    return MamujocoBatch(task, slots, auto_reset, threads, options or MamujocoOptions())
