"""IPPO, MAPPO and CoPPO: all agents learn in one turn."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fp3o.algorithms.turns import Context, Turn


def ppo(context: Context) -> Iterator[Turn]:
    """MAPPO, and IPPO where the critic sees the local observation."""
    yield Turn(context.settings.epochs)


def coppo(context: Context) -> Iterator[Turn]:
    """CoPPO: every agent's ratio times the clipped product of the others' current ratios, per minibatch."""
    settings = context.settings
    replicas, _, _, agents = context.advantage.shape
    others = ~torch.eye(agents, dtype=torch.bool, device=context.advantage.device)
    yield Turn(
        settings.epochs,
        others=others.expand(replicas, -1, -1),
        clip_others=settings.clip_others,
        clip="joint" if settings.joint_gradient else "product",
    )
