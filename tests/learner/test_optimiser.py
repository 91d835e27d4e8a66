"""Masked Adam against one torch.optim.Adam per row; norms per owner."""

from __future__ import annotations

import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout, with_settings

from fp3o.learner.optimiser import Moments, adam_, clip_factor, squared_norm
from fp3o.learner.randomness import Draws
from fp3o.learner.step import ActorSums, CriticSums, StepStatistics, StepVariant, TurnAgents


def test_masked_adam_is_one_adam_per_row() -> None:
    source = torch.Generator().manual_seed(0)
    parameters = torch.randn(3, 4, 7, generator=source)
    rows = [[torch.nn.Parameter(row.clone()) for row in replica] for replica in parameters]
    optimisers = [[torch.optim.Adam([row], lr=1e-2, eps=1e-5) for row in replica] for replica in rows]
    moments = Moments.fresh(parameters)
    for _ in range(200):
        gradient = torch.randn(3, 4, 7, generator=source)
        mask = torch.rand(3, 4, generator=source) < 0.4
        before, first = parameters.clone(), moments.first.clone()
        adam_(parameters, gradient, moments, 1e-2, 1e-5, mask)
        for replica, owner in mask.nonzero().tolist():
            rows[replica][owner].grad = gradient[replica, owner]
            optimisers[replica][owner].step()
        # Rows that do not learn stay as they are, to the bit: no drift on old momentum.
        assert parameters[~mask].equal(before[~mask])
        assert moments.first[~mask].equal(first[~mask])
    expected = torch.stack([torch.stack([row.detach() for row in replica]) for replica in rows])
    torch.testing.assert_close(parameters, expected, atol=2e-6, rtol=0)
    steps = [[optimiser.state[row]["step"].item() for row, optimiser in zip(*pair, strict=True)]
             for pair in zip(rows, optimisers, strict=True)]  # fmt: skip
    assert moments.steps.tolist() == steps


def test_adam_is_exact_at_the_first_step() -> None:
    """1 − βᵗ loses half its digits where it is computed as a power in float32."""
    parameters, gradient = torch.zeros(1, 1, 3), torch.tensor([[[1e-3, 1.0, -20.0]]])
    adam_(parameters, gradient, Moments.fresh(parameters), 1.0, 1e-5, torch.ones(1, 1, dtype=torch.bool))
    expected = -gradient.double() / (gradient.double().abs() + 1e-5)
    torch.testing.assert_close(parameters.double(), expected, atol=2e-7, rtol=2e-7)


def test_clip_factor_is_torchs() -> None:
    gradient = torch.tensor([[[3.0, 4.0]], [[0.3, 0.4]], [[0.0, 0.0]]])
    factor = clip_factor(squared_norm(gradient).sqrt(), 1.0)
    for row, f in zip(gradient, factor, strict=True):
        parameter = torch.nn.Parameter(torch.zeros(1, 2))
        parameter.grad = row.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        torch.testing.assert_close(row * f, parameter.grad)


@pytest.mark.parametrize(("kind", "groups"), [("full", 1), ("partial", 1), ("none", 3), ("by-type", 2)])
def test_gradient_norms_are_taken_per_trunk_owner_with_its_heads(kind: str, groups: int) -> None:
    settings = with_settings(SETTINGS, epochs=1, minibatches=1, gradient_clip=1e-3)
    learner = make_learner("mappo", kind, settings)
    rollout = make_rollout(learner)
    found = []
    learner.on_step = lambda turn, statistics: found.append(statistics)
    seen = []
    apply = learner.stepper.apply

    def spy(actor: ActorSums, critic: CriticSums, members: TurnAgents, variant: StepVariant) -> StepStatistics:
        seen.append([x.clone() for x in (actor.trunk, actor.head, critic.gradient)])
        return apply(actor, critic, members, variant)

    learner.stepper.apply = spy  # type: ignore[method-assign]
    learner.update(rollout, Draws([0], 0))
    trunk, head, critic = seen[0]
    (statistics,) = found
    assert statistics.actor_norm.shape == statistics.critic_norm.shape == (1, groups)
    for group in range(groups):
        heads = [h for h, owner in enumerate(learner.sharing.trunk_of_head) if owner == group]
        together = torch.cat([trunk[0, group], *(head[0, h] for h in heads)])
        assert statistics.actor_norm[0, group].item() == pytest.approx(together.norm().item(), rel=1e-5)
        assert statistics.critic_norm[0, group].item() == pytest.approx(critic[0, group].norm().item(), rel=1e-5)
    # Clipped as one group: trunk and heads keep their proportion. After one step the first moment is 0.1·gradient.
    for moments, gradient, owners in (
        (learner.stepper.moments.trunk, trunk, range(groups)),
        (learner.stepper.moments.head, head, learner.sharing.trunk_of_head),
    ):
        for row, owner in enumerate(owners):
            factor = 1e-3 / statistics.actor_norm[0, owner]
            torch.testing.assert_close(moments.first[0, row], 0.1 * gradient[0, row] * factor, atol=1e-9, rtol=1e-4)


@pytest.mark.parametrize(("scale", "ratio"), [("agents", 3.0), ("one", 1.0)])
def test_heads_learn_at_n_times_the_rate_under_partial_sharing(scale: str, ratio: float) -> None:
    settings = with_settings(head_lr_scale=scale)
    assert make_learner("fp3o", "partial", settings).stepper.head_lr == pytest.approx(ratio * settings.actor_lr)
    assert make_learner("fp3o", "none", settings).stepper.head_lr == pytest.approx(settings.actor_lr)
    assert make_learner("fp3o", "full", settings).stepper.head_lr == pytest.approx(settings.actor_lr)
