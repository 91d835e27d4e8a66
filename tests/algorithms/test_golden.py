"""One whole iteration of every recorded implementation: weights, advantages, ratios, both sides of the condition."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import golden

FILES = golden.files()


def test_there_are_cases() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_iteration(path: Path) -> None:
    case = golden.load(path)
    learner, arrays, meta = case.learner, case.arrays, case.meta
    context = learner.context(case.rollout, case.draws)
    np.testing.assert_allclose(context.returns, case.tensor("returns"), atol=5e-6, rtol=5e-6)
    first = "advantages/independent" if "advantages/independent" in arrays else "advantages"
    np.testing.assert_allclose(context.advantage, case.tensor(first), atol=5e-6)

    stages = _watch(case)
    records = learner.update(case.rollout, case.draws)

    _compare_weights(case, stages)
    _compare_steps(case)
    if "S1" in arrays:
        np.testing.assert_allclose(records["condition_left"].item(), arrays["S1"], rtol=1e-5)
        np.testing.assert_allclose(records["condition_right"].item(), arrays["S2"], rtol=1e-5)
        assert bool(records["go"].item()) == bool(arrays["condition_passed"])
    if "ratio_final" in arrays:
        ratio = learner.log_ratio(case.rollout).exp()
        np.testing.assert_allclose(ratio, case.tensor("ratio_final"), atol=1e-4)
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


def _watch(case: golden.Case) -> dict[str, tuple[torch.Tensor, ...]]:
    """Weights right after FP3O's independent step, and what each turn was given, compared as it happens."""
    stages: dict[str, tuple[torch.Tensor, ...]] = {}
    learner, arrays = case.learner, case.arrays
    turns = learner.turns

    def watched(context):  # type: ignore[no-untyped-def]
        for number, turn in enumerate(turns(context)):
            if case.algorithm == "fp3o" and number == 1:
                stages["after_independent"] = tuple(p.detach().clone() for p in learner.stepper.parameters)
                ratio = context.log_ratio().exp()
                np.testing.assert_allclose(ratio, case.tensor("ratio_after_independent"), atol=1e-4)
                np.testing.assert_allclose(turn.weight, case.tensor("weight_of_others"), atol=2e-4, rtol=1e-4)
                np.testing.assert_allclose(turn.advantage, case.tensor("advantages/dependent"), atol=5e-6)
            if case.algorithm == "happo":
                agent = int(turn.agents[0, 0])
                assert agent == arrays["order"][number]
                expected = case.tensor("factor_before_turn")[..., agent]
                np.testing.assert_allclose(turn.weight[..., agent], expected, atol=1e-4)
            if case.algorithm == "a2po":
                agent = int(turn.learners[0].int().argmax())
                np.testing.assert_allclose(
                    turn.advantage[..., agent], case.tensor("advantages_at_turn")[..., agent], atol=1e-4
                )
                if turn.returns is not None:
                    np.testing.assert_allclose(
                        turn.returns[..., agent], case.tensor("returns_at_turn")[..., agent], atol=1e-4
                    )
                assert turn.clip_range[0, agent].item() == pytest.approx(case.meta["per_agent_clip"][agent])
            yield turn

    learner.turns = watched
    return stages


def _compare_weights(case: golden.Case, stages: dict[str, tuple[torch.Tensor, ...]]) -> None:
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
            np.testing.assert_allclose(ours, expected, atol=2e-5, rtol=0, err_msg=f"{stage}/{prefix}")


def _compare_steps(case: golden.Case) -> None:
    """Losses and gradient norms of every step: Adam alone would hide a wrong scale."""
    recorded = case.arrays["updates"]
    rows = iter(recorded)
    shared = case.learner.sharing.trunks == 1
    partial = case.learner.sharing.heads > case.learner.sharing.trunks
    checked = 0
    for turn, statistics in case.steps:
        learners = statistics.policy.shape[1]
        if shared:
            groups = [(list(range(learners)), 0)]
        elif turn.agents is not None:
            groups = [([0], int(turn.agents[0, 0]))]
        elif turn.learners is not None:
            agent = int(turn.learners[0].int().argmax())
            groups = [([agent], agent)]
        else:
            # One row per agent and step, in the recorded order of agents.
            order = case.arrays["order/independent" if turn.ordinal == 1 else "order/dependent"]
            groups = [([int(a)], int(a)) for a in order]
        for members, owner in groups:
            _, agent, value, critic_norm, policy, entropy, actor_norm, _ratio, *flag = next(rows)
            if not shared:
                assert int(agent) == owner
            ours = {k: getattr(statistics, k)[0, members].sum().item() for k in ("policy", "entropy", "value")}
            if not partial:  # there the recorded losses are the last agent's alone
                assert ours["value"] == pytest.approx(value, abs=2e-5, rel=2e-5)
            assert statistics.critic_norm[0, owner].item() == pytest.approx(critic_norm, abs=5e-5, rel=5e-5)
            if flag and not flag[0]:
                continue
            if not partial:
                assert ours["policy"] == pytest.approx(policy, abs=2e-5, rel=2e-5)
                assert ours["entropy"] == pytest.approx(entropy, abs=2e-5, rel=2e-5)
            assert statistics.actor_norm[0, owner].item() == pytest.approx(actor_norm, abs=5e-5, rel=5e-5)
            checked += 1
    assert next(rows, None) is None
    assert checked > 0
