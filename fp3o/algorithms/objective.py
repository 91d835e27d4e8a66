"""Every equation of the paper that training uses, under its name there.

A ratio is r(π^i) = π^i / π^i_k, with π_k the policy that collected the rollout; `log_ratio` is its logarithm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# e³⁰ is far beyond any ratio that training should see; without a bound the product of 24 agents overflows float32.
LARGEST_LOG_PRODUCT = 30.0
CONDITION_TOLERANCE = 1e-5  # added to the left side of `condition`, as in the release


def product(log_ratio: Tensor) -> Tensor:
    """exp of a sum of log ratios, that is, the product of the ratios; the sum is clamped so that it stays finite."""
    return log_ratio.clamp(-LARGEST_LOG_PRODUCT, LARGEST_LOG_PRODUCT).exp()


def product_of_others(log_ratio: Tensor) -> Tensor:
    """r(π^{-i}), the product of all ratios but agent i's, for every i: log ratios […, A] → […, A]."""
    return product(log_ratio.sum(-1, keepdim=True) - log_ratio)


def product_of(log_ratio: Tensor, members: Tensor) -> Tensor:
    """Π_{j ∈ members(k)} r(π^j) per sample: log ratios [R, K, …] and members [R, K, K] bool → [R, K, …]."""
    logs = torch.bmm(members.to(log_ratio.dtype), log_ratio.flatten(2))
    return product(logs).view_as(log_ratio)


def clip(x: Tensor, epsilon: Tensor | float) -> Tensor:
    """clip(x, 1 ± ε)."""
    return (
        x.clamp(1 - epsilon, 1 + epsilon) if isinstance(epsilon, float) else x.minimum(1 + epsilon).maximum(1 - epsilon)
    )


def clipped(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
    """min(r·wA, clip(r, 1 ± ε)·wA), per sample: PPO's surrogate with w = 1, HAPPO's with w = r(π^{i_{1:m-1}}).

    With w = r(π^{-i}_{k+0.5}) it is the dependent step of FP3O (equation_full_step2 with clipping) up to a constant:
    the printed −1 and r(π^j) add nothing to the gradient, see `fp3o_printed`.
    """
    weighted = weight * advantage
    return torch.min(ratio * weighted, clip(ratio, epsilon) * weighted)


def clipped_product(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
    """min(uA, clip(u, 1 ± ε)·A) with u = r·w, per sample: in A2PO and CoPPO the clip acts on the product."""
    joint = ratio * weight
    return torch.min(joint * advantage, clip(joint, epsilon) * advantage)


def coppo_joint(
    log_ratio: Tensor, members: Tensor, advantage: Tensor, epsilon: Tensor, epsilon_others: float
) -> Tensor:
    """The CoPPO authors' surrogate: min(J·A, clip(r_i·clip(Π_{-i} r, 1 ± ε₂), 1 ± ε₁)·A) with J = Π r.

    Gradients flow through the ratios of all agents.
    """
    joint = product(log_ratio.sum(1, keepdim=True))
    inner = log_ratio.exp() * clip(product_of(log_ratio, members), epsilon_others)
    return torch.min(joint * advantage, clip(inner, epsilon) * advantage)


def fp3o_printed(log_ratio: Tensor, frozen: Tensor, partner: Tensor, advantage: Tensor, epsilon: float) -> Tensor:
    """L^FP3O as the paper prints it: the smaller of (r_i·r(π^{-{j,i}}) − 1)·r(π^j)·A^i and the same with r_i clipped.

    log_ratio […, A] is of the policy being trained, frozen […, A] of the fixed θ̄ (k+0.5); partner [A] is the mapping f,
    the j of each i. For tests: training uses `clipped` with the product of the others, whose gradient is the same.
    """
    r_partner = frozen[..., partner].exp()
    rest = product(frozen.sum(-1, keepdim=True) - frozen - frozen[..., partner])
    ratio = log_ratio.exp()
    return torch.min(
        (ratio * rest - 1) * r_partner * advantage, (clip(ratio, epsilon) * rest - 1) * r_partner * advantage
    )


def condition(log_ratio: Tensor, advantage: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
    """Left and right side of FP3O's condition, Σ_i μ(π^{-i}_{k+0.5}) and Σ_i μ(π^{-i}_k): [R, T, N, A] → [R] each.

    The dependent step is taken where left + 1e-5 ≥ right. Both are importance-weighted sums over the samples of agents
    that are alive (sums, not means, as in the release).
    """
    joint = product(log_ratio.sum(-1, keepdim=True))
    left = (alive * joint * advantage).flatten(1).sum(1)
    right = (alive * log_ratio.exp() * advantage).flatten(1).sum(1)
    return left, right


def huber(error: Tensor, delta: float) -> Tensor:
    """Huber loss: ½e² for |e| ≤ δ, linear beyond. (The release's is 0 below −δ, where it lacks the branch.)"""
    size = error.abs()
    return torch.where(size <= delta, 0.5 * error**2, delta * (size - 0.5 * delta))


def value_loss(value: Tensor, old: Tensor, target: Tensor, epsilon: Tensor | float, delta: float) -> Tensor:
    """PPO's clipped value loss per sample: the larger Huber loss of V and of V clipped to within ±ε of `old`."""
    bound: Any = epsilon  # a number or a tensor: torch's stubs of clamp know no mixture
    near = old + (value - old).clamp(-bound, bound)
    return torch.max(huber(target - value, delta), huber(target - near, delta))
