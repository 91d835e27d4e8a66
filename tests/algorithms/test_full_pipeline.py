"""FP3O's variants: the gate of 'clipping only', and the matching degree, whose step is taken back where it fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from synthetic import SETTINGS, make_learner, make_rollout, with_settings
from torch import Tensor

from fp3o.algorithms.full_pipeline import Fp3oSettings, fp3o
from fp3o.algorithms.objective import CONDITION_TOLERANCE, condition
from fp3o.algorithms.turns import Context, Rollout, Turn
from fp3o.config.settings import own
from fp3o.learner.randomness import Draws
from fp3o.learner.update import Learner

SEEDS = tuple(range(16))
# Steps so large that the condition turns within an iteration.
WHOLE = with_settings(SETTINGS, minibatches=1, adam_eps=1e-3, epochs_dependent=5, actor_lr=0.02)
CLIPPING_ONLY = with_settings(WHOLE, intermediate=False)


def at_odds(learner: Learner, deaths: bool = False) -> Rollout:
    """A reward of its own for each agent: in half of the replicas what improves one makes the joint worse."""
    rollout = make_rollout(learner, SEEDS, deaths=deaths)
    return rollout._replace(reward=torch.randn(rollout.reward.shape, generator=torch.Generator().manual_seed(0)))


def state(learner: Learner) -> list[Tensor]:
    """All that learns, [R, …] each, as it stands."""
    stepper = learner.stepper
    tensors = (*stepper.parameters, *(x for moments in stepper.moments for x in moments), *stepper.normaliser)
    return [x.detach().clone() for x in tensors]


def same(one: list[Tensor], other: list[Tensor]) -> Tensor:
    """[R] bool: replicas that agree to the bit in everything."""
    return torch.stack([(x == y).flatten(1).all(1) for x, y in zip(one, other, strict=True)]).all(0)


def watch(learner: Learner) -> list[tuple[Turn, list[Tensor], Tensor]]:
    """Filled, as turns begin, with the turn, the learner's state and the log-ratios at that time."""
    seen: list[tuple[Turn, list[Tensor], Tensor]] = []
    turns = learner.turns

    def watched(context: Context) -> Iterator[Turn]:
        for turn in turns(context):
            seen.append((turn, state(learner), context.log_ratio().clone()))
            yield turn

    learner.turns = watched
    return seen


def test_clipping_only_stays_shut_although_the_condition_holds_again() -> None:
    """Advantages 1. Ratios (2, 2): J·A sums to 8, r·A to 4; ratios (½, ½): ½ against 1, the condition fails."""
    settings = with_settings(CLIPPING_ONLY, rollout_length=1, rollout_threads=1, epochs_dependent=4)
    learner = make_learner("fp3o", "none", settings, (0, 1, 2))
    rollout = make_rollout(learner, (0, 1, 2))
    good, bad = 2.0, 0.5
    # Of the three replicas, before each of four epochs.
    ratios = torch.tensor([[good, good, bad], [good, bad, good], [good, good, good], [bad, good, good]])
    epoch = 0

    def log_ratio() -> Tensor:
        return ratios[epoch].log().view(3, 1, 1, 1).expand(3, 1, 1, 3)

    context = learner.context(rollout, Draws((0, 1, 2), 0))
    context = context._replace(advantage=torch.ones_like(context.advantage), log_ratio=log_ratio)
    for _ in range(2):  # two iterations: the next one starts open
        turns = fp3o(context)
        assert next(turns).go is None
        going = []
        for epoch in range(4):
            turn = next(turns)
            assert turn.go is not None
            assert turn.epochs == 1
            going.append(turn.go.tolist())
            left, right = turn.records["condition_left"], turn.records["condition_right"]
            assert (left >= right).tolist() == (ratios[epoch] == good).tolist()
        assert next(turns, None) is None
        assert going == [[True, True, False], [True, False, False], [True, False, False], [False, False, False]]


@pytest.mark.parametrize("kind", ["full", "none"])
def test_clipping_only_shuts_between_epochs(kind: str) -> None:
    """The condition is read before every epoch, from the ratios of that time; replicas that fail it stop there."""
    learner = make_learner("fp3o", kind, CLIPPING_ONLY, SEEDS)
    rollout = at_odds(learner)
    context = learner.context(rollout, Draws(SEEDS, 0))
    seen = watch(learner)
    learner.update(rollout, Draws(SEEDS, 0))
    states = [state for _, state, _ in seen[1:]] + [state(learner)]
    going = torch.ones(len(SEEDS), dtype=torch.bool)
    epochs = torch.zeros(len(SEEDS))
    assert len(seen) == 1 + own(CLIPPING_ONLY, Fp3oSettings).epochs_dependent
    for (turn, _, log_ratio), before, after in zip(seen[1:], states[:-1], states[1:], strict=True):
        left, right = condition(log_ratio, context.advantage, rollout.alive)
        going = going & (left + CONDITION_TOLERANCE >= right)
        assert turn.go is not None
        assert turn.go.equal(going)
        assert same(before, after).equal(~going)
        epochs += going
    assert (epochs == 0).any()
    assert (epochs == own(CLIPPING_ONLY, Fp3oSettings).epochs_dependent).any()
    assert ((epochs > 0) & (epochs < own(CLIPPING_ONLY, Fp3oSettings).epochs_dependent)).any(), (
        "some should shut after an epoch or more"
    )


@pytest.mark.parametrize("kind", ["full", "partial", "none"])
def test_matching_degree_takes_back_the_step_where_the_condition_fails(kind: str) -> None:
    """To the bit: there the independent step remains, elsewhere the dependent one, as if the gate had been shut."""
    matching, plain, independent = (
        make_learner("fp3o", kind, with_settings(WHOLE, **changes), SEEDS)
        for changes in ({"matching_degree": True}, {}, {"epochs_dependent": 0})
    )
    rollout = at_odds(matching)
    seen = watch(matching)
    records = matching.update(rollout, Draws(SEEDS, 0))
    go = plain.update(rollout, Draws(SEEDS, 0))["go"] > 0
    independent.update(rollout, Draws(SEEDS, 0))
    assert 0 < go.sum() < len(SEEDS), "the made-up data should give both cases"
    assert (records["go"] > 0).equal(go)
    (_, at_first, _), (step, before, _), (_, after, _) = seen
    assert step.go is None
    assert not same(at_first, before).any()
    assert not same(before, after).any(), "every replica takes the step"
    assert same(state(matching), before).equal(~go)
    assert same(state(matching), after).equal(go)
    assert same(state(matching), state(independent)).equal(~go)
    assert same(state(matching), state(plain)).all()
    # Log-ratios are those of the policies that remain.
    assert matching.log_ratio(rollout)[~go].equal(independent.log_ratio(rollout)[~go])


def test_matching_degree_compares_the_condition_with_the_constraint() -> None:
    """Σ r̂_i·Π_{j ≠ i} r_j·A_i over live samples, r̂ after the independent step, r after the dependent one."""
    learner = make_learner("fp3o", "none", with_settings(WHOLE, matching_degree=True), SEEDS)
    rollout = at_odds(learner, deaths=True)
    advantage = learner.context(rollout, Draws(SEEDS, 0)).advantage.double()
    seen = watch(learner)
    records = learner.update(rollout, Draws(SEEDS, 0))
    frozen, moved = (log_ratio.double().exp() for _, _, log_ratio in seen[1:])
    constraint, right = (torch.zeros(len(SEEDS), dtype=torch.double) for _ in range(2))
    for i in range(3):
        own = rollout.alive[..., i] * frozen[..., i] * advantage[..., i]
        others = moved[..., (i + 1) % 3] * moved[..., (i + 2) % 3]
        constraint += (own * others).flatten(1).sum(1)
        right += own.flatten(1).sum(1)
    assert records["constraint_left"].tolist() == pytest.approx(constraint.tolist(), abs=1e-4, rel=1e-5)
    assert records["condition_right"].tolist() == pytest.approx(right.tolist(), abs=1e-4, rel=1e-5)
    holds, go = constraint + CONDITION_TOLERANCE >= right, records["go"] > 0
    assert (records["match"] > 0).equal(holds == go)
    assert 0 < records["match"].sum() < len(SEEDS), "the made-up data should give both cases"
