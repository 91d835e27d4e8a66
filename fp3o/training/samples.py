"""From a rollout to minibatches: the numbers a turn adds to each sample, and the rows that samples stand in.

A sample is one agent's step. All samples of a rollout form one axis of R·T·N·A rows; a minibatch is a tensor of row
numbers [R, K, units, L] (K agents, `units` single steps or chunks of L steps along time).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fp3o.algorithms.turns import Context, Rollout, Turn
from fp3o.config.settings import Settings
from fp3o.errors import UserError


class Samples(NamedTuple):
    """What a turn adds to the rollout: [R, T, N, A] before packing, [R, K, units, L] of a minibatch."""

    log_prob: Tensor  # under the rollout policy
    advantage: Tensor
    weight: Tensor  # on the advantage
    value: Tensor  # predicted at rollout, normalised
    keep: Tensor  # 0 where a step is the first of its episode
    returns: Tensor  # critic targets in reward units
    alive: Tensor


class Targets(NamedTuple):
    """The part of `Samples` that the normaliser and the loss weights need."""

    returns: Tensor
    alive: Tensor


def pack(context: Context, turn: Turn) -> Tensor:
    """The fields of `Samples` side by side, [R·T·N·A, fields]: one gather per minibatch fetches them all."""
    rollout = context.rollout
    weight = torch.ones_like(rollout.log_prob) if turn.weight is None else turn.weight
    samples = Samples(
        log_prob=rollout.log_prob,
        advantage=context.advantage if turn.advantage is None else turn.advantage,
        weight=weight,
        value=rollout.value,
        keep=rollout.keep[..., None].expand_as(weight),
        returns=context.returns if turn.returns is None else turn.returns,
        alive=rollout.alive,
    )
    return torch.stack(samples, -1).flatten(0, 3)


def unpack(packed: Tensor, rows: Tensor) -> Samples:
    """The samples at `rows` [R, K, units, L]."""
    return Samples(*packed.index_select(0, rows.flatten()).view(*rows.shape, -1).unbind(-1))


def unpack_targets(packed: Tensor, rows: Tensor) -> Targets:
    """Critic targets and who is alive at `rows`, [R, K, units·L] each."""
    first = Samples._fields.index("returns")
    picked = packed[:, first:].index_select(0, rows.flatten()).view(*rows.shape, -1)
    return Targets(*(x.flatten(2) for x in picked.unbind(-1)))


def unit_rows(rollout: Rollout, settings: Settings) -> Tensor:
    """Row offsets [units, L] into a replica's [T, N, A]: samples, or chunks along time, environment by environment.

    Where chunks do not divide the rollout they straddle environments, which is right only if every rollout starts an
    episode in every environment: the hidden state is then reset at the seam.
    """
    _, times, slots, agents = rollout.log_prob.shape
    length = settings.chunk_length if settings.recurrent else 1
    if times % length:
        if times * slots % length:
            raise UserError(f"chunk_length {length} does not divide rollout_length × rollout_threads = {times * slots}")
        if rollout.keep[:, 0].any():
            raise UserError(
                f"chunk_length {length} does not divide rollout_length {times}, and episodes cross rollouts"
            )
    index = torch.arange(times * slots, device=rollout.log_prob.device)
    slot, time = index // times, index % times
    return ((time * slots + slot) * agents).view(-1, length)


def agent_rows(rollout: Rollout, agents: Tensor, units: Tensor, order: Tensor | None) -> Tensor:
    """Rows [R, K, units, L] of the samples of agents [R, K], in the given order of units [R, K, units]."""
    replicas, times, slots, count = rollout.log_prob.shape
    offset = torch.arange(replicas, device=units.device) * (times * slots * count)
    base = offset[:, None] + agents  # [R, K]
    return base[:, :, None, None] + (units if order is None else units[order])


def pick(values: Tensor, rows: Tensor) -> Tensor:
    """Gather rows [R, K, units, L] of a rollout tensor [R, T, N, A, features]."""
    return values.flatten(0, 3).index_select(0, rows.flatten()).view(*rows.shape, -1)


def pick_available(available: Tensor | None, rows: Tensor) -> Tensor | None:
    """Legal choices, where actions are choices."""
    return None if available is None else pick(available, rows)


def pick_first(hidden: Tensor | None, rows: Tensor) -> Tensor | None:
    """The hidden state [R, K, units, H] before the first step of each chunk."""
    return None if hidden is None else pick(hidden, rows[..., :1])[:, :, :, 0]
