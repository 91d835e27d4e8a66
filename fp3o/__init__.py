"""FP3O and its baselines, reproduced: one training loop for every algorithm and every kind of parameter sharing.

The names in `__all__` are the public API (docs/python.md). They are imported when they are first used, torch only by
those that train or play.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp3o.algorithms.turns import ActorBatch, Context, CriticBatch, Rollout, Turn
    from fp3o.api.run import Run, Table, play, runs
    from fp3o.api.team import Team
    from fp3o.api.torch_team import TorchTeam
    from fp3o.api.training import train
    from fp3o.config.declare import algorithm, environment, metric, network
    from fp3o.envs.interface import BatchEnv, Episode
    from fp3o.errors import UserError
    from fp3o.networks.module_trunk import Inputs
    from fp3o.registry import Setting
    from fp3o.training.callbacks import Callback
    from fp3o.training.callbacks.stopping import StopAtReturn, StopWithoutProgress
    from fp3o.training.callbacks.tensorboard import TensorBoard
    from fp3o.training.callbacks.wandb import WeightsAndBiases

__version__ = "0.1.0"

# On ARM torch allocates by mimalloc, which reads this when torch is imported: milliseconds after which freed memory is
# given back to the system. By default 10, and the page faults of getting it again were a fifth of an eager update.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")

_MODULES = {
    "fp3o.algorithms.turns": ("ActorBatch", "Context", "CriticBatch", "Rollout", "Turn"),
    "fp3o.api.run": ("Run", "Table", "play"),
    "fp3o.api.team": ("Team",),
    "fp3o.api.torch_team": ("TorchTeam",),
    "fp3o.api.training": ("train",),
    "fp3o.config.declare": ("algorithm", "environment", "metric", "network"),
    "fp3o.envs.interface": ("BatchEnv", "Episode"),
    "fp3o.errors": ("UserError",),
    "fp3o.networks.module_trunk": ("Inputs",),
    "fp3o.registry": ("Setting",),
    "fp3o.training.callbacks": ("Callback",),
    "fp3o.training.callbacks.stopping": ("StopAtReturn", "StopWithoutProgress"),
    "fp3o.training.callbacks.tensorboard": ("TensorBoard",),
    "fp3o.training.callbacks.wandb": ("WeightsAndBiases",),
}

__all__ = sorted({"__version__", "runs"}.union(*_MODULES.values()))


def __getattr__(name: str) -> Any:
    if name == "runs":
        return importlib.import_module("fp3o.runs")  # a package that can be called
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'fp3o' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
