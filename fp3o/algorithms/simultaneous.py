"""IPPO, MAPPO and CoPPO: all agents learn in one turn."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fp3o.algorithms.turns import Context, Turn


def ppo(context: Context) -> Iterator[Turn]:
    """PPO for all agents at once: MAPPO, or IPPO where the critic sees the agent's own observation."""
    yield Turn(context.settings.epochs)


def coppo(context: Context) -> Iterator[Turn]:
    """CoPPO: each agent's ratio is multiplied by the clipped product of the others' current ratios."""
    settings = context.settings
    replicas, _, _, agents = context.advantage.shape
    others = ~torch.eye(agents, dtype=torch.bool, device=context.advantage.device)
    yield Turn(
        settings.epochs,
        others=others.expand(replicas, -1, -1),
        clip_others=settings.clip_others,
        clip="joint" if settings.joint_gradient else "product",
    )
