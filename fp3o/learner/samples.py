"""From a rollout to minibatches: the numbers that a turn adds to each sample, and the row numbers of samples.

A sample is one step of one agent. All samples of a rollout are the R·T·N·A rows of one axis; a minibatch is a tensor of
row numbers [R, K, units, L]: K agents, and as units single steps (L = 1) or chunks of L consecutive steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fp3o.algorithms.turns import Context, Rollout, Turn
from fp3o.config.settings import Settings
from fp3o.errors import UserError


class Samples(NamedTuple):
    """The numbers of a sample that losses need: [R, T, N, A] for a rollout, [R, K, units, L] for a minibatch."""

    log_prob: Tensor  # under the policy that collected the rollout
    advantage: Tensor
    weight: Tensor  # factor on the advantage
    value: Tensor  # critic output during the rollout, in units of the value normaliser
    keep: Tensor  # 0 where a step is the first of its episode, else 1
    returns: Tensor  # critic targets in reward units
    alive: Tensor  # 1, or 0 where the agent was dead


class Targets(NamedTuple):
    """The part of `Samples` that is needed for the value normaliser and the loss weights."""

    returns: Tensor
    alive: Tensor


def pack(context: Context, turn: Turn) -> Tensor:
    """The `Samples` of a turn as columns of one tensor [R·T·N·A, fields], so that one gather per minibatch suffices."""
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
    """The targets at `rows` [R, K, units, L], as [R, K, units·L] each."""
    first = Samples._fields.index("returns")
    picked = packed[:, first:].index_select(0, rows.flatten()).view(*rows.shape, -1)
    return Targets(*(x.flatten(2) for x in picked.unbind(-1)))


def unit_rows(rollout: Rollout, settings: Settings) -> Tensor:
    """Rows [units, L] of agent 0's samples within a replica: single steps, or chunks of consecutive steps.

    Environments follow one another. If the chunk length does not divide the rollout's, chunks continue in the next
    environment; that is correct only if rollouts start with an episode, as the GRU state is then reset there.
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
    """Rows [R, K, units, L] of the samples of agents [R, K]; order [R, K, units]: of the units, None: as they are."""
    replicas, times, slots, count = rollout.log_prob.shape
    offset = torch.arange(replicas, device=units.device) * (times * slots * count)
    base = offset[:, None] + agents  # [R, K]
    return base[:, :, None, None] + (units if order is None else units[order])


def pick(values: Tensor, rows: Tensor) -> Tensor:
    """A rollout tensor [R, T, N, A, features] at rows [R, K, units, L]: [R, K, units, L, features]."""
    return values.flatten(0, 3).index_select(0, rows.flatten()).view(*rows.shape, -1)


def pick_available(available: Tensor | None, rows: Tensor) -> Tensor | None:
    """`pick` for legal choices, which are None for Gaussian actions."""
    return None if available is None else pick(available, rows)


def pick_first(hidden: Tensor | None, rows: Tensor) -> Tensor | None:
    """The GRU state [R, K, units, H] before the first step of each chunk; None without GRU."""
    return None if hidden is None else pick(hidden, rows[..., :1])[:, :, :, 0]
