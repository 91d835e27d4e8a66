"""One update of any algorithm: stacks, failures of single replicas, chunks, slices, the dead, many agents."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from synthetic import (
    ACTIONS,
    SETTINGS,
    make_learner,
    make_rollout,
    make_spec,
    with_settings,
)
from torch import Tensor

from fp3o.algorithms import ALGORITHMS
from fp3o.algorithms.objective import value_loss
from fp3o.algorithms.turns import Rollout, Turn
from fp3o.config.sharings import SHARINGS
from fp3o.envs.interface import ActionSpec
from fp3o.errors import UserError
from fp3o.learner.randomness import Draws
from fp3o.learner.samples import agent_rows, pack, unit_rows
from fp3o.learner.step import ActorSums, StepStatistics, StepVariant, TurnData
from fp3o.learner.update import Learner

SEEDS = (3, 7, 1, 4, 9)


def replica(rollout: Rollout, index: int) -> Rollout:
    return Rollout._make(None if x is None else x[index : index + 1].clone() for x in rollout)


def numbers(learner: Learner) -> list[Tensor]:
    """All that an update changes, [R, …] each."""
    stepper = learner.stepper
    return [*stepper.parameters, *(x for moments in stepper.moments for x in moments), *stepper.normaliser]


# Widths and batches of odd sizes, so that vectors of eight or sixteen numbers never fit.
STACK = with_settings(rollout_length=9, epochs=1, epochs_dependent=1, minibatches=2, hidden_size=13, chunk_length=3)


@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("kind", SHARINGS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seed_alone_is_the_same_seed_in_a_stack(algorithm: str, kind: str, recurrent: bool) -> None:
    """Bit for bit, over two iterations, all records included."""
    settings = with_settings(STACK, recurrent=recurrent)
    action = ACTIONS["categorical" if kind in ("partial", "by-type") else "gaussian"]
    spec = make_spec(action=action)
    stacked = make_learner(algorithm, kind, settings, SEEDS, spec)
    alone = {index: make_learner(algorithm, kind, settings, SEEDS[index : index + 1], spec) for index in (1, 4)}
    for iteration in range(2):
        rollout = make_rollout(stacked, SEEDS, iteration, deaths=True)
        records = stacked.update(rollout, Draws(SEEDS, iteration))
        for index, learner in alone.items():
            own = learner.update(replica(rollout, index), Draws(SEEDS[index : index + 1], iteration))
            assert own.keys() == records.keys()
            for name, value in own.items():
                assert value.equal(records[name][index : index + 1]), f"{name} in iteration {iteration}"
    for index, learner in alone.items():
        for mine, whole in zip(numbers(learner), numbers(stacked), strict=True):
            assert mine.equal(whole[index : index + 1])


def test_paper_sized_networks_give_the_same_bits_too() -> None:
    settings = with_settings(STACK, hidden_size=64, rollout_length=30, minibatches=4, chunk_length=10, recurrent=True)
    spec = make_spec(agents=6, observation=18, state=23)
    stacked, alone = (make_learner("fp3o", "partial", settings, seeds, spec) for seeds in (SEEDS, SEEDS[2:3]))
    for iteration in range(2):
        rollout = make_rollout(stacked, SEEDS, iteration)
        stacked.update(rollout, Draws(SEEDS, iteration))
        alone.update(replica(rollout, 2), Draws(SEEDS[2:3], iteration))
    for mine, whole in zip(numbers(alone), numbers(stacked), strict=True):
        assert mine.equal(whole[2:3])


@pytest.mark.parametrize("what", ["nan reward", "infinite reward", "nan observation", "exploding ratio"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_broken_replica_stops_and_the_others_do_not_notice(algorithm: str, what: str) -> None:
    seeds, broken, sound = (0, 1, 2), 1, [0, 2]
    runs = []
    for breaks in (False, True):
        learner = make_learner(algorithm, "none", STACK, seeds)
        learner.update(make_rollout(learner, seeds, 0), Draws(seeds, 0))
        before = [p.detach().clone() for p in learner.stepper.parameters]
        for iteration in (1, 2):
            rollout = make_rollout(learner, seeds, iteration)
            if breaks and iteration == 1:
                if what == "nan observation":
                    rollout.observation[broken, 3, 1, 0] = math.nan
                elif what == "exploding ratio":
                    rollout.log_prob[broken, 2] = -500.0
                else:
                    rollout.reward[broken, 4, 0, 2] = math.nan if what == "nan reward" else math.inf
            learner.update(rollout, Draws(seeds, iteration))
        runs.append((learner, before))
    (whole, _), (hurt, before) = runs
    assert hurt.stepper.running.tolist() == [True, False, True]
    assert whole.stepper.running.all()
    for mine, yours in zip(numbers(hurt), numbers(whole), strict=True):
        assert mine[sound].equal(yours[sound])
    assert all(x[broken].isfinite().all() for x in hurt.stepper.normaliser)
    for now, then in zip(hurt.stepper.parameters, before, strict=True):
        assert now[broken].isfinite().all()
        if what != "exploding ratio":  # there some agents' steps were sound before the bad one
            assert now[broken].equal(then[broken]) or algorithm in ("happo", "a2po")


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        *((algorithm, {}) for algorithm in ALGORITHMS),
        ("fp3o", {"intermediate": False}),
        ("happo", {"happo_before": "rollout"}),
        ("coppo", {"joint_gradient": True}),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x), ""),
)
def test_ratios_of_24_agents(algorithm: str, changes: dict[str, object]) -> None:
    """Every ratio e^±5: the product of all overflows float32 unless it is kept in logarithms."""
    spec = make_spec(agents=24)
    settings = with_settings(
        STACK, rollout_length=4, rollout_threads=1, minibatches=1, advantage_standardisation="none", **changes
    )
    learner = make_learner(algorithm, "full", settings, (0, 1), spec)
    rollout = make_rollout(learner, (0, 1))
    shift = torch.tensor([5.0, -5.0])[:, None, None, None]
    # Good news for all: the product of large ratios satisfies FP3O's condition, that of small ones does not.
    rollout = rollout._replace(log_prob=rollout.log_prob - shift, reward=rollout.reward.abs(), value=0 * rollout.value)
    records = learner.update(rollout, Draws((0, 1), 0))
    if algorithm == "fp3o":
        assert records["go"].tolist() == [1.0, 0.0]
    assert learner.stepper.running.all()
    assert all(x.isfinite().all() for x in [*numbers(learner), *records.values()])


@pytest.mark.parametrize("kind", SHARINGS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_agent_dead_throughout(algorithm: str, kind: str) -> None:
    learner = make_learner(algorithm, kind, STACK, (0,))
    before = learner.stepper.parameters.head.detach().clone()
    rollout = make_rollout(learner)
    rollout.alive[..., 1] = 0
    records = learner.update(rollout, Draws((0,), 0))
    assert learner.stepper.running.all()
    assert all(x.isfinite().all() for x in [*numbers(learner), *records.values()])
    if kind in ("partial", "none"):
        head = learner.stepper.parameters.head[0]
        assert head[1].equal(before[0, 1]), "nothing the dead did is learned from"
        assert not head[0].equal(before[0, 0])


def test_what_the_dead_did_makes_no_difference_to_the_policy() -> None:
    learners = [make_learner("mappo", "full", STACK) for _ in range(2)]
    rollout = make_rollout(learners[0], deaths=True)
    dead = rollout.alive == 0
    assert dead.any()
    action = torch.where(dead[..., None], rollout.action + 3.0, rollout.action)
    for learner, played in zip(learners, (rollout, rollout._replace(action=action)), strict=True):
        learner.update(played, Draws((0,), 0))
    one, other = (learner.stepper.parameters for learner in learners)
    assert one.trunk.equal(other.trunk)
    assert one.head.equal(other.head)


# Turns


@pytest.mark.parametrize("algorithm", ["happo", "a2po"])
def test_only_the_agent_whose_turn_it_is_moves(algorithm: str) -> None:
    learner = make_learner(algorithm, "none", with_settings(agent_order="random"), (0, 1))
    rollout = make_rollout(learner, (0, 1))
    turns, moved = learner.turns, []

    def watched(context):  # type: ignore[no-untyped-def]
        for turn in turns(context):
            before = [p.detach().clone() for p in learner.stepper.parameters]
            yield turn
            after = learner.stepper.parameters
            moved.append([(b != a).any(-1) for b, a in zip(before, after, strict=True)])

    learner.turns = watched
    records = learner.update(rollout, Draws((0, 1), 0))
    assert len(moved) == 3
    for number, parts in enumerate(moved, 1):
        for part in parts:
            assert (part.sum(1) == 1).all()
            assert part.int().argmax(1).tolist() == records[f"agent_turn{number}"].tolist()
    orders = torch.stack([records[f"agent_turn{n}"] for n in (1, 2, 3)], 1)
    assert orders.sort(1).values.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_under_partial_sharing_other_heads_stay() -> None:
    learner = make_learner("happo", "partial", with_settings(agent_order="fixed"))
    turns, moved = learner.turns, []

    def watched(context):  # type: ignore[no-untyped-def]
        for turn in turns(context):
            before = learner.stepper.parameters.head.detach().clone()
            yield turn
            moved.append((before != learner.stepper.parameters.head).any(-1)[0].tolist())

    learner.turns = watched
    learner.update(make_rollout(learner), Draws((0,), 0))
    assert moved == [[True, False, False], [False, True, False], [False, False, True]]


def test_semi_greedy_order_starts_with_the_best() -> None:
    seeds = tuple(range(40))
    settings = with_settings(agent_order="semi-greedy", epochs=1, minibatches=1)
    learner = make_learner("a2po", "none", settings, seeds, make_spec(agents=4))
    rollout = make_rollout(learner, seeds)
    context = learner.context(rollout, Draws(seeds, 0))
    score = (context.advantage / rollout.value).abs().mean((1, 2))
    records = learner.update(rollout, Draws(seeds, 0))
    order = torch.stack([records[f"agent_turn{n}"] for n in (1, 2, 3, 4)], 1).long()
    assert order.sort(1).values.eq(torch.arange(4)).all()
    assert order[:, 0].equal(score.argmax(1))
    left = score.scatter(1, order[:, :2], -1.0)
    assert order[:, 2].equal(left.argmax(1)), "then a random one, then the best of those left"
    assert len(set(order[:, 1].tolist())) == 4


@pytest.mark.parametrize("kind", ["full", "none"])
def test_cumulative_blocks(kind: str) -> None:
    """Epochs divided by blocks; stage s learns with all agents of blocks 1…s."""
    settings = with_settings(epochs=4, blocks=2, cumulative_blocks=True, agent_order="fixed", two_stage=True)
    learner = make_learner("a2po", kind, settings, (0, 1), make_spec(agents=3))
    context = learner.context(make_rollout(learner, (0, 1)), Draws((0, 1), 0))
    learner._log_ratio = torch.zeros_like(context.advantage)
    turns = list(learner.turns(context))
    assert [t.learn for t in turns] == ["critic", "both"] * 4
    assert [t.learners[0].tolist() for t in turns[1::2]] == [[True, True, False], [True, True, True]] * 2  # type: ignore[index]
    assert all(t.others[0].tolist() == (~torch.eye(3, dtype=torch.bool)).tolist() for t in turns)  # type: ignore[index]


# Chunks and slices

RECURRENT = with_settings(recurrent=True, rollout_length=6, rollout_threads=4, minibatches=2)


@pytest.mark.parametrize("chunk", [1, 2, 3, 6, 4, 8, 12])
def test_chunks_see_what_the_policy_saw(chunk: int) -> None:
    """Log-ratios of an unchanged policy are 0: also where chunks straddle environments (4, 8 and 12 do)."""
    learner = make_learner("mappo", "partial", with_settings(RECURRENT, chunk_length=chunk), (0, 1))
    rollout = make_rollout(learner, (0, 1))
    learner._old_std = learner.std()
    assert learner.log_ratio(rollout).abs().max() < 2e-6


def test_chunks_in_the_middle_of_episodes() -> None:
    """Episodes that cross rollouts: the stored state is where a chunk starts."""
    learner = make_learner("mappo", "full", with_settings(RECURRENT, chunk_length=3))
    rollout = make_rollout(learner, starts_episodes=False)
    assert rollout.hidden_actor is not None
    assert rollout.hidden_actor[:, 0].abs().min() > 0
    learner._old_std = learner.std()
    assert learner.log_ratio(rollout).abs().max() < 2e-6


def test_straddling_needs_rollouts_that_start_episodes() -> None:
    settings = with_settings(RECURRENT, chunk_length=4)
    learner = make_learner("mappo", "full", settings)
    unit_rows(make_rollout(learner), settings)
    crossing = make_rollout(learner, starts_episodes=False)
    with pytest.raises(UserError, match=r"chunk_length 4.*rollout_length 6"):
        learner.update(crossing, Draws((0,), 0))
    with pytest.raises(UserError, match=r"chunk_length 5.*24"):
        unit_rows(make_rollout(learner), with_settings(settings, chunk_length=5))


def test_every_sample_is_used_once_per_epoch() -> None:
    learner = make_learner("mappo", "none", with_settings(minibatches=3, epochs=1), (0, 1))
    seen: list[Tensor] = []
    step = learner.stepper.step
    learner.stepper.step = lambda *args: seen.append(args[-1]) or step(*args)  # type: ignore[method-assign, func-returns-value]
    rollout = make_rollout(learner, (0, 1))
    learner.update(rollout, Draws((0, 1), 0))
    assert len(seen) == 3
    rows = torch.cat(seen, 2)
    assert rows.flatten().sort().values.equal(torch.arange(rollout.log_prob.numel()))
    # Row numbers run [R, T, N, A]: each agent of each replica gets its own samples.
    agents = rows % 3
    assert (agents == torch.arange(3)[None, :, None, None]).all()


@pytest.mark.parametrize("clip", ["own", "product"])
@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("kind", SHARINGS)
def test_slices_add_up(kind: str, recurrent: bool, clip: str) -> None:
    def sums(slice_rows: int) -> tuple[int, list[Tensor]]:
        settings = with_settings(RECURRENT, recurrent=recurrent, chunk_length=3, slice_rows=slice_rows)
        learner = make_learner("coppo", kind, settings, (0, 1))
        rollout = make_rollout(learner, (0, 1), deaths=True)
        rollout = rollout._replace(log_prob=rollout.log_prob + 0.05 * rollout.reward)
        context = learner.context(rollout, Draws((0, 1), 0))
        others = (~torch.eye(3, dtype=torch.bool)).expand(2, -1, -1) if clip == "product" else None
        turn = Turn(1, others=others, clip=clip)  # type: ignore[arg-type]
        members, samples = learner.members(turn), pack(context, turn)
        rows = agent_rows(rollout, members.agents, unit_rows(rollout, settings), None)
        counted: list[int] = []
        taken: list[list[Tensor]] = []
        stepper = learner.stepper
        gradients, apply = stepper.actor_gradients, stepper.apply

        def counting(*arguments: Any) -> ActorSums:
            counted.append(arguments[-1].shape[2])
            return gradients(*arguments)

        def noting(*arguments: Any) -> StepStatistics:
            taken.append([*arguments[0], *arguments[1]])
            return apply(*arguments)

        stepper.actor_gradients, stepper.apply = counting, noting  # type: ignore[method-assign, assignment]
        stepper.step(TurnData(rollout, samples, members), StepVariant(clip, None, "both", True), rows)  # type: ignore[arg-type]
        return len(counted), taken[0]

    whole, expected = sums(0)
    slices, found = sums(30)
    assert whole == 1
    assert slices > 2
    for mine, yours in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, yours, atol=1e-6, rtol=1e-6)
    assert max(x.abs().max().item() for x in expected) > 1e-3


def test_slices_are_set_by_the_cell() -> None:
    learner = make_learner("mappo", "full", with_settings(slice_rows=60))
    rows = torch.zeros(5, 3, 40, 4)
    assert learner.stepper.slice_units(rows) == 5
    assert learner.stepper.slice_units(rows[:1]) == 5, "however many replicas are stacked"
    assert make_learner("mappo", "full").stepper.slice_units(rows) == 40
    assert make_learner("mappo", "full", with_settings(slice_rows=1)).stepper.slice_units(rows) == 1


# Records


def test_records_of_an_update() -> None:
    learner = make_learner("fp3o", "none", SETTINGS, (0, 1))
    records = learner.update(make_rollout(learner, (0, 1)), Draws((0, 1), 0))
    expected = {f"kl_turn{t}_agent{a}" for t in (1, 2) for a in range(3)}
    expected |= {"condition_left", "condition_right", "go", "policy_loss", "entropy", "value_loss", "ratio"}
    expected |= {"clip_fraction", "actor_gradient_norm", "critic_gradient_norm", "explained_variance"}
    assert expected <= records.keys()
    assert all(value.shape == (2,) for value in records.values())
    assert all((records[f"kl_turn1_agent{a}"] > 0).all() for a in range(3))
    went_on = records["go"] > 0
    assert (went_on == (records["condition_left"] + 1e-5 >= records["condition_right"])).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", SHARINGS)
def test_recorded_losses_do_not_depend_on_who_shares(algorithm: str, kind: str) -> None:
    """With a rate of 0 the entropy is that of the start, and value losses are those of the critics as they are."""
    frozen = with_settings(actor_lr=0.0, critic_lr=0.0, value_normalisation=False)
    learner = make_learner(algorithm, kind, frozen)
    rollout = make_rollout(learner)
    found = learner.update(rollout, Draws((0,), 0))
    sigma = 0.5 / (1 + math.exp(-1.0))
    assert found["entropy"].item() == pytest.approx(2 * (0.5 * math.log(2 * math.pi * math.e) + math.log(sigma)), 1e-5)
    assert found["ratio"].item() == pytest.approx(1.0, abs=1e-5)
    assert found["clip_fraction"].item() == 0.0
    if algorithm != "a2po":  # its targets are corrected for the agents before
        rows = torch.tensor(learner.sharing.trunk)[None]
        layers = learner.critic.layers(learner.critic.rows(learner.stepper.parameters.critic, rows))
        state = rollout.state.flatten(1, 2).transpose(1, 2)[:, :, :, None]  # [R, A, T·N, 1, S]
        value = learner.critic.value(layers, state, None, None)[0][..., 0].transpose(1, 2).view_as(rollout.value)
        target = learner.context(rollout, Draws((0,), 0)).returns
        error = value_loss(value, rollout.value, target, frozen.clip, frozen.huber_delta).flatten(0, 2).mean(0)
        # HAPPO's steps have one agent each, the others' all of them: a mean over agents, or over owners.
        groups = rows[0].unique() if algorithm != "happo" else rows.new_tensor([-1])
        of_group = [error[(rows[0] == group) | (group < 0)].mean() for group in groups]
        assert found["value_loss"].item() == pytest.approx(torch.stack(of_group).mean().item(), rel=1e-4)


def test_a_gate_shut_by_infinity_is_the_same_alone_and_in_a_stack() -> None:
    """Steps so large that ratios overflow between FP3O's two steps in some replicas and not in others."""
    settings = with_settings(minibatches=1, epochs=1, epochs_dependent=1, actor_lr=20.0)
    spec = make_spec(agents=2, action=ActionSpec("gaussian", (1,)))
    seeds = tuple(range(6))
    learner = make_learner("fp3o", "full", settings, seeds, spec)
    rollout = make_rollout(learner, seeds)
    together = learner.update(rollout, Draws(seeds, 0))
    shut = [not together["condition_right"][i].isfinite() for i in seeds]
    assert any(shut)
    assert not all(shut)
    for index, seed in enumerate(seeds):
        alone = make_learner("fp3o", "full", settings, (seed,), spec)
        alone.update(replica(rollout, index), Draws((seed,), 0))
        assert alone.stepper.running.item() == learner.stepper.running[index].item()
        for mine, whole in zip(numbers(alone), numbers(learner), strict=True):
            assert mine.equal(whole[index : index + 1])


@pytest.mark.parametrize("value_normalisation", [True, False])
def test_value_normaliser_belongs_to_the_critics_owner(value_normalisation: bool) -> None:
    settings = with_settings(value_normalisation=value_normalisation, minibatches=1, epochs=1)
    learner = make_learner("mappo", "none", settings)
    rollout = make_rollout(learner)
    context = learner.context(rollout, Draws((0,), 0))
    learner.update(rollout, Draws((0,), 0))
    mean, _ = learner.stepper.normaliser.statistics()
    if not value_normalisation:
        assert mean.abs().max() == 0
        assert context.value.equal(rollout.value)
        return
    torch.testing.assert_close(mean[0], context.returns[0].flatten(0, 1).mean(0), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(context.value, 0.1 * rollout.value, msg="before the first update the std reads 0.1")
