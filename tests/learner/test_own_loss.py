"""Losses that an algorithm brings along: what they see, and that all forms of a step compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
import torch
from fake_graphs import replay_on_cpu
from synthetic import ACTIONS, SETTINGS, make_learner, make_rollout, make_spec, with_settings
from torch import Tensor

import fp3o
from fp3o.config.sharings import SHARINGS
from fp3o.errors import UserError
from fp3o.execution import compiler
from fp3o.execution.choice import SOUND_ON_CPUS, why_not_compiled
from fp3o.execution.steps import CompiledSteps, GraphSteps, ThreadedSteps
from fp3o.learner.randomness import Draws
from fp3o.learner.step import Stepper, Steps
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing

SEEDS = (3, 7, 1)
Turns = Callable[[fp3o.Context], Iterator[fp3o.Turn]]
Wrap = Callable[[Stepper], Steps]


def learned(
    turns: Turns | None,
    kind: str = "none",
    action: str = "gaussian",
    recurrent: bool = False,
    seeds: Sequence[int] = SEEDS,
    wrap: Wrap = lambda stepper: stepper,
) -> tuple[Learner, list[dict[str, Tensor]]]:
    """A learner after two iterations, and their records; turns None: MAPPO's."""
    settings = with_settings(SETTINGS, recurrent=recurrent)
    learner = make_learner("mappo", kind, settings, seeds, make_spec(action=ACTIONS[action]), wrap)
    if turns is not None:
        learner.turns = turns
    records = []
    for iteration in range(2):
        rollout = make_rollout(learner, seeds, iteration, deaths=True)
        records.append(learner.update(rollout, Draws(seeds, iteration)))
    return learner, records


def same(one: Learner, other: Learner) -> bool:
    return all(a.equal(b) for a, b in zip(one.stepper.parameters, other.stepper.parameters, strict=True))


def clipped(batch: fp3o.ActorBatch) -> Tensor:
    return -batch.surrogate


def clipped_value(batch: fp3o.CriticBatch) -> Tensor:
    return batch.loss


def restated(context: fp3o.Context) -> Iterator[fp3o.Turn]:
    yield fp3o.Turn(context.settings.epochs, loss=clipped, critic_loss=clipped_value)


@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", SHARINGS)
def test_the_clipped_objective_as_a_loss_is_mappo(kind: str, action: str, recurrent: bool) -> None:
    ours, records = learned(restated, kind, action, recurrent)
    mappo, expected = learned(None, kind, action, recurrent)
    assert same(ours, mappo)
    assert all(mine[name].equal(x) for mine, one in zip(records, expected, strict=True) for name, x in one.items())


SEEN: list[fp3o.ActorBatch] = []
SEEN_BY_CRITIC: list[fp3o.CriticBatch] = []


def look(batch: fp3o.ActorBatch) -> Tensor:
    SEEN.append(batch)
    return -batch.surrogate


def look_at_values(batch: fp3o.CriticBatch) -> Tensor:
    SEEN_BY_CRITIC.append(batch)
    return (batch.value - batch.target) ** 2


@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("action", ["gaussian", "categorical"])
def test_what_a_loss_sees(action: str, recurrent: bool) -> None:
    """Agents 2 and 0 in the first turn, in another order in each seed; a second turn after the policy has moved."""

    def turns(context: fp3o.Context) -> Iterator[fp3o.Turn]:
        two = torch.tensor([[2, 0], [0, 2], [1, 2]])
        weight = torch.rand(context.advantage.shape) + 0.5
        inputs: dict[str, Tensor | float] = {
            "number": 2.0,
            "seeds": torch.tensor([1.0, 2.0, 3.0]),
            "samples": context.rollout.reward,
        }
        for turn in (1, 2):
            yield fp3o.Turn(1, turn, two, weight=weight, loss=look, critic_loss=look_at_values, inputs=inputs)

    SEEN.clear()
    SEEN_BY_CRITIC.clear()
    learner, _ = learned(turns, "partial", action, recurrent)
    s = learner.settings
    length = s.chunk_length if recurrent else 1
    lead = (3, 2, s.rollout_length * s.rollout_threads // length // s.minibatches, length)
    assert len(SEEN) == len(SEEN_BY_CRITIC) == 2 * 2 * s.minibatches
    width = ACTIONS[action].parameters
    for batch in SEEN:
        per_sample = ("log_prob", "ratio", "entropy", "kl", "surrogate", "old_log_prob", "advantage", "weight")
        for name in (*per_sample, "old_value", "returns", "alive"):
            assert getattr(batch, name).shape == lead, name
        assert batch.location.shape == batch.old_location.shape == (*lead, width)
        assert batch.clip_range.shape == (3, 2, 1, 1)
        assert {name: x.shape for name, x in batch.inputs.items()} == {
            "number": (3, 1, 1, 1),
            "seeds": (3, 1, 1, 1),
            "samples": lead,
        }
        assert torch.allclose(batch.ratio, (batch.log_prob - batch.old_log_prob).exp())
        unclipped = batch.ratio * batch.weight * batch.advantage
        inside = (batch.ratio - 1).abs() < batch.clip_range
        assert torch.allclose(batch.surrogate[inside], unclipped[inside])
        if action == "gaussian":
            assert batch.std is not None
            assert batch.old_std is not None
            new = torch.distributions.Normal(batch.location, batch.std)
            old = torch.distributions.Normal(batch.old_location, batch.old_std)
            assert torch.allclose(old.log_prob(batch.action).sum(-1), batch.old_log_prob, atol=1e-5)
            divergence = torch.distributions.kl_divergence(new, old).sum(-1)
        else:
            assert batch.std is None
            assert batch.old_std is None
            chosen = batch.old_location.gather(-1, batch.action.long())[..., 0]
            assert torch.allclose(chosen, batch.old_log_prob, atol=1e-5)
            divergence = (batch.location.exp() * (batch.location - batch.old_location)).sum(-1)
        assert torch.allclose(batch.kl, divergence, atol=1e-5)
    assert SEEN[0].kl.abs().max() < 1e-5
    assert SEEN[s.minibatches].kl.max() > 1e-4, "the policy has moved"
    for values in SEEN_BY_CRITIC:
        assert values.value.shape == values.target.shape == values.loss.shape == values.returns.shape == lead


def half(batch: fp3o.ActorBatch) -> Tensor:
    return -batch.surrogate * batch.inputs["share"]


@pytest.mark.parametrize("per_sample", [False, True])
def test_inputs_are_those_of_the_turn(per_sample: bool) -> None:
    """A seed whose share is 0 does not learn; with shares of samples it is as with `weight`, but for rounding."""
    shares = torch.tensor([0.0, 0.25, 1.0])

    def turns(context: fp3o.Context) -> Iterator[fp3o.Turn]:
        own = shares[:, None, None, None] * (context.rollout.reward > 0)
        yield fp3o.Turn(2, learn="actor", loss=half, inputs={"share": own if per_sample else shares})

    def weighted(context: fp3o.Context) -> Iterator[fp3o.Turn]:
        own = shares[:, None, None, None].expand_as(context.advantage)
        yield fp3o.Turn(2, learn="actor", weight=own * (context.rollout.reward > 0) if per_sample else own)

    ours, other = learned(turns)[0], learned(weighted)[0]
    for one, two in zip(ours.stepper.parameters, other.stepper.parameters, strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    assert not torch.allclose(ours.stepper.parameters.trunk[2], ours.stepper.parameters.trunk[1], atol=1e-2)


def penalised(batch: fp3o.ActorBatch) -> Tensor:
    return -batch.ratio * batch.advantage * batch.weight + batch.inputs["beta"] * batch.kl


def squared(batch: fp3o.CriticBatch) -> Tensor:
    return batch.inputs["scale"] * (batch.value - batch.target) ** 2


def changing(context: fp3o.Context) -> Iterator[fp3o.Turn]:
    """What the losses read is different in each turn; the same function may be defined again and again."""
    for turn in (1, 2):
        beta = turn * context.advantage.flatten(1).std(1)
        scale = turn * context.advantage.abs()
        local = lambda batch: penalised(batch)  # noqa: E731
        yield fp3o.Turn(1, turn, loss=local, critic_loss=squared, inputs={"beta": beta, "scale": scale})
        yield fp3o.Turn(1, turn)


@pytest.mark.parametrize("action", ["gaussian", "categorical"])
def test_a_seed_alone_is_the_same_seed_in_a_stack(action: str) -> None:
    together, _ = learned(changing, action=action)
    for place, seed in enumerate(SEEDS):
        alone, _ = learned(changing, action=action, seeds=(seed,))
        for one, many in zip(alone.stepper.parameters, together.stepper.parameters, strict=True):
            assert one[0].equal(many[place])


@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
def test_other_forms_of_a_step_compute_the_same(recurrent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    eager, _ = learned(changing, recurrent=recurrent)
    assert same(eager, learned(changing, recurrent=recurrent, wrap=partial(ThreadedSteps, threads=4))[0])
    with monkeypatch.context() as patched:
        replay_on_cpu(patched)
        assert same(eager, learned(changing, recurrent=recurrent, wrap=GraphSteps)[0])
    traced: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, *_: object) -> torch.fx.GraphModule:
        traced.append(graph)
        return graph

    monkeypatch.setattr(compiler, "_load_or_compile", keep)
    programs, _ = learned(changing, recurrent=recurrent, wrap=CompiledSteps)
    for one, two in zip(eager.stepper.parameters, programs.stepper.parameters, strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    assert len(traced) == 2, "with the losses and without"
    assert not [node for graph in traced for node in graph.graph.nodes if node.op == "get_attr"]


UNSOUND = "torch compiles wrongly for CPUs" if torch.__version__ < SOUND_ON_CPUS else None


@pytest.mark.skipif((why_not_compiled() or UNSOUND) is not None, reason=str(why_not_compiled() or UNSOUND))
@pytest.mark.slow
def test_compiled_is_eager() -> None:
    eager, programs = learned(changing)[0], learned(changing, wrap=CompiledSteps)[0]
    for one, two in zip(eager.stepper.parameters, programs.stepper.parameters, strict=True):
        assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("form", ["eager", "graph"])
@pytest.mark.parametrize("action", ["gaussian", "categorical"])
def test_a_gpu_agrees_with_the_cpu(action: str, form: str) -> None:
    """Both update on the rollouts of the one on the CPU: actions drawn on a GPU would be others."""
    spec, settings = make_spec(action=ACTIONS[action]), with_settings(SETTINGS)
    owners = sharing("none", spec.agent_types)
    wrap: Wrap = GraphSteps if form == "graph" else lambda stepper: stepper
    cpu = make_learner("mappo", "none", settings, SEEDS, spec)
    gpu = Learner.fresh(spec, owners, "mappo", settings, SEEDS, device="cuda", wrap=wrap)
    cpu.turns = gpu.turns = changing
    for iteration in range(3):
        rollout = make_rollout(cpu, SEEDS, iteration, deaths=True)
        there = type(rollout)._make(None if x is None else x.cuda() for x in rollout)
        gpu.update(there, Draws(SEEDS, iteration, "cuda"))
        cpu.update(rollout, Draws(SEEDS, iteration))
    for one, two in zip(cpu.stepper.parameters, gpu.stepper.parameters, strict=True):
        assert torch.allclose(one, two.cpu(), atol=1e-4)


def whole(batch: fp3o.ActorBatch) -> Tensor:
    return batch.surrogate.mean()


def failing(batch: fp3o.ActorBatch) -> Tensor:
    return batch.nothing  # type: ignore[attr-defined]


def defaults(batch: fp3o.ActorBatch, beta: float = 1.0) -> Tensor:
    return beta * batch.kl


def closed(beta: float) -> Callable[[fp3o.ActorBatch], Tensor]:
    return lambda batch: beta * batch.kl


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (whole, r"loss whole returns \(\); allowed: a tensor \[R, K, C, L\] = \(3, 3, 12, 1\)"),
        (failing, r"loss failing fails: AttributeError: .*'nothing' \(line \d+\)"),
        (defaults, "loss must be a plain function of the minibatch.*default arguments; allowed: Turn"),
        (closed(1.0), r"loss must be a plain function of the minibatch.*\(it has beta\); allowed: Turn"),
        (torch.nn.Linear(1, 1), r"loss must be a plain function of the minibatch.*\(it has Linear\)"),
    ],
)
def test_mistakes_are_one_line(loss: Callable[[fp3o.ActorBatch], Tensor], message: str) -> None:
    def turns(context: fp3o.Context) -> Iterator[fp3o.Turn]:
        yield fp3o.Turn(1, loss=loss)

    with pytest.raises(UserError, match=message) as caught:
        learned(turns)
    assert "\n" not in str(caught.value)
