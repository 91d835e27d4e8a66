"""Where algorithms must agree, they do: with one agent, with the gate shut, without clips."""

from __future__ import annotations

import math

import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout, make_spec, with_settings
from torch import Tensor, nn

from fp3o.algorithms import ALGORITHMS
from fp3o.algorithms.full_pipeline import split
from fp3o.algorithms.turns import Rollout
from fp3o.config.settings import Settings
from fp3o.networks.sharing import SHARINGS
from fp3o.training.randomness import Draws
from fp3o.training.update import Learner

# One minibatch per epoch: which samples stand together cannot differ. Three iterations of two or three epochs.
WHOLE = with_settings(SETTINGS, minibatches=1, adam_eps=1e-3)


def trained(
    algorithm: str, kind: str, settings: Settings, agents: int, iterations: int = 3, observation: int = 5
) -> Learner:
    """A learner after some updates on made-up rollouts of its own policy."""
    spec = make_spec(agents=agents, observation=observation, state=observation)
    learner = make_learner(algorithm, kind, settings, (0, 1), spec)
    for iteration in range(iterations):
        learner.update(make_rollout(learner, (0, 1), iteration, deaths=agents > 1), Draws((0, 1), iteration))
    return learner


def assert_same(one: Learner, other: Learner, tolerance: float = 2e-6) -> None:
    for mine, yours in zip(one.stepper.parameters, other.stepper.parameters, strict=True):
        torch.testing.assert_close(mine, yours, atol=tolerance, rtol=0)


def assert_different(one: Learner, other: Learner) -> None:
    assert (
        max((a - b).abs().max().item() for a, b in zip(one.stepper.parameters, other.stepper.parameters, strict=True))
        > 1e-4
    )


@pytest.mark.parametrize("kind", ["full", "partial", "none"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_agent_alone_learns_by_ppo(algorithm: str, kind: str) -> None:
    epochs = {"epochs": 2, "epochs_dependent": 1} if algorithm == "fp3o" else {"epochs": 3}
    settings = with_settings(WHOLE, advantage_split="average", **epochs)
    learner = trained(algorithm, kind, settings, agents=1)
    assert_same(learner, trained("mappo", kind, with_settings(WHOLE, epochs=3), agents=1))


@pytest.mark.parametrize("kind", ["full", "none"])
def test_mappo_of_one_agent_is_a_plain_ppo(kind: str) -> None:
    """A PPO written down with modules, torch.optim.Adam and torch.distributions, knowing nothing of stacks."""
    settings = with_settings(WHOLE, epochs=3)
    spec = make_spec(agents=1)
    learner = make_learner("mappo", kind, settings, (4,), spec)
    plain = PlainPPO(learner, settings)
    for iteration in range(3):
        rollout = make_rollout(learner, (4,), iteration)
        plain.update(rollout)
        learner.update(rollout, Draws((4,), iteration))
    trunk, head, critic = plain.flat()
    torch.testing.assert_close(learner.stepper.parameters.trunk[0, 0], trunk, atol=2e-6, rtol=0)
    torch.testing.assert_close(learner.stepper.parameters.head[0, 0], head, atol=2e-6, rtol=0)
    torch.testing.assert_close(learner.stepper.parameters.critic[0, 0], critic, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", SHARINGS)
def test_independent_step_is_mappo(kind: str) -> None:
    alone = trained("fp3o", kind, with_settings(epochs_dependent=0), agents=3)
    assert_same(alone, trained("mappo", kind, SETTINGS, agents=3), tolerance=0)


@pytest.mark.parametrize("kind", ["full", "partial", "none"])
def test_shut_gate_leaves_the_independent_step(kind: str) -> None:
    """Replicas whose condition fails end where MAPPO ends, to the bit; the others go on, in the same stack."""
    seeds = tuple(range(16))
    ours, mappo = (make_learner(a, kind, WHOLE, seeds) for a in ("fp3o", "mappo"))
    rollout = make_rollout(ours, seeds)
    # Agents of every other replica want opposite things: improving alone makes the joint worse.
    rollout.reward[1::2] *= torch.tensor([1.0, -1.0, 1.0])
    go = ours.update(rollout, Draws(seeds, 0))["go"] > 0
    mappo.update(rollout, Draws(seeds, 0))
    assert 0 < go.sum() < len(seeds), "the made-up data should give both cases"
    for mine, yours in zip(ours.stepper.parameters, mappo.stepper.parameters, strict=True):
        assert mine[~go].equal(yours[~go])
        assert (mine[go] - yours[go]).abs().amax((1, 2)).min() > 1e-5
    for mine, yours in zip(ours.stepper.normaliser, mappo.stepper.normaliser, strict=True):
        assert mine[~go].equal(yours[~go])


def test_critic_can_rest_in_the_dependent_step() -> None:
    seeds = tuple(range(16))
    ours = make_learner("fp3o", "none", with_settings(WHOLE, critic_in_dependent=False), seeds)
    mappo = make_learner("mappo", "none", WHOLE, seeds)
    rollout = make_rollout(ours, seeds)
    assert (ours.update(rollout, Draws(seeds, 0))["go"] > 0).any()
    mappo.update(rollout, Draws(seeds, 0))
    assert ours.stepper.parameters.critic.equal(mappo.stepper.parameters.critic)
    assert not ours.stepper.parameters.trunk.equal(mappo.stepper.parameters.trunk)


@pytest.mark.parametrize("kind", ["full", "none"])
def test_double_clip_without_bound_is_plain(kind: str) -> None:
    plain = trained("fp3o", kind, SETTINGS, agents=3)
    unbound = with_settings(double_clip=True, clip_others=math.inf)
    assert_same(trained("fp3o", kind, unbound, agents=3), plain, tolerance=0)
    assert_different(trained("fp3o", kind, with_settings(double_clip=True, clip_others=0.01), agents=3), plain)


def test_clipping_only_follows_the_live_ratios() -> None:
    """Its first epoch equals the frozen weights' (one minibatch); later epochs see ratios that have moved."""
    one = with_settings(WHOLE, epochs_dependent=1)
    frozen = trained("fp3o", "none", one, agents=3)
    assert_same(trained("fp3o", "none", with_settings(one, intermediate=False), agents=3), frozen)
    more = with_settings(WHOLE, epochs_dependent=4)
    frozen = trained("fp3o", "none", more, agents=3)
    assert_different(trained("fp3o", "none", with_settings(more, intermediate=False), agents=3), frozen)


@pytest.mark.parametrize("kind", ["none"])
def test_a2po_without_clips_is_happo(kind: str) -> None:
    free = with_settings(
        WHOLE, clip=math.inf, clip_others=math.inf, trace=False, corrected_targets=False, agent_order="fixed"
    )
    a2po, happo = (trained(a, kind, free, agents=3) for a in ("a2po", "happo"))
    assert_same(a2po, happo)
    assert_different(happo, trained("mappo", kind, free, agents=3))


@pytest.mark.parametrize("kind", SHARINGS)
def test_coppo_with_closed_inner_clip_is_mappo(kind: str) -> None:
    """clip(Π, 1 ± 0) = 1."""
    closed = trained("coppo", kind, with_settings(WHOLE, clip_others=0.0), agents=3)
    mappo = trained("mappo", kind, WHOLE, agents=3)
    assert_same(closed, mappo)
    assert_different(trained("coppo", kind, with_settings(WHOLE, clip_others=0.3), agents=3), mappo)


@pytest.mark.parametrize("kind", SHARINGS)
def test_a2po_in_one_block_is_mappo(kind: str) -> None:
    """Nobody precedes a single block: all weights are 1 and nothing is corrected."""
    settings = with_settings(WHOLE, blocks=1)
    assert_same(trained("a2po", kind, settings, agents=3), trained("mappo", kind, WHOLE, agents=3))


def test_sharing_among_one_agent_is_no_sharing() -> None:
    learners = [trained("fp3o", kind, SETTINGS, agents=1) for kind in SHARINGS]
    for other in learners[1:]:
        assert_same(learners[0], other, tolerance=0)


def test_happo_before_matters_only_under_sharing() -> None:
    for kind, same in (("none", True), ("full", False), ("partial", False)):
        turn, rollout = (
            trained("happo", kind, with_settings(WHOLE, happo_before=before), agents=3)
            for before in ("turn", "rollout")
        )
        if same:
            assert_same(turn, rollout)
        else:
            assert_different(turn, rollout)


def test_random_split_keeps_the_sum() -> None:
    learner = make_learner("fp3o", "full", with_settings(advantage_split="random"), (0, 1))
    rollout = make_rollout(learner, (0, 1))
    context = learner.context(rollout, Draws((0, 1), 0))
    parts = split(context)
    common = context.raw_advantage.mean(-1)
    mean, std = common.flatten(1).mean(1), common.flatten(1).std(1, correction=0)
    expected = (common - mean[:, None, None]) / (std[:, None, None] + 1e-5)
    torch.testing.assert_close(parts.mean(-1), expected, atol=1e-5, rtol=1e-4)
    # Positive weights: every agent keeps the sign.
    assert (parts.sign() == expected[..., None].sign()).all()
    assert parts.std(-1).min() > 0


class PlainPPO:
    """PPO for one agent as a textbook has it, started from a learner's parameters."""

    def __init__(self, learner: Learner, settings: Settings) -> None:
        self.settings, self.layouts = (
            settings,
            (learner.actor.trunk_layout, learner.actor.head_layout, learner.critic.layout),
        )
        self.weights: list[dict[str, nn.Parameter]] = [
            {name: nn.Parameter(view.clone()) for name, view in layout.views(flat[0, 0].detach()).items()}
            for layout, flat in zip(self.layouts, learner.stepper.parameters, strict=True)
        ]
        trunk, head, critic = ([*w.values()] for w in self.weights)
        self.groups = ([*trunk, *head], critic)
        self.optimisers = [
            torch.optim.Adam(group, rate, eps=settings.adam_eps)
            for group, rate in zip(self.groups, (settings.actor_lr, settings.critic_lr), strict=True)
        ]
        self.sums = [0.0, 0.0, 0.0]

    def flat(self) -> list[Tensor]:
        return [torch.cat([w.detach().flatten() for w in part.values()]) for part in self.weights]

    @staticmethod
    def features(w: dict[str, nn.Parameter], x: Tensor) -> Tensor:
        def norm(x: Tensor, name: str) -> Tensor:
            return nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

        x = norm(x, "feature_norm")
        for layer in ("fc1", "fc2"):
            x = norm(torch.relu(x @ w[f"{layer}.weight"] + w[f"{layer}.bias"]), f"{layer}_norm")
        return x

    def statistics(self) -> tuple[float, float]:
        weight = max(self.sums[2], 1e-5)
        mean = self.sums[0] / weight
        return mean, math.sqrt(max(self.sums[1] / weight - mean**2, 1e-2))

    def update(self, rollout: Rollout) -> None:
        s = self.settings
        trunk, head, critic = self.weights
        mean, std = self.statistics()
        reward, value = rollout.reward[0, ..., 0], rollout.value[0, ..., 0] * std + mean
        following, advantage = rollout.next_value[0, :, 0] * std + mean, torch.zeros_like(value)
        running = torch.zeros_like(following)
        for t in reversed(range(len(reward))):
            goes_on = rollout.continues[0, t]
            running = reward[t] + s.gamma * following * goes_on - value[t] + s.gamma * s.gae_lambda * goes_on * running
            advantage[t], following = running, value[t]
        returns = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-5)
        observation, state, action = (x[0, :, :, 0] for x in (rollout.observation, rollout.state, rollout.action))
        for _ in range(s.epochs):
            for i, x in enumerate((returns.mean().item(), (returns**2).mean().item(), 1.0)):
                self.sums[i] = 0.99999 * self.sums[i] + 0.00001 * x
            mean, std = self.statistics()
            location = self.features(trunk, observation) @ head["head.weight"] + head["head.bias"]
            density = torch.distributions.Normal(
                location, 0.5 * torch.sigmoid(head["head.log_std"]).expand_as(location)
            )
            ratio = (density.log_prob(action).sum(-1) - rollout.log_prob[0, ..., 0]).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(1 - s.clip, 1 + s.clip) * advantage)
            policy_loss = -surrogate.mean() - s.entropy_coef * density.entropy().sum(-1).mean()
            predicted = (self.features(critic, state) @ critic["v_out.weight"] + critic["v_out.bias"]).squeeze(-1)
            old, target = rollout.value[0, ..., 0], (returns - mean) / std
            near = old + (predicted - old).clamp(-s.clip, s.clip)
            errors = [
                nn.functional.huber_loss(v, target, reduction="none", delta=s.huber_delta) for v in (predicted, near)
            ]
            for loss, group, optimiser in zip(
                (policy_loss, torch.max(*errors).mean()), self.groups, self.optimisers, strict=True
            ):
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(group, s.gradient_clip)
                optimiser.step()
