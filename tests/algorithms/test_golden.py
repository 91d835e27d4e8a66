"""One whole iteration of every recorded implementation: weights, advantages, ratios, both sides of the condition."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from fp3o.algorithms.objective import clipped_product
from fp3o.algorithms.turns import Context, Turn
from fp3o.learner import step

sys.path.insert(0, str(Path(__file__).parent))
import golden

FILES = golden.files()


# Absolute, no relative part: the numbers recorded are at most 18 in size.
ADVANTAGE, RATIO, WEIGHT = ({"atol": atol, "rtol": 0.0} for atol in (5e-6, 1e-4, 2e-5))


def test_there_are_cases() -> None:
    """The folder in the repository is complete; another one may hold a single case."""
    ours = golden.FOLDER.resolve() == (golden.OURS / "algorithms").resolve()
    assert len(FILES) >= (20 if ours else 1), golden.FOLDER


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_iteration(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = golden.load(path)
    learner, arrays, meta = case.learner, case.arrays, case.meta
    context = learner.context(case.rollout, case.draws)
    np.testing.assert_allclose(context.returns, case.tensor("returns"), **ADVANTAGE)
    first = "advantages/independent" if "advantages/independent" in arrays else "advantages"
    np.testing.assert_allclose(context.advantage, case.tensor(first), **ADVANTAGE)

    stages, products = _watch(case), _products(monkeypatch)
    records = learner.update(case.rollout, case.draws)

    _compare_weights(case, stages)
    _compare_steps(case, products)
    if "S1" in arrays:
        np.testing.assert_allclose(records["condition_left"].item(), arrays["S1"], rtol=1e-5)
        np.testing.assert_allclose(records["condition_right"].item(), arrays["S2"], rtol=1e-5)
        assert bool(records["go"].item()) == bool(arrays["condition_passed"])
    if "ratio_final" in arrays:
        ratio = learner.log_ratio(case.rollout).exp()
        np.testing.assert_allclose(ratio, case.tensor("ratio_final"), **RATIO)
    if case.settings.value_normalisation:
        final = (
            "final"
            if "normaliser/final/shared/running_mean" in arrays or meta["algorithm"] != "fp3o"
            else "after_dependent"
        )
        for ours, name in zip(
            learner.stepper.normaliser, ("running_mean", "running_mean_sq", "debiasing_term"), strict=True
        ):
            expected = golden.normaliser(arrays, final, name, learner.sharing.trunks)
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-7)


def _products(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Filled step by step with the mean of each agent's r·w [R, K], where the clip acts on that product."""
    seen: list[Tensor] = []

    def watched(ratio: Tensor, weight: Tensor, advantage: Tensor, epsilon: Tensor) -> Tensor:
        seen.append((ratio * weight).detach().flatten(2).mean(-1))
        return clipped_product(ratio, weight, advantage, epsilon)

    monkeypatch.setattr(step, "clipped_product", watched)
    return seen


def _watch(case: golden.Case) -> dict[str, tuple[Tensor, ...]]:
    """Weights right after FP3O's independent step, and what each turn was given, compared as it happens."""
    stages: dict[str, tuple[Tensor, ...]] = {}
    learner, arrays = case.learner, case.arrays
    turns = learner.turns

    def watched(context: Context) -> Iterator[Turn]:
        for number, turn in enumerate(turns(context)):
            if case.algorithm == "fp3o" and number == 1:
                stages["after_independent"] = tuple(p.detach().clone() for p in learner.stepper.parameters)
                ratio = context.log_ratio().exp()
                np.testing.assert_allclose(ratio, case.tensor("ratio_after_independent"), **RATIO)
                np.testing.assert_allclose(turn.weight, case.tensor("weight_of_others"), **RATIO)
                np.testing.assert_allclose(turn.advantage, case.tensor("advantages/dependent"), **ADVANTAGE)
            if case.algorithm == "happo":
                agent = int(turn.agents[0, 0])
                assert agent == arrays["order"][number]
                expected = case.tensor("factor_before_turn")[..., agent]
                np.testing.assert_allclose(turn.weight[..., agent], expected, **RATIO)
            if case.algorithm == "a2po":
                agent = int(turn.learners[0].int().argmax())
                expected = case.tensor("advantages_at_turn")[..., agent]
                np.testing.assert_allclose(turn.advantage[..., agent], expected, **ADVANTAGE)
                if turn.returns is not None:
                    expected = case.tensor("returns_at_turn")[..., agent]
                    np.testing.assert_allclose(turn.returns[..., agent], expected, **ADVANTAGE)
                assert turn.clip_range[0, agent].item() == pytest.approx(case.meta["per_agent_clip"][agent])
            yield turn

    learner.turns = watched
    return stages


def _compare_weights(case: golden.Case, stages: dict[str, tuple[Tensor, ...]]) -> None:
    learner = case.learner
    final = "after_dependent" if case.algorithm == "fp3o" else "final"
    stages = stages | {final: tuple(p.detach() for p in learner.stepper.parameters)}
    owners = learner.sharing
    for stage, (trunk, head, critic) in stages.items():
        for ours, prefix, layout, count in (
            (trunk, "actor", learner.actor.trunk_layout, owners.trunks),
            (head, "actor", learner.actor.head_layout, owners.heads),
            (critic, "critic", learner.critic.layout, owners.trunks),
        ):
            expected = golden.weights(case.arrays, f"{stage}/{prefix}", layout, count)
            np.testing.assert_allclose(ours, expected, **WEIGHT, err_msg=f"{stage}/{prefix}")


def _compare_steps(case: golden.Case, products: list[Tensor]) -> None:
    """Losses, gradient norms and mean ratios of every step: Adam alone would hide a wrong scale."""
    rows, joint = iter(case.arrays["updates"]), iter(products)
    owners, settings = case.learner.sharing, case.settings
    partial = owners.heads > owners.trunks
    checked = 0
    for turn, statistics in case.steps:
        everyone = list(range(statistics.policy.shape[1]))
        scale, bonus = 1, 0.0
        if owners.trunks == 1 and not partial:
            groups = [(everyone, 0)]
        elif turn.agents is not None:
            groups = [([0], int(turn.agents[0, 0]))]
        elif turn.learners is not None:
            agent = int(turn.learners[0].int().argmax())
            groups = [([agent], agent)]
        else:
            order = case.arrays["order/independent" if turn.ordinal == 1 else "order/dependent"].tolist()
            groups = [([agent], agent) for agent in order]  # one row per agent and step
            if partial:
                # One row per step: the norms of the one trunk, but losses and ratio of the last agent alone, as that
                # agent's own means (ours are shares of all agents' loss), the entropy bonus within the policy loss.
                groups, scale, bonus = [([order[-1]], 0)], owners.heads, settings.entropy_coef
        actor_learns = turn.learn != "critic"
        # A2PO's release, and CoPPO as shipped in it, log the product that they clip, r_i·clip(Π r_j), as the ratio.
        ratios = next(joint) if actor_learns and turn.clip == "product" else statistics.ratio
        for members, owner in groups:
            _, agent, value, critic_norm, policy, entropy, actor_norm, ratio, *flag = next(rows)
            assert int(agent) == (-1 if owners.trunks == 1 else owner)
            ours = {k: scale * getattr(statistics, k)[0, members].sum().item() for k in ("policy", "entropy", "value")}
            assert ours["value"] == pytest.approx(value, abs=2e-5, rel=0)
            assert statistics.critic_norm[0, owner].item() == pytest.approx(critic_norm, abs=5e-5, rel=0)
            assert actor_learns == (not flag or bool(flag[0]))
            if not actor_learns:
                continue
            assert ours["policy"] - bonus * ours["entropy"] == pytest.approx(policy, abs=2e-5, rel=0)
            assert ours["entropy"] == pytest.approx(entropy, abs=2e-5, rel=0)
            assert statistics.actor_norm[0, owner].item() == pytest.approx(actor_norm, abs=5e-5, rel=0)
            assert ratios[0, members].mean().item() == pytest.approx(ratio, abs=1e-5, rel=0)
            checked += 1
    assert next(rows, None) is None
    assert next(joint, None) is None
    assert checked > 0
