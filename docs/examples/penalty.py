"""MAPPO with a KL penalty in place of the clip."""

import fp3o


def penalised(batch):
    return -batch.ratio * batch.advantage + batch.inputs["beta"] * batch.kl


@fp3o.algorithm("penalty", settings={"beta": fp3o.Setting(1.0, "Weight of the KL penalty.", 0, 1e6)})
def penalty(context):
    yield fp3o.Turn(context.settings.epochs, loss=penalised, inputs={"beta": context.settings.beta})
