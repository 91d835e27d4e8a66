"""Generalised advantage estimation (with A2PO's off-policy correction) and standardisation. Tensors: [R, T, N, A]."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    continues: Tensor,
    gamma: float,
    gae_lambda: float,
    ratio: Tensor | None = None,
) -> Tensor:
    """A_t = δ_t + γλ·c_{t+1}·m_t·A_{t+1}, δ_t = R_t + γ·m_t·V_{t+1} − V_t.

    m_t is `continues` [R, T, N], 0 where the episode ended at step t; `next_value` [R, N, A] is V after the last step.
    Without `ratio` c = 1. With it, the product ρ of the ratios of agents already updated, c is A2PO's truncated trace
    λ·min(1, ρ): λ then enters twice, as in A2PO's code.
    """
    following = torch.cat((value[:, 1:], next_value[:, None]), 1)
    goes_on = continues[..., None]
    delta = reward + gamma * following * goes_on - value
    decay = gamma * gae_lambda * goes_on.expand_as(delta)
    if ratio is not None:
        trace = torch.cat((ratio[:, 1:], torch.ones_like(ratio[:, :1])), 1).clamp(max=1.0)
        decay = decay * (gae_lambda * trace)
    advantage = torch.empty_like(delta)
    # Split along time once, so that a step of the backward scan is one fused multiply-add on [R, N, A].
    steps = list(zip(delta.unbind(1), decay.unbind(1), advantage.unbind(1), strict=True))
    running = torch.zeros_like(delta[:, 0])
    for d, c, out in reversed(steps):
        running = torch.addcmul(d, c, running, out=out)
    return advantage


def standardise(advantage: Tensor, alive: Tensor, over: Literal["agent", "joint", "none"]) -> Tensor:
    """(A − mean)/(std + 1e-5), std with ddof = 0, over samples with `alive` = 1: of each agent or of all together."""
    if over == "none":
        return advantage
    # Samples last and contiguous: rounding of one replica's sums then does not depend on the number of replicas.
    samples, mask = (x.permute(0, 3, 1, 2).flatten(2).contiguous() for x in (advantage, alive))
    if over == "joint":
        samples, mask = samples.flatten(1)[:, None], mask.flatten(1)[:, None]
    count = mask.sum(-1).clamp(min=1)
    mean = (samples * mask).sum(-1) / count
    centred = samples - mean[..., None]
    std = ((centred**2 * mask).sum(-1) / count).sqrt()
    return (advantage - mean[:, None, None]) / (std[:, None, None] + 1e-5)
