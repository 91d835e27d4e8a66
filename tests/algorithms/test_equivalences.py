"""Where algorithms must agree, they do: with one agent, with the gate shut, without clips."""

from __future__ import annotations

import math

import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout, make_spec, with_settings

from fp3o.algorithms.full_pipeline import split
from fp3o.config.settings import Settings
from fp3o.config.sharings import SHARINGS
from fp3o.learner.randomness import Draws
from fp3o.learner.update import Learner

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
@pytest.mark.parametrize("algorithm", ["fp3o", "mappo", "ippo", "happo", "a2po", "coppo"])
def test_one_agent_alone_learns_by_ppo(algorithm: str, kind: str) -> None:
    epochs = {"epochs": 2, "epochs_dependent": 1} if algorithm == "fp3o" else {"epochs": 3}
    settings = with_settings(WHOLE, advantage_split="average", **epochs)
    learner = trained(algorithm, kind, settings, agents=1)
    assert_same(learner, trained("mappo", kind, with_settings(WHOLE, epochs=3), agents=1))


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
