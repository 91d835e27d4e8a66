"""Generalised advantage estimation, its correction for agents that have moved, standardisation; all [R, T, N, A]."""

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

    continues m_t [R, T, N] is 0 where the episode ended at step t; next_value [R, N, A] follows the last step.
    c = 1, or with the ratio ρ of agents already updated A2PO's trace c = λ·min(1, ρ): λ enters twice, as in its code.
    """
    following = torch.cat((value[:, 1:], next_value[:, None]), 1)
    goes_on = continues[..., None]
    delta = reward + gamma * following * goes_on - value
    decay = gamma * gae_lambda * goes_on.expand_as(delta)
    if ratio is not None:
        trace = torch.cat((ratio[:, 1:], torch.ones_like(ratio[:, :1])), 1).clamp(max=1.0)
        decay = decay * (gae_lambda * trace)
    advantage = torch.empty_like(delta)
    # Unbound once: a step of the scan is one fused multiply-add on [R, N, A].
    steps = list(zip(delta.unbind(1), decay.unbind(1), advantage.unbind(1), strict=True))
    running = torch.zeros_like(delta[:, 0])
    for d, c, out in reversed(steps):
        running = torch.addcmul(d, c, running)
        out.copy_(running)
    return advantage


def standardise(advantage: Tensor, alive: Tensor, over: Literal["agent", "joint", "none"]) -> Tensor:
    """(A − mean)/(std + 1e-5) over the live samples of each agent, or of all agents together; population std."""
    if over == "none":
        return advantage
    # Samples last and in memory order, so that the sums of one replica never depend on how many are stacked.
    samples, mask = (x.permute(0, 3, 1, 2).flatten(2).contiguous() for x in (advantage, alive))
    if over == "joint":
        samples, mask = samples.flatten(1)[:, None], mask.flatten(1)[:, None]
    count = mask.sum(-1).clamp(min=1)
    mean = (samples * mask).sum(-1) / count
    centred = samples - mean[..., None]
    std = ((centred**2 * mask).sum(-1) / count).sqrt()
    return (advantage - mean[:, None, None]) / (std[:, None, None] + 1e-5)
