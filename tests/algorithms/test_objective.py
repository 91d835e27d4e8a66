"""The equations: the printed FP3O objective, clips, products of many ratios, the condition, the value loss."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from fp3o.algorithms.objective import (
    clip,
    clipped,
    clipped_product,
    condition,
    coppo_joint,
    fp3o_printed,
    huber,
    product,
    product_of,
    product_of_others,
    value_loss,
)

AGENTS = 4
MAPPINGS = [f for f in itertools.product(range(AGENTS), repeat=AGENTS) if all(j != i for i, j in enumerate(f))]


def made_up(seed: int = 0, agents: int = AGENTS, spread: float = 0.3) -> tuple[Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    live, frozen = spread * torch.randn(2, 200, agents, generator=source, dtype=torch.float64)
    return live.requires_grad_(), frozen, torch.randn(200, agents, generator=source, dtype=torch.float64)


def test_printed_objective_has_the_gradient_of_the_short_form() -> None:
    """For every mapping f from i to some other j, the cyclic shift of the paper among them."""
    live, frozen, advantage = made_up()
    epsilon = torch.tensor(0.2, dtype=torch.float64)
    short = clipped(live.exp(), product_of_others(frozen), advantage, epsilon)
    (expected,) = torch.autograd.grad(short.sum(), live)
    assert len(MAPPINGS) == 81
    for mapping in MAPPINGS:
        partner = torch.tensor(mapping)
        printed = fp3o_printed(live, frozen, partner, advantage, 0.2)
        (gradient,) = torch.autograd.grad(printed.sum(), live)
        torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=1e-9)
        # They differ by a constant: r(π^j)·A.
        torch.testing.assert_close(printed + frozen.exp()[:, partner] * advantage, short, atol=1e-12, rtol=1e-9)
    assert (expected == 0).any(), "some samples should sit beyond the clip"
    assert (expected != 0).any()


def test_products_of_many_ratios_neither_overflow_nor_vanish() -> None:
    for size in (5.0, -5.0, 80.0, -80.0):
        log_ratio = torch.full((2, 3, 24), size, requires_grad=True)
        others = product_of_others(log_ratio)
        assert others.isfinite().all()
        assert (others > 0).all()
        (gradient,) = torch.autograd.grad(others.sum(), log_ratio)
        assert gradient.isfinite().all()
        members = (~torch.eye(24, dtype=torch.bool)).expand(2, -1, -1)
        assert product_of(log_ratio.transpose(1, 2), members).isfinite().all()
        left, right = condition(log_ratio[:, :, None], torch.ones(2, 3, 1, 24), torch.ones(2, 3, 1, 24))
        assert left.isfinite().all()
        assert right.isfinite().all() or size == 80.0
    # One agent's ratio underflows: the release divides the product by it, 0/0.
    log_ratio = torch.zeros(1, 24)
    log_ratio[0, 3] = -200.0
    others = product_of_others(log_ratio)
    assert others[0, 3].item() == pytest.approx(1.0)
    assert others[0, 0].item() == pytest.approx(math.exp(-30.0))


def test_product_of_others_is_the_product_of_the_others() -> None:
    live, _, _ = made_up(1)
    ratio = live.exp()
    expected = torch.stack([ratio[:, [j for j in range(AGENTS) if j != i]].prod(-1) for i in range(AGENTS)], -1)
    torch.testing.assert_close(product_of_others(live), expected)
    members = (~torch.eye(AGENTS, dtype=torch.bool))[None]
    torch.testing.assert_close(product_of(live.T[None], members)[0].T, expected)
    torch.testing.assert_close(product(live.sum(-1)), ratio.prod(-1))


def test_clips() -> None:
    x = torch.tensor([0.1, 0.95, 1.0, 1.3])
    assert clip(x, 0.1).tolist() == pytest.approx([0.9, 0.95, 1.0, 1.1])
    assert clip(x, torch.tensor([0.1, 0.01, 0.1, 0.5])).tolist() == pytest.approx([0.9, 0.99, 1.0, 1.3])
    assert clip(x, math.inf).equal(x)
    assert clip(x, torch.tensor(math.inf)).equal(x)
    assert clip(x, 0.0).equal(torch.ones(4))


def test_clip_of_the_product_and_of_the_own_ratio() -> None:
    """r = 1.1, w = 1.3, A = 1, ε = 0.2: the own clip lets 1.43 through, the clip on the product stops at 1.2."""
    ratio, weight, advantage, epsilon = (torch.tensor(x) for x in (1.1, 1.3, 1.0, 0.2))
    assert clipped(ratio, weight, advantage, epsilon).item() == pytest.approx(1.43)
    assert clipped_product(ratio, weight, advantage, epsilon).item() == pytest.approx(1.2)
    # A bad action: nothing is clipped from above, the loss stays.
    assert clipped(ratio, weight, -advantage, epsilon).item() == pytest.approx(-1.43)
    assert clipped_product(ratio, weight, -advantage, epsilon).item() == pytest.approx(-1.43)


def test_coppo_joint_surrogate_lets_gradients_through_everyone() -> None:
    log_ratio = (0.02 * torch.arange(3.0)).view(1, 3, 1).requires_grad_()
    members = (~torch.eye(3, dtype=torch.bool))[None]
    advantage = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1)
    surrogate = coppo_joint(log_ratio, members, advantage, torch.tensor(0.2), 0.1)
    (gradient,) = torch.autograd.grad(surrogate[0, 0, 0], log_ratio)
    joint = math.exp(0.06)
    assert surrogate[0, 0, 0].item() == pytest.approx(joint)
    assert gradient.flatten().tolist() == pytest.approx([joint] * 3)


def test_condition_by_hand() -> None:
    """Two agents, two samples, one of them dead for agent 1."""
    log_ratio = torch.log(torch.tensor([[2.0, 0.5], [1.0, 3.0]])).view(1, 2, 1, 2)
    advantage = torch.tensor([[1.0, -1.0], [2.0, 4.0]]).view(1, 2, 1, 2)
    alive = torch.tensor([[1.0, 1.0], [1.0, 0.0]]).view(1, 2, 1, 2)
    left, right = condition(log_ratio, advantage, alive)
    assert left.item() == pytest.approx(1.0 * (1.0 - 1.0) + 3.0 * 2.0)
    assert right.item() == pytest.approx(2.0 * 1.0 - 0.5 + 1.0 * 2.0)


def test_huber_is_symmetric() -> None:
    """The release forgets the negative side."""
    error = torch.tensor([-30.0, -10.0, -1.0, 0.0, 1.0, 10.0, 30.0])
    assert huber(error, 10.0).tolist() == pytest.approx([250.0, 50.0, 0.5, 0.0, 0.5, 50.0, 250.0])
    reference = torch.nn.functional.huber_loss(error, torch.zeros(7), reduction="none", delta=10.0)
    torch.testing.assert_close(huber(error, 10.0), reference)


def test_value_loss_takes_the_larger_error() -> None:
    old, target = torch.tensor(0.0), torch.tensor(1.0)
    # V moved by 0.5 towards the target, but only 0.2 of it count.
    assert value_loss(torch.tensor(0.5), old, target, 0.2, 10.0).item() == pytest.approx(0.5 * 0.8**2)
    # V moved away: the unclipped error is larger.
    assert value_loss(torch.tensor(-0.5), old, target, 0.2, 10.0).item() == pytest.approx(0.5 * 1.5**2)
