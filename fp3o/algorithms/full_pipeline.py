"""FP3O: the paper's Algorithm 1 and the variants of its ablations. Names like equation_full_step2 are the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fp3o.algorithms.turns import ClipOthers, Context, Turn
from fp3o.config.declare import algorithm
from fp3o.fields import Bounds, Follows

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Fp3oSettings(ClipOthers):
    """FP3O's own; defaults are the release's."""

    epochs_dependent: Annotated[int, Bounds(0, 10_000), Follows("epochs", 1)] = 5
    """FP3O: passes of the dependent step. Release: as many as the first; 0 = independent step alone."""
    advantage_split: Literal["average", "random"] = "average"
    """FP3O: Aⁱ = A for all (release; the paper's 1/n falls out of Adam) or n·Dirichlet(1) weights per sample."""
    critic_in_dependent: bool = True
    """FP3O: train the critic in the dependent step too (release) or only in the independent one."""
    double_clip: bool = False
    """FP3O: also clip the product of the others' ratios at 1 ± clip_others (paper: FP3O w/ Double)."""
    intermediate: bool = True
    """FP3O: weights from the intermediate policies π_{k+0.5}, frozen (paper). False: clipping only, live ratios."""
    matching_degree: bool = False
    """FP3O: run the dependent step on a copy in any case; log if condition and constraint agree (matching degree)."""


def _check(settings: Fp3oSettings, sharing: str, agents: int) -> str:
    for key in ("double_clip", "matching_degree"):
        if getattr(settings, key) and settings.epochs_dependent == 0:
            return f"{key} = true needs the dependent step; allowed: epochs_dependent of 1 or more"
    if settings.matching_degree and not settings.intermediate:
        return "matching_degree = true compares intermediate policies; allowed: intermediate = true"
    return ""


@algorithm("fp3o", colour="#D55E00", settings=Fp3oSettings, check=_check)
def fp3o(context: Context) -> Iterator[Turn]:
    """The independent step, then, in replicas where the condition of Algorithm 1 holds, the dependent step."""
    own = context.own(Fp3oSettings)
    advantage = split(context)
    yield Turn(context.settings.epochs, advantage=advantage)
    if own.epochs_dependent == 0:
        return
    steps = _dependent if own.intermediate else _clipping_only
    yield from steps(context, advantage)


def split(context: Context) -> Tensor:
    """Advantages A^1 … A^n [R, T, N, A] with ΣA^i = n·Â.

    average: each agent's own estimate. random: a common Â times weights n·Dirichlet(1), drawn per sample.
    """
    if context.own(Fp3oSettings).advantage_split == "average":
        return context.advantage
    from fp3o.algorithms.advantage import standardise

    alive = context.rollout.alive
    common = context.raw_advantage.mean(-1, keepdim=True).expand_as(alive)
    # Standardised before splitting: after it, the parts would no longer sum to n·Â. Exponential draws normalised to sum
    # to n are distributed as n·Dirichlet(1).
    common = standardise(common.contiguous(), alive, "joint")
    draws = -(-context.uniform(*alive.shape[1:])).log1p()
    return common * draws / draws.mean(-1, keepdim=True)


def _dependent(context: Context, advantage: Tensor) -> Iterator[Turn]:
    """The dependent step with intermediate policies: the other agents' ratios are those of π_{k+0.5}, fixed."""
    from fp3o.algorithms.objective import CONDITION_TOLERANCE, clip, condition, product_of_others

    own, alive = context.own(Fp3oSettings), context.rollout.alive
    log_ratio = context.log_ratio()
    left, right = condition(log_ratio, advantage, alive)
    go = left + CONDITION_TOLERANCE >= right
    weight = product_of_others(log_ratio)
    step = Turn(
        own.epochs_dependent,
        2,
        weight=clip(weight, own.clip_others) if own.double_clip else weight,
        advantage=advantage,
        learn="both" if own.critic_in_dependent else "actor",
        go=go,
        records={"condition_left": left, "condition_right": right},
    )
    if not own.matching_degree:
        yield step
        return
    # Matching degree: how often the condition, known before the step, agrees with the constraint of
    # equation_full_step2, known after it. So the step is taken in all replicas, and undone where the condition failed.
    restore = context.snapshot()
    yield step._replace(go=None)
    weighted = alive * log_ratio.exp() * product_of_others(context.log_ratio()) * advantage
    constraint = weighted.flatten(1).sum(1)
    holds = constraint + CONDITION_TOLERANCE >= right
    yield Turn(0, 2, records={"constraint_left": constraint, "go": go.float(), "match": (holds == go).float()})
    restore(~go)


def _clipping_only(context: Context, advantage: Tensor) -> Iterator[Turn]:
    """The ablation without intermediate policies: weights are the other agents' current ratios, recomputed in every
    minibatch, and the condition is checked before every epoch."""
    import torch

    from fp3o.algorithms.objective import CONDITION_TOLERANCE, condition

    own = context.own(Fp3oSettings)
    replicas, _, _, agents = advantage.shape
    others = (~torch.eye(agents, dtype=torch.bool, device=advantage.device)).expand(replicas, -1, -1)
    going = torch.ones(replicas, dtype=torch.bool, device=advantage.device)
    for _ in range(own.epochs_dependent):
        left, right = condition(context.log_ratio(), advantage, context.rollout.alive)
        going = going & (left + CONDITION_TOLERANCE >= right)
        yield Turn(
            1,
            2,
            others=others,
            clip_others=own.clip_others if own.double_clip else None,
            advantage=advantage,
            learn="both" if own.critic_in_dependent else "actor",
            go=going,
            records={"condition_left": left, "condition_right": right},
        )
