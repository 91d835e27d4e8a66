"""Options of each domain's environments; fp3o/config/domains.py has everything else about a domain.

Apart from the simulators, so that they can be checked and hashed without importing MuJoCo or numba.
"""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fp3o.config.metrics import parse_metrics
from fp3o.errors import UserError
from fp3o.fields import AddedLater, Bounds, ReadWith


@dataclass(frozen=True)
class MamujocoOptions:
    """One field for every peculiarity of the released wrapper and its alternatives. Defaults are the release's."""

    action_order: Literal["agent", "joint"] = "agent"
    """agent: actions, in agent order, meet the actuators in model order, so that HalfCheetah's back foot agent drives
    the back thigh (release: the joints' actuator numbers are never read). joint: every agent drives the joints it
    watches (gymnasium-robotics)."""
    observability: Literal["local", "full"] = "local"
    """local: joints within `neighbour_distance`. full: every agent sees the critic's observation (HAPPO's code)."""
    neighbour_distance: Annotated[int, Bounds(0, 100)] = 5
    """Edges of the body's joint graph an agent sees along (release: agent_obsk = 5); positions only beyond its own."""
    agent_id: bool = True
    """Append the one-hot agent number to observations and critic states (release), or not (multiagent_mujoco)."""
    standardise: bool = True
    """(x − mean) / std over the entries of each single vector, padding and id included (release), or raw values."""
    episode_limit: Annotated[int, Bounds(1, 1_000_000)] = 1000
    """Steps per episode. The release forces 1000 on all tasks, also on Reacher, whose own limit is 50."""
    contact_margins: Literal["halved", "model"] = "halved"
    """MuJoCo 3.5 began to add the margins of two geoms where it took the larger; both have the same in Hopper and Ant.
    halved: contacts as in the paper's MuJoCo 2.0. model: as the files say (gymnasium)."""
    ant_contact_forces: Literal["zero", "omitted", "measured"] = "zero"
    """zero: 84 zeros in the critic state and no contact cost (release: MuJoCo 2.0 never filled these forces).
    omitted: without the 84 entries. measured: the forces and their cost as Ant-v2 means them; slower."""
    hopper_x_velocity: Literal["hidden", "shown"] = "hidden"
    """hidden: agents get the vertical velocity in the place of the forward one (release, an index slip)."""
    walker2d_root: Literal["hidden", "shown"] = "hidden"
    """hidden: agents see no torso coordinates (release). shown: height, angle and velocities, as for HalfCheetah."""
    walker2d_velocity: Literal["raw", "clipped"] = "raw"
    """raw: agents' joint velocities are not clipped to ±10 while the critic's are (release)."""
    reacher_goal: Literal["square", "disc"] = "square"
    """square: goals anywhere in [−0.2, 0.2]² (gym 0.10.8 compares the norm with 2). disc: within reach, norm < 0.2."""
    reacher_distance: Literal["before", "after"] = "before"
    """Whether a step's reward takes the distance before its motion (v2) or after it (v5)."""
    alive_bonus_at_end: bool = True
    """Pay the alive bonus on the step that ends the episode too (v2) or not (v5)."""


@dataclass(frozen=True)
class MpeOptions:
    """Which of the two environments that share a name, and what agents see."""

    flavour: Literal["mappo", "mpe2"] = "mappo"
    """mappo: the paper's environment (on-policy's copy). mpe2: the maintained package, with another integrator, move
    order, reward and horizon."""
    agent_id: bool = True
    """Append the one-hot agent number to observations: a network shared by all agents cannot tell them apart without
    (speaker and listener), and on-policy never shares there. on-policy: no id."""
    critic_agent_id: bool = False
    """Append it to the critic's input too (on-policy: the concatenated observations alone)."""


EMBEDDED = ReadWith("backend", "embedded")


@dataclass(frozen=True)
class SmacOptions:
    """Which engine plays the battle and what agents see of it."""

    backend: Literal["embedded", "starcraft2", "auto"] = "embedded"
    """embedded: our battle engine. starcraft2: the real game through the smac package. auto, for runs by hand: the real
    game where both are installed; replaced by what it finds at once, so that no run is called auto."""
    layout: Literal["agent", "default"] = "agent"
    """agent: what the paper trained on (last actions, agent id, agent-specific state). default: the smac package's."""
    profile: Literal["liberty", "legacy"] = "liberty"
    """Unit data of the embedded engine. liberty: what SMAC's maps load. legacy: Legacy of the Void, for comparison."""
    choke_width: Annotated[float, Bounds(1, 6)] = 4.0
    """Cells between the corridor map's chambers; the map archive allows 2 to 6."""
    engine_revision: Annotated[int, Bounds(2, 3), AddedLater(2), EMBEDDED] = 3
    """Of the embedded engine. 3: units that are hit call for help and chase attackers, missiles as fast as in the
    catalogue. 2: none of this; to repeat and continue older runs."""
    help_radius: Annotated[float, Bounds(0, 32), AddedLater(4.0), EMBEDDED] = 4.0
    """Cells within which friends of a unit that is hit come to its help (catalogue: 4). Not in revision 2."""
    scan_period: Annotated[int, Bounds(1, 8), AddedLater(4), EMBEDDED] = 4
    """Game loops after which a unit that walks to a target looks for a nearer one: 1, 2, 4 or 8. Assumed."""
    attacker_load: Annotated[float, Bounds(0, 10), AddedLater(1.2), EMBEDDED] = 1.2
    """Steering: the cost of a heading that runs into a friend that fights, or into a wall. Calibrated."""
    side_bonus: Annotated[float, Bounds(0, 10), AddedLater(0.8), EMBEDDED] = 0.8
    """Steering: what a heading gains that goes around others on the same side as last time. Calibrated."""

    def __post_init__(self) -> None:
        if self.backend == "auto":
            object.__setattr__(self, "backend", "starcraft2" if _has_starcraft2() else "embedded")
        if self.scan_period not in (1, 2, 4, 8):
            raise UserError(f"scan_period = {self.scan_period} is not allowed; allowed: 1, 2, 4, 8")
        if self.help_radius != 4.0 and self.engine_revision == 2:
            raise UserError("help_radius needs engine_revision = 3; allowed without it: 4, which is not read")


def game_folder() -> Path:
    """Where pysc2 looks for StarCraft II."""
    return Path(os.environ.get("SC2PATH", "~/StarCraftII")).expanduser()


def smac_class() -> Any:
    """smac.env.StarCraft2Env. ImportError without the package, AttributeError with the tuner of that name on PyPI."""
    return getattr(importlib.import_module("smac.env"), "StarCraft2Env")  # noqa: B009 (mypy knows no such package)


def _has_starcraft2() -> bool:
    """Whether the game is where pysc2 looks for it, and the smac package is the right one."""
    with suppress(ImportError, AttributeError):
        return game_folder().is_dir() and smac_class() is not None
    return False


@dataclass(frozen=True)
class PettingzooOptions:
    """A user-supplied PettingZoo environment."""

    env: str = ""
    """Import path `module:factory` of a function returning a PettingZoo ParallelEnv, or a name in the registry; empty:
    the task's name is such a name."""
    reward: Literal["mean", "sum", "own"] = "mean"
    """What agents are trained on: the mean or sum over all agents of their rewards (cooperative), or each its own."""
    agent_id: bool = True
    """Append the one-hot agent number to observations, so that a shared network can tell agents apart."""
    episode_limit: Annotated[int, Bounds(1, 1_000_000)] = 1000
    """Episodes still running after so many steps are cut: a time limit, not an end."""
    timeout: Annotated[float, Bounds(0.001, 86_400)] = 60.0
    """Seconds after which a step or reset that has not returned counts as hanging."""
    lost_share: Annotated[float, Bounds(0, 1), AddedLater(0.01)] = 0.01
    """Share of episodes that may be lost to an environment that raises, dies or returns unsound numbers. Each is built
    anew, counted and named; beyond this share, and more than three in all, the run fails."""
    env_args: Annotated[str, AddedLater("")] = ""
    """What the factory is called with: name=value,name=value (numbers, true, false, null or text), or a JSON object."""
    metrics: Annotated[str, AddedLater("")] = ""
    """More columns of evaluations.csv, from the infos (`caught:sum,energy:last:agent`) or the rewards
    (`return:sum:agent`, `return:sum:type`); how: sum, mean, last, max, min over steps; whose: team, agent, type; or a
    plug-in's (`fairness`, `fairness:type`)."""

    def __post_init__(self) -> None:
        parse_metrics(self.metrics)


@dataclass(frozen=True)
class MatrixOptions:
    """The tiny games have no options."""
