"""HAPPO and A2PO: agents, or blocks of agents, learn one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fp3o.algorithms.turns import ClipOthers, Context, Turn
from fp3o.config.declare import algorithm
from fp3o.fields import Bounds

if TYPE_CHECKING:
    from torch import Tensor

NEAR_LINEAR_WEIGHT = 0.5  # A2PO's near-linear clip schedule: from about ε/2 for the first agent to ε for the last


@dataclass(frozen=True)
class AgentOrder:
    """A setting of algorithms whose agents learn one after the other."""

    agent_order: Literal["random", "greedy", "semi-greedy", "fixed"] = "random"
    """Sequential algorithms: who learns first. HAPPO random; A2PO semi-greedy."""


@dataclass(frozen=True)
class HappoSettings(AgentOrder):
    """HAPPO's own."""

    happo_before: Literal["turn", "rollout"] = "turn"
    """HAPPO's factor under sharing: against the policy just before the turn (code) or the rollout policy."""


@algorithm("happo", colour="#0072B2", settings=HappoSettings)
def happo(context: Context) -> Iterator[Turn]:
    """One agent per turn, in random order; its advantage is weighted by the ratios of the agents updated before it."""
    import torch

    from fp3o.algorithms.objective import product

    settings = context.settings
    agents = context.advantage.shape[-1]
    ranks = update_order(context)
    before = torch.zeros_like(context.advantage)  # log ratios before the turn: 0 at first, where π = π_k
    factor = torch.zeros_like(before[..., :1])
    for position in range(agents):
        agent = ranks[:, position : position + 1]
        yield Turn(settings.epochs, position + 1, agents=agent, weight=product(factor).expand_as(before))
        after = context.log_ratio()
        index = agent[:, None, None].expand(-1, *factor.shape[1:])
        factor = factor + (after - before).gather(-1, index)
        if context.own(HappoSettings).happo_before == "turn":
            before = after


@dataclass(frozen=True)
class A2poSettings(AgentOrder, ClipOthers):
    """A2PO's own."""

    blocks: Annotated[int, Bounds(0, 1000)] = 0
    """A2PO: number of blocks the order is cut into; 0 = one agent per block."""
    cumulative_blocks: bool = False
    """A2PO under shared parameters: stage s trains on the union of blocks 1…s, epochs divided by blocks (its code)."""
    adaptive_clip: Literal["constant", "linear", "product"] = "constant"
    """A2PO: ε per turn: constant, near-linear in the order (MAMuJoCo, MPE), or from the others' ratios ("rp", SMAC)."""
    two_stage: bool = False
    """A2PO: an extra critic-only pass before each pass of actor and critic."""
    corrected_targets: bool = True
    """A2PO: critic targets from the corrected advantages too (the released option has no effect by mistake)."""
    trace: bool = True
    """A2PO: preceding-agent off-policy correction of the advantage."""


def _check(settings: A2poSettings, sharing: str, agents: int) -> str:
    if settings.cumulative_blocks and sharing != "full":
        return "cumulative_blocks = true needs one policy for all agents; allowed: sharing full"
    if agents and settings.blocks > agents:
        return f"blocks = {settings.blocks} for {agents} agents is not allowed; allowed: 0 … {agents}"
    return ""


@algorithm("a2po", colour="#E69F00", settings=A2poSettings, check=_check)
def a2po(context: Context) -> Iterator[Turn]:
    """Agent-by-agent policy optimisation: semi-greedy order of agents, advantages corrected for the agents already
    updated, and the clipped product of their current ratios as the weight.

    One turn per block, with all epochs in it, weighted by the blocks before it. With `cumulative_blocks` (A2PO's code
    under shared parameters) the loops are exchanged: in every epoch one turn per block, in which the agents of this and
    all preceding blocks learn, weighted by all other agents.
    """
    import torch

    settings, own = context.settings, context.own(A2poSettings)
    replicas, _, _, agents = context.advantage.shape
    blocks = own.blocks or agents
    returns, advantage = context.returns, context.advantage
    everyone = torch.ones(replicas, agents, dtype=torch.bool, device=advantage.device)
    rounds = math.ceil(settings.epochs / blocks) if own.cumulative_blocks else 1
    for round_ in range(rounds):
        ranks = update_order(context, advantage)
        position = ranks.argsort(1)  # [R, A] place of each agent in the order
        for stage, block in enumerate(torch.tensor_split(torch.arange(agents, device=advantage.device), blocks)):
            inside = (position >= block[0]) & (position <= block[-1])
            preceding = position < block[0]
            others = everyone if own.cumulative_blocks else preceding
            learners = (inside | preceding) if own.cumulative_blocks else inside
            log_ratio = context.log_ratio()
            if own.trace and (stage or round_):
                returns, advantage = _corrected(context, returns, inside, others, log_ratio)
            turn = Turn(
                1 if own.cumulative_blocks else settings.epochs,
                stage + 1,
                learners=learners,
                others=others[:, None, :] & ~torch.eye(agents, dtype=torch.bool, device=others.device),
                clip_others=own.clip_others,
                advantage=advantage,
                returns=returns if own.corrected_targets else None,
                clip="product",
                clip_range=_clip_range(context, position, log_ratio),
            )
            if not own.two_stage:
                yield turn
                continue
            for _ in range(turn.epochs):
                yield turn._replace(epochs=1, learn="critic")
                yield turn._replace(epochs=1)


def update_order(context: Context, advantage: Tensor | None = None) -> Tensor:
    """[R, A]: the agent that learns first, second, … as `agent_order` says.

    greedy: by descending mean |Â/V|. semi-greedy: alternately the greedy choice among those left and a random one.
    """
    import torch

    replicas, _, _, agents = context.advantage.shape
    kind = context.own(AgentOrder).agent_order
    if kind == "fixed":
        return torch.arange(agents, device=context.advantage.device).expand(replicas, -1)
    draws = context.uniform(agents)
    if kind == "random":
        return draws.argsort(1)
    current = context.advantage if advantage is None else advantage
    score = (current / context.rollout.value).abs().permute(0, 3, 1, 2).flatten(2).mean(-1)
    if kind == "greedy":
        return score.argsort(stable=True, dim=1, descending=True)
    chosen: list[Tensor] = []
    left = torch.ones_like(score, dtype=torch.bool)
    for position in range(agents):
        if position % 2 == 0:
            pick = torch.where(left, score, -torch.inf).argmax(1)
        else:
            # The k-th of those left, k uniform.
            target = (draws[:, position] * left.sum(1)).floor()
            pick = ((left.cumsum(1) - 1 == target[:, None]) & left).int().argmax(1)
        left = left.scatter(1, pick[:, None], False)
        chosen.append(pick)
    return torch.stack(chosen, 1)


def _corrected(
    context: Context, returns: Tensor, inside: Tensor, others: Tensor, log_ratio: Tensor
) -> tuple[Tensor, Tensor]:
    """Preceding-agent off-policy correction: critic targets, new for the block's agents, and all advantages from them.

    inside, others: [R, A] bool, the block's agents and the agents whose updates are corrected for.
    """
    import torch

    from fp3o.algorithms.advantage import gae, standardise
    from fp3o.algorithms.objective import product

    settings, rollout = context.settings, context.rollout
    # The product of the others' ratios without the agent's own, subtracted in log space.
    total = (log_ratio * others[:, None, None]).sum(-1, keepdim=True)
    ratio = product(total - log_ratio * others[:, None, None])
    trace = gae(
        rollout.reward, context.value, context.next_value, rollout.continues, settings.gamma, settings.gae_lambda, ratio
    )
    returns = torch.where(inside[:, None, None], trace + context.value, returns)
    return returns, standardise(returns - context.value, rollout.alive, settings.advantage_standardisation)


def _clip_range(context: Context, position: Tensor, log_ratio: Tensor) -> Tensor:
    """ε of each agent [R, A], as `adaptive_clip` says.

    constant; linear: growing with the place in the order; product ("rp" in A2PO's code): smaller where the ratios of
    the agent and of those after it are far from 1.
    """
    import torch

    settings, adaptive = context.settings, context.own(A2poSettings).adaptive_clip
    agents = position.shape[1]
    if adaptive == "constant":
        return torch.full(position.shape, settings.clip, device=position.device)
    if adaptive == "linear":
        weight = NEAR_LINEAR_WEIGHT
        return settings.clip * (weight * (position + 1) / agents + 1 - weight)
    # q_i = mean over samples of 1/Π_{j ≥ i}(1 + |1 − r_j|); j in the order of agent numbers, as in A2PO's code.
    moved = torch.log1p((1 - log_ratio.exp()).abs())
    tail = moved.flip(-1).cumsum(-1).flip(-1)
    quotient = torch.exp(-tail).permute(0, 3, 1, 2).flatten(2).mean(-1)
    return settings.clip * quotient / quotient.max(1, keepdim=True).values
