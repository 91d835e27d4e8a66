"""A2PO's clip range, blocks, weights and corrected advantages against loops over agents and steps, written by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from synthetic import SETTINGS, make_learner, make_rollout, make_spec, with_settings
from torch import Tensor

from fp3o.algorithms.objective import clipped_product
from fp3o.algorithms.sequential import A2poSettings, a2po
from fp3o.algorithms.turns import Context, Turn
from fp3o.config.settings import Settings, own
from fp3o.learner import step
from fp3o.learner.randomness import Draws

Numbers = NDArray[np.float64]
SEEDS = (0, 1)
AGENTS, BLOCKS = 5, 2
BLOCKED = with_settings(
    SETTINGS,
    minibatches=1,
    epochs=3,
    actor_lr=0.02,
    agent_order="greedy",
    adaptive_clip="product",
    blocks=BLOCKS,
)


@pytest.mark.parametrize("order", ["fixed", "random", "greedy", "semi-greedy"])
def test_clip_range_shrinks_with_the_ratios_by_hand(order: str) -> None:
    """r = (2, ½, 1) and (1, 1, 3), so 1 + |1 − r| = (2, 1½, 1) and (1, 1, 3).

    q_i is the mean of 1/Π_{j ≥ i}: of 1/3 and 1/3, of 2/3 and 1/3, of 1 and 1/3; by index, whoever learns first.
    """
    settings = with_settings(rollout_length=2, rollout_threads=1, adaptive_clip="product", agent_order=order, clip=0.2)
    learner = make_learner("a2po", "none", settings)
    rollout = make_rollout(learner)
    ratio = torch.tensor([[2.0, 0.5, 1.0], [1.0, 1.0, 3.0]]).view(1, 2, 1, 3)
    context = learner.context(rollout, Draws((0,), 0))._replace(log_ratio=lambda: ratio.log())
    ranges = [turn.clip_range for turn in a2po(context)]
    assert len(ranges) == 3
    for found in ranges:
        assert found is not None
        # 0.2·q/max q with q = (1/3, 1/2, 2/3).
        assert found[0].tolist() == pytest.approx([0.1, 0.15, 0.2])


class Straight(Draws):
    """Samples in the order of the rollout."""

    def permutations(self, turn: int, epoch: int, count: int, units: int) -> Tensor:
        return torch.arange(units).expand(len(SEEDS), count, -1)


class Given(NamedTuple):
    """What the objective was given in one step, [R, T, N, A] each, ε [R, A]."""

    ratio: Tensor
    weight: Tensor
    advantage: Tensor
    epsilon: Tensor


class Seen(NamedTuple):
    turn: Turn
    steps: list[Given]
    moved: Tensor
    """[R, trunks] which rows of the actor's trunk the turn changed."""


class Expected(NamedTuple):
    learners: list[bool]
    others: list[list[int]]
    advantage: Numbers
    returns: Numbers
    clip_range: list[float]


@pytest.mark.parametrize(
    ("kind", "cumulative"), [("none", False), ("full", True), ("none", True)], ids=["none", "full-union", "none-union"]
)
def test_blocks_learn_as_a_loop_by_hand_says(kind: str, cumulative: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = with_settings(BLOCKED, cumulative_blocks=cumulative)
    context, seen = _observed(kind, settings, monkeypatch)
    # Three epochs: all of them in each of two blocks; or, cumulative, two rounds (3/2 rounded up) of one epoch a stage.
    assert [s.turn.ordinal for s in seen] == ([1, 2, 1, 2] if cumulative else [1, 2])
    assert [len(s.steps) for s in seen] == ([1] * 4 if cumulative else [3, 3])
    inside = outside = 0
    for replica in range(len(SEEDS)):
        ratios = [s.steps[0].ratio[replica].double().numpy() for s in seen]
        for now, expected in zip(seen, _by_hand(context, replica, ratios), strict=True):
            turn = now.turn
            assert turn.learners is not None
            assert turn.returns is not None
            assert turn.learners[replica].tolist() == expected.learners
            if kind == "none":
                assert now.moved[replica].tolist() == expected.learners
            np.testing.assert_allclose(turn.returns[replica], expected.returns, atol=1e-5, rtol=1e-5)
            for given in now.steps:
                np.testing.assert_allclose(given.advantage[replica], expected.advantage, atol=2e-5, rtol=1e-5)
                np.testing.assert_allclose(given.epsilon[replica], expected.clip_range, atol=1e-6)
                ratio = given.ratio[replica].double().numpy()
                for agent, others in enumerate(expected.others):
                    product = np.ones_like(ratio[..., 0])
                    for other in others:
                        product = product * ratio[..., other]
                    others_clip = own(settings, A2poSettings).clip_others
                    low, high = 1 - others_clip, 1 + others_clip
                    np.testing.assert_allclose(
                        given.weight[replica, ..., agent], np.clip(product, low, high), atol=1e-5, rtol=1e-5
                    )
                    outside += int(((product < low) | (product > high)).sum())
                    inside += int(((product != 1) & (product > low) & (product < high)).sum())
        assert abs(ratios[0] - 1).max() < 1e-5
        assert abs(ratios[1] - 1).max() > 0.1
    assert inside > 20
    assert outside > 20


def test_blocks_differ_from_agents_one_by_one_and_from_their_union() -> None:
    spec = make_spec(agents=AGENTS)
    ends = []
    for changes in ({}, {"blocks": 0}, {"cumulative_blocks": True}):
        learner = make_learner("a2po", "none", with_settings(BLOCKED, **changes), SEEDS, spec)
        learner.update(make_rollout(learner, SEEDS), Straight(SEEDS, 0))
        ends.append(learner.stepper.parameters.trunk.detach())
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (ends[one] - ends[other]).abs().max() > 1e-3


def _observed(kind: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> tuple[Context, list[Seen]]:
    """One update: its context, and of every turn what the objective was given at each step."""
    learner = make_learner("a2po", kind, settings, SEEDS, make_spec(agents=AGENTS))
    rollout = make_rollout(learner, SEEDS, deaths=True)
    contexts: list[Context] = []
    seen: list[Seen] = []
    turns = learner.turns

    def watched(context: Context) -> Iterator[Turn]:
        contexts.append(context)
        for turn in turns(context):
            before = learner.stepper.parameters.trunk.detach().clone()
            seen.append(Seen(turn, [], before))
            yield turn
            seen[-1] = seen[-1]._replace(moved=(learner.stepper.parameters.trunk != before).any(-1))

    def spy(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
        # [R, A, N·T, 1], environment by environment, to [R, T, N, A].
        lead = (len(SEEDS), AGENTS, settings.rollout_threads, settings.rollout_length)
        now = [x.detach().expand_as(ratio).reshape(lead).permute(0, 3, 2, 1) for x in (ratio, weight, advantage)]
        seen[-1].steps.append(Given._make([*now, epsilon[:, :, 0, 0]]))
        return clipped_product(ratio, weight, advantage, epsilon)

    learner.turns = watched
    monkeypatch.setattr(step, "clipped_product", spy)
    learner.update(rollout, Straight(SEEDS, 0))
    return contexts[0], seen


def _by_hand(context: Context, replica: int, ratios: Sequence[Numbers]) -> Iterator[Expected]:
    """The turns of one replica, from the ratios [T, N, A] as they stood when each turn began."""
    settings, rollout = context.settings, context.rollout
    cumulative = context.own(A2poSettings).cumulative_blocks
    reward, value, stored, alive, following, continues = (
        x[replica].double().numpy()
        for x in (
            rollout.reward,
            context.value,
            rollout.value,
            rollout.alive,
            context.next_value,
            rollout.continues,
        )
    )
    times, slots, agents = reward.shape

    def corrected(agent: int, traces: Numbers | None) -> Numbers:
        """A_t = δ_t + γλ·c_{t+1}·A_{t+1}, c = λ·min(1, ρ), plus V: the agent's targets [T, N]."""
        out = np.zeros((times, slots))
        for slot in range(slots):
            behind = 0.0
            for t in reversed(range(times)):
                goes_on = continues[t, slot]
                after = following[slot, agent] if t == times - 1 else value[t + 1, slot, agent]
                trace = 1.0
                if traces is not None and t < times - 1:
                    trace = settings.gae_lambda * min(1.0, traces[t + 1, slot])
                delta = reward[t, slot, agent] + settings.gamma * goes_on * after - value[t, slot, agent]
                behind = delta + settings.gamma * settings.gae_lambda * trace * goes_on * behind
                out[t, slot] = behind + value[t, slot, agent]
        return out

    def standardised(returns: Numbers) -> Numbers:
        out = np.zeros_like(returns)
        for agent in range(agents):
            raw = (returns - value)[..., agent]
            living = raw[alive[..., agent] > 0]
            out[..., agent] = (raw - living.mean()) / (living.std() + 1e-5)
        return out

    returns = np.stack([corrected(agent, None) for agent in range(agents)], -1)
    advantage = standardised(returns)
    starts = iter(ratios)
    for round_ in range(math.ceil(settings.epochs / BLOCKS) if cumulative else 1):
        scores = [float(np.mean(np.abs(advantage[..., i] / stored[..., i]))) for i in range(agents)]
        order = sorted(range(agents), key=lambda i: -scores[i])
        for stage, block in enumerate((order[:3], order[3:])):
            ratio = next(starts)
            before = order[: 3 * stage]
            members = order if cumulative else before
            others = [[j for j in members if j != i] for i in range(agents)]
            if stage or round_:
                for agent in block:
                    returns[..., agent] = corrected(agent, np.prod(ratio[..., others[agent]], -1))
                advantage = standardised(returns)
            learners = [*before, *block] if cumulative else block
            quotients = [np.mean(1 / np.prod(1 + abs(1 - ratio[..., i:]), -1)) for i in range(agents)]
            yield Expected(
                [i in learners for i in range(agents)],
                others,
                advantage.copy(),
                returns.copy(),
                [settings.clip * q / max(quotients) for q in quotients],
            )
