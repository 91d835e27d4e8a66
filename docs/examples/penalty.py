"""MAPPO with a KL penalty in place of the clip, whose weight adapts to the distance that policies move."""

import torch

import fp3o


def penalised(batch):
    return -batch.ratio * batch.advantage + batch.inputs["beta"] * batch.kl


@fp3o.algorithm(
    "penalty",
    title="KL penalty",
    settings={"kl_target": fp3o.Setting(0.01, "KL(π_k ‖ π) per iteration that the penalty aims at.", 1e-6, 10)},
    state={"beta": 1.0},
)
def penalty(context):
    beta, target = context.state["beta"], context.settings.kl_target
    yield fp3o.Turn(context.settings.epochs, loss=penalised, inputs={"beta": beta}, records={"beta": beta})
    moved = context.log_ratio()
    kl = (moved.exp() - 1 - moved).flatten(1).mean(1)
    factor = torch.where(kl > 1.5 * target, 2.0, torch.where(kl < target / 1.5, 0.5, 1.0))
    context.state["beta"] = (beta * factor).clamp(1e-4, 1e4)
