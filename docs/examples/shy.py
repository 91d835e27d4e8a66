"""MAPPO, then a second pass that trusts an agent less the further the others have moved."""

import torch

import fp3o


@fp3o.algorithm(
    "shy",
    title="Shy",
    colour="#882255",
    settings={"epochs": 4, "shyness": fp3o.Setting(1.0, "How fast trust falls with the others' change.", 0, 100)},
)
def shy(context):
    yield fp3o.Turn(context.settings.epochs)
    moved = context.log_ratio()
    others = (moved.sum(-1, keepdim=True) - moved).abs()
    yield fp3o.Turn(1, 2, weight=torch.exp(-context.settings.shyness * others))
