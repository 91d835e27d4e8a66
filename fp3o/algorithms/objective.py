"""Every equation of the paper that training uses, under its name there. Ratios are against the rollout policy π_k."""

from __future__ import annotations

import torch
from torch import Tensor

# e³⁰ is far beyond any ratio that training should see; without a bound the product of 24 agents overflows float32.
LARGEST_LOG_PRODUCT = 30.0
CONDITION_TOLERANCE = 1e-5  # the release's slack on the raw sums


def product(log_ratio: Tensor) -> Tensor:
    """A product of ratios from the sum of their logarithms, kept finite."""
    return log_ratio.clamp(-LARGEST_LOG_PRODUCT, LARGEST_LOG_PRODUCT).exp()


def product_of_others(log_ratio: Tensor) -> Tensor:
    """r(π^{-i}) for every agent i, from log r(π^i) […, A]: all but one, by subtraction in log space."""
    return product(log_ratio.sum(-1, keepdim=True) - log_ratio)


def product_of(log_ratio: Tensor, members: Tensor) -> Tensor:
    """Π_{j ∈ members(k)} r(π^j) per sample: log ratios [R, K, …] and members [R, K, K] → [R, K, …]."""
    logs = torch.bmm(members.to(log_ratio.dtype), log_ratio.flatten(2))
    return product(logs).view_as(log_ratio)


def clip(x: Tensor, epsilon: Tensor | float) -> Tensor:
    """clip(x, 1 ± ε)."""
    return (
        x.clamp(1 - epsilon, 1 + epsilon) if isinstance(epsilon, float) else x.minimum(1 + epsilon).maximum(1 - epsilon)
    )


def clipped(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
    """min(r·wA, clip(r, 1 ± ε)·wA): PPO's surrogate with w = 1; HAPPO's with w = r(π^{i_{1:m-1}}).

    With w = r(π^{-i}_{k+0.5}) it is the dependent step of FP3O (equation_full_step2 with clipping) up to a constant:
    the printed −1 and r(π^j) add nothing to the gradient, see `fp3o_printed`.
    """
    weighted = weight * advantage
    return torch.min(ratio * weighted, clip(ratio, epsilon) * weighted)


def clipped_product(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
    """min(uA, clip(u, 1 ± ε)·A) with u = r·w: the outer clip of A2PO and CoPPO acts on the product."""
    joint = ratio * weight
    return torch.min(joint * advantage, clip(joint, epsilon) * advantage)


def coppo_joint(
    log_ratio: Tensor, members: Tensor, advantage: Tensor, epsilon: Tensor, epsilon_others: float
) -> Tensor:
    """The CoPPO authors' surrogate: min(J·A, clip(r_i·clip(Π_{-i} r, 1 ± ε₂), 1 ± ε₁)·A), nothing detached."""
    joint = product(log_ratio.sum(1, keepdim=True))
    inner = log_ratio.exp() * clip(product_of(log_ratio, members), epsilon_others)
    return torch.min(joint * advantage, clip(inner, epsilon) * advantage)


def fp3o_printed(log_ratio: Tensor, frozen: Tensor, partner: Tensor, advantage: Tensor, epsilon: float) -> Tensor:
    """L^FP3O as the paper prints it: (r_i·r(π^{-{j,i}}) − 1)·r(π^j)·A^i and its clipped twin, the smaller of the two.

    log_ratio […, A] is live, frozen […, A] the logarithm at θ̄ (k+0.5), partner [A] the mapping f: j of each i.
    Training uses `clipped` with the product of the others; tests prove that the gradients agree for every mapping.
    """
    r_partner = frozen[..., partner].exp()
    rest = product(frozen.sum(-1, keepdim=True) - frozen - frozen[..., partner])
    ratio = log_ratio.exp()
    return torch.min(
        (ratio * rest - 1) * r_partner * advantage, (clip(ratio, epsilon) * rest - 1) * r_partner * advantage
    )


def condition(log_ratio: Tensor, advantage: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_i μ(π^{-i}_{k+0.5}) and Σ_i μ(π^{-i}_k), per replica: the dependent step runs iff left + 1e-5 ≥ right.

    Both expectations are importance-weighted sums over live samples, [R, T, N, A] → [R].
    """
    joint = product(log_ratio.sum(-1, keepdim=True))
    left = (alive * joint * advantage).flatten(1).sum(1)
    right = (alive * log_ratio.exp() * advantage).flatten(1).sum(1)
    return left, right


def huber(error: Tensor, delta: float) -> Tensor:
    """½e² up to δ, linear beyond, on both sides (the release forgets the negative one)."""
    size = error.abs()
    return torch.where(size <= delta, 0.5 * error**2, delta * (size - 0.5 * delta))


def value_loss(value: Tensor, old: Tensor, target: Tensor, epsilon: float, delta: float) -> Tensor:
    """The larger of the Huber errors of V and of V clipped to within ±ε of the rollout's."""
    near = old + (value - old).clamp(-epsilon, epsilon)
    return torch.max(huber(target - value, delta), huber(target - near, delta))
