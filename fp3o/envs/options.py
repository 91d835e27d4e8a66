"""Options of each domain's environments, and the hand-bumped revision of each engine.

Kept apart from the simulators so that planning can check and hash them without importing MuJoCo or numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class MamujocoOptions:
    """The released wrapper's quirks; each can take the corrected value."""


@dataclass(frozen=True)
class MpeOptions:
    """Which of the two environments behind the same names."""

    flavour: Literal["mappo", "mpe2"] = "mappo"
    """mappo: the paper's environment (on-policy's copy). mpe2: the maintained package, with another integrator, move
    order, reward and horizon."""


@dataclass(frozen=True)
class SmacOptions:
    """Which engine plays the battle and what agents see of it."""

    backend: Literal["embedded", "starcraft2"] = "embedded"
    """embedded: our battle engine. starcraft2: the real game through the smac package."""


@dataclass(frozen=True)
class PettingzooOptions:
    """A stranger's environment."""

    env: str = ""
    """Import path `module:factory` of a function returning a PettingZoo ParallelEnv."""


@dataclass(frozen=True)
class MatrixOptions:
    """The tiny games have none."""


OPTIONS: dict[str, type[Any]] = {
    "mamujoco": MamujocoOptions,
    "mpe": MpeOptions,
    "smac": SmacOptions,
    "pettingzoo": PettingzooOptions,
    "matrix": MatrixOptions,
}

# Bumped by hand when an engine's numbers change (a pinned digest test per engine notices); part of every run's hash.
REVISIONS: dict[str, int] = {"mamujoco": 1, "mpe": 1, "smac": 1, "pettingzoo": 1, "matrix": 1}
