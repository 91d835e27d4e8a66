"""IPPO, MAPPO and CoPPO: all agents learn in one turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fp3o.algorithms.turns import ClipOthers, Context, Turn
from fp3o.config.declare import algorithm


@algorithm("mappo", colour="#009E73")
@algorithm("ippo", colour="#CC79A7", critic_input="observation")
def ppo(context: Context) -> Iterator[Turn]:
    """PPO for all agents at once: MAPPO, or IPPO where the critic sees the agent's own observation."""
    yield Turn(context.settings.epochs)


@dataclass(frozen=True)
class CoppoSettings(ClipOthers):
    """CoPPO's own."""

    joint_gradient: bool = False
    """CoPPO: gradient through all agents' ratios (authors' code) instead of detached others (default)."""


@algorithm("coppo", title="CoPPO", colour="#56B4E9", settings=CoppoSettings)
def coppo(context: Context) -> Iterator[Turn]:
    """CoPPO: each agent's ratio is multiplied by the clipped product of the others' current ratios."""
    import torch

    own = context.own(CoppoSettings)
    replicas, _, _, agents = context.advantage.shape
    others = ~torch.eye(agents, dtype=torch.bool, device=context.advantage.device)
    yield Turn(
        context.settings.epochs,
        others=others.expand(replicas, -1, -1),
        clip_others=own.clip_others,
        clip="joint" if own.joint_gradient else "product",
    )
