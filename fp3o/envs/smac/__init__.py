"""SMAC: the real StarCraft II where it is installed, an embedded battle engine everywhere else."""

from __future__ import annotations

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import BatchEnv
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.errors import unknown


def make(task: str, slots: int, *, auto_reset: bool, threads: int, options: SmacOptions) -> BatchEnv:
    """N battles; `task` is the map's name in SMAC."""
    if task not in SCENARIOS:
        raise unknown("task", task, SCENARIOS, "smac")
    # Imported on demand: listing the maps must not wait for numba.
    if options.backend == "starcraft2":
        from fp3o.envs.smac.starcraft2 import StarCraft2Battles

        return StarCraft2Battles(SCENARIOS[task], slots, auto_reset=auto_reset, options=options)
    from fp3o.envs.smac.embedded import EmbeddedBattles

    return EmbeddedBattles(SCENARIOS[task], slots, auto_reset=auto_reset, threads=threads, options=options)
