"""Acting and valuing from fixed addresses: the numbers of the plain policy and critic, with and without a CUDA graph.

All without a graph is tested on the CPU, the same classes with one on a GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from short_runs import StopAfter, documents, files, tiny_plan
from torch import Tensor

from fp3o.algorithms.turns import Rollout
from fp3o.config import Plan
from fp3o.envs import make
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.errors import UserError
from fp3o.execution import choice as execution
from fp3o.execution import cuda_graphs as graphs
from fp3o.execution import gpu_policy
from fp3o.execution.allocator import no_garbage_collection
from fp3o.execution.choice import Execution, place_to_act
from fp3o.execution.compute import Compute
from fp3o.execution.cuda_graphs import capture
from fp3o.execution.gpu_policy import GpuPolicy
from fp3o.learner.randomness import Draws
from fp3o.learner.state import named
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing
from fp3o.rollout import values
from fp3o.rollout.collector import Collector
from fp3o.rollout.evaluation import Evaluator
from fp3o.rollout.policy import Policy
from fp3o.runs.interrupt import Interrupted
from fp3o.training import run

SEEDS = (0, 1, 2)
SPEAKER, SPREAD, REACHER = (
    "mpe/simple-speaker-listener/none/fp3o",
    "mpe/simple-spread/full/fp3o",
    "mamujoco/reacher-2x1/partial/mappo",
)
BATTLE = "smac/3m/full/fp3o"
TOLERANCE = 1e-5
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
Acts = Callable[..., Policy]
PLAIN = partial(GpuPolicy, device="cpu", graph=False)


def plan_of(cell: str) -> Plan:
    """Episodes end inside rollouts and go on across them; a time limit is no end."""
    return tiny_plan(cell, rollout_length=20, recurrent=True, chunk_length=10, time_limit_is_terminal=False)


class Play:
    """Environments and an untrained learner of a plan, and the rollouts one sort of policy collects in them."""

    def __init__(self, plan: Plan, policy: Acts, device: str = "cpu", graph: bool = False) -> None:
        """graph: values are replayed, too, as where policies are."""
        self.plan, slots = plan, plan.settings.rollout_threads
        self.env = make(plan.cell.domain, plan.cell.task, len(SEEDS) * slots, options=plan.options)
        self.env.reset(np.concatenate([slot_seeds(seed, "training", slots) for seed in SEEDS]))
        owners = sharing(plan.cell.sharing, self.env.spec.agent_types)
        self.learner = Learner.fresh(self.env.spec, owners, plan.cell.algorithm, plan.settings, SEEDS, device=device)
        replayed: Any = (lambda run: capture(run, lambda: None)[0].replay) if graph else (lambda run: run)
        self.collector = Collector(self.env, self.learner, plan.settings, policy, replayed)

    def rollout(self, iteration: int) -> dict[str, Tensor]:
        rollout = self.collector.collect(SEEDS, iteration).rollout._asdict()
        return {name: x.detach().cpu().clone() for name, x in rollout.items() if x is not None}

    def change(self) -> None:
        """Other parameters, as after an update."""
        with torch.no_grad():
            for x in self.learner.stepper.parameters:
                x.mul_(1.5).add_(0.01)


def rollouts(play: Play) -> list[dict[str, Tensor]]:
    first = play.rollout(0)
    play.change()
    return [first, play.rollout(1)]


def agree(
    one: list[dict[str, Tensor]],
    other: list[dict[str, Tensor]],
    exact: tuple[str, ...] = (),
    tolerance: float = TOLERANCE,
) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            difference = (b[name].double() - value.double()).abs() / (1 + value.double().abs())
            assert difference.max() <= (0 if name in exact else tolerance), f"{name}: {difference.max():.2g}"


@pytest.mark.parametrize("cell", [SPEAKER, SPREAD, REACHER, BATTLE])
def test_a_rollout_is_that_of_the_plain_policy(cell: str) -> None:
    """To the bit where nothing but addresses differs; values come from products of other shapes."""
    plan = plan_of(cell)
    plain, resident = rollouts(Play(plan, Policy)), rollouts(Play(plan, PLAIN))
    agree(plain, resident, exact=("observation", "action", "location", "hidden_actor", "reward", "keep", "log_prob"))
    assert cell == BATTLE or plain[1]["keep"].unique().tolist() == [0.0, 1.0]
    assert plain[1]["hidden_critic"].abs().max() > 100 * TOLERANCE
    assert (plain[1]["value"] - plain[0]["value"]).abs().max() > 100 * TOLERANCE


def test_battles_are_written_where_the_policy_reads_them() -> None:
    """Training and evaluation copy nothing; the critics' input is read by those that learn only."""
    play, plan = Play(plan_of(BATTLE), PLAIN), plan_of(BATTLE)
    evaluator = Evaluator(plan.cell, plan.options, play.learner.actor, len(SEEDS), 2, policy=PLAIN)
    for env, policy, names in (
        (play.env, play.collector.policy, {"observation", "available", "state"}),
        (evaluator.env, evaluator.policy, {"observation", "available"}),
    ):
        assert policy.shown.keys() == names
        for name, array in policy.shown.items():
            assert getattr(env.snapshot(), name) is array
    evaluator.close()


def test_values_in_pieces_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last piece shorter than the others."""
    plan = plan_of(SPREAD)
    whole = rollouts(Play(plan, PLAIN))
    pieces: list[int] = []

    gate_inputs = values.Scan._gate_inputs

    def counted(scan: values.Scan, layers: dict[str, Tensor], rows: Tensor) -> Tensor:
        pieces.append(rows.numel())
        return gate_inputs(scan, layers, rows)

    monkeypatch.setattr(values.Scan, "_gate_inputs", counted)
    monkeypatch.setattr(values, "PIECE", 7 * whole[0]["state"][0, 0].numel())
    agree(whole, rollouts(Play(plan, PLAIN)))
    step = whole[0]["state"][:, 0].numel()
    assert pieces == [7 * step, 7 * step, 6 * step, step] * 2


class Recorded:
    """A graph whose replay repeats its step on the CPU."""

    def __init__(self, step: Callable[[], Tensor | None]) -> None:
        self._step, self._result = step, step()

    def replay(self) -> None:
        result = self._step()
        if self._result is not None and result is not None:
            self._result.copy_(result)


def warmed_up(
    step: Callable[[], Tensor | None], undo: Callable[[], object], urgent: bool = False
) -> tuple[Recorded, Tensor | None]:
    """`graphs.capture` without a GPU."""
    for _ in range(graphs.WARM_UP_STEPS):
        step()
        undo()
    recorded = Recorded(step)
    undo()
    return recorded, recorded._result


def test_a_function_is_replayed_with_other_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "capture", warmed_up)
    rows = torch.arange(12.0).reshape(4, 3)
    difference = graphs.Replayed(torch.sub)
    results = [difference(x, y) for x, y in zip(rows[:2], rows[2:], strict=True)]
    assert results[0] is results[1]
    assert torch.equal(results[1], rows[1] - rows[3])
    assert torch.equal(rows, torch.arange(12.0).reshape(4, 3))


def test_nothing_is_collected_during_a_capture() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_warming_up_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the recurrent state nor in its history; and a rollout is valued in pieces as at once."""
    plan = plan_of(SPREAD)
    plain = rollouts(Play(plan, PLAIN))
    monkeypatch.setattr(gpu_policy, "capture", warmed_up)
    monkeypatch.setattr(values, "EVALUATION_ROWS", 3 * plan.settings.rollout_threads)
    agree(plain, rollouts(Play(plan, partial(GpuPolicy, device="cpu"))), exact=("action", "hidden_actor"))


@pytest.mark.parametrize("cell", [SPEAKER, REACHER])
def test_rehearsing_leaves_no_trace(cell: str) -> None:
    """Neither in the learner nor in the collector; the blank rollout has the shapes of a real one."""
    plan = plan_of(cell)
    plain, rehearsed = Play(plan, Policy), Play(plan, Policy)
    blank = rehearsed.collector.blank()
    rehearsed.learner.rehearse(blank, Draws(SEEDS, 0, rehearsed.learner.device))
    for iteration in range(2):
        rollouts = [play.collector.collect(SEEDS, iteration).rollout for play in (plain, rehearsed)]
        for name, x, y, z in zip(Rollout._fields, *rollouts, blank, strict=True):
            assert (x is None) == (y is None) == (z is None)
            if x is not None and y is not None and z is not None:
                assert torch.equal(x, y), name
                assert (x.shape, x.dtype, x.stride()) == (z.shape, z.dtype, z.stride()), name
        for play, rollout in zip((plain, rehearsed), rollouts, strict=True):
            play.learner.update(rollout, Draws(SEEDS, iteration, play.learner.device))
        states = [named(play.learner.stepper.state) for play in (plain, rehearsed)]
        assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())


@pytest.mark.parametrize("policy", [PLAIN, pytest.param(GpuPolicy, marks=GPU, id="gpu")])
def test_a_saved_collector_goes_on_to_the_bit(policy: Acts) -> None:
    plan, device = plan_of(SPEAKER), "cpu" if policy is PLAIN else "cuda"
    unbroken, resumed = Play(plan, policy, device), Play(plan, policy, device)
    unbroken.rollout(0)
    state = {name: torch.as_tensor(x).cpu().clone() for name, x in unbroken.collector.state_dict().items()}
    resumed.env.load_state_dict(deepcopy(unbroken.env.state_dict()))
    resumed.collector.load_state_dict(state)
    expected = unbroken.rollout(1)
    agree([expected], [resumed.rollout(1)], exact=tuple(expected))


def episodes(policy: Acts) -> list[list[Episode]]:
    """Of two evaluations: the second must not remember the first."""
    plan = plan_of(SPEAKER)
    learner = Play(plan, Policy).learner
    evaluator = Evaluator(plan.cell, plan.options, learner.actor, len(SEEDS), 3, policy=policy)
    found = []
    for iteration in (0, 1):
        trunk, head, _ = learner.stepper.parameters
        found += evaluator.run(trunk * (1 + iteration), head * 100, SEEDS, "evaluation", iteration)
    evaluator.close()
    return found


def test_an_evaluation_is_that_of_the_plain_policy() -> None:
    assert episodes(PLAIN) == episodes(Policy)


def test_where_policies_act() -> None:
    assert place_to_act("graph", "cuda", "auto") == "cuda"
    assert place_to_act("graph", "cuda", "auto", compiled=True) == "cuda-compiled"
    assert place_to_act("graph", "cuda", "cuda", compiled=True) == "cuda"
    assert place_to_act("eager", "cuda", "auto") == "cpu"
    assert place_to_act("compiled", "cpu", "auto") == "cpu"
    assert place_to_act("graph", "cuda", "cuda-compiled") == "cuda-compiled"
    assert place_to_act("graph", "cuda", "cpu") == "cpu"
    with pytest.raises(UserError, match="FP3O_ACTING=gpu with updates on cuda; allowed: auto, cpu, cuda, cuda-compil"):
        place_to_act("graph", "cuda", "gpu")
    with pytest.raises(UserError, match=r"FP3O_ACTING=cuda with updates on cpu; allowed: auto, cpu$"):
        place_to_act("compiled", "cpu", "cuda")


def test_a_path_says_where_policies_act(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files of runs begun before it was noted say nothing: those acted on the CPU."""
    path = Execution("graph", "cuda", torch.__version__, 1, "", acts_on="cuda")
    assert (path.policy_class, path.record()["acts_on"]) == (GpuPolicy, "cuda")
    older = {name: value for name, value in asdict(path).items() if name != "acts_on"}
    assert (Execution(**older).acts_on, Execution(**older).policy_class) == ("cpu", Policy)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(execution, "why_not_compiled", lambda: None)
    gru, plain = plan_of(SPEAKER), tiny_plan(REACHER)
    for mps, plan, device, acts_on in (
        ("off", gru, "auto", "cuda"),
        ("off", plain, "auto", "cuda-compiled"),
        ("on", gru, "auto", "cuda-compiled"),
        ("on", plain, "auto", "cuda-compiled"),
        ("on", gru, "cpu", "cpu"),
    ):
        if mps == "on":
            (tmp_path / "control").touch()
        chosen = execution.choose(plan, Compute(device, "compiled"))  # type: ignore[arg-type]
        assert chosen.acts_on == acts_on
        assert chosen.reason == ("asked for" if device == "cpu" else f"asked for; acting on the GPU, MPS {mps}")


@GPU
@pytest.mark.parametrize("cell", [SPEAKER, SPREAD, REACHER, BATTLE])
def test_gpu_graphs_act_and_value_as_their_operations_do(cell: str) -> None:
    plan = plan_of(cell)
    plain = rollouts(Play(plan, Policy))
    eager = rollouts(Play(plan, partial(GpuPolicy, graph=False), "cuda"))
    replayed = [rollouts(Play(plan, GpuPolicy, "cuda", graph=True)) for _ in range(2)]
    agree(replayed[0], replayed[1], exact=tuple(replayed[0][0]))
    agree(eager, replayed[0])
    agree(plain[:1], eager[:1], tolerance=1e-3)  # what a simulator makes of other last bits grows


@GPU
def test_gpu_graphs_of_compiled_operations_agree() -> None:
    plan = plan_of(SPEAKER)
    compiled = Execution("graph", "cuda", torch.__version__, 1, "", acts_on="cuda-compiled").policy
    eager, fused = (rollouts(Play(plan, policy, "cuda", graph=True)) for policy in (GpuPolicy, compiled))
    agree(eager, fused, tolerance=1e-3)


@GPU
def test_gpu_policies_without_grus_act_too() -> None:
    plan = tiny_plan(REACHER)
    agree(rollouts(Play(plan, Policy))[:1], rollouts(Play(plan, GpuPolicy, "cuda"))[:1], tolerance=1e-3)


@GPU
def test_gpu_evaluations_are_those_of_the_cpu() -> None:
    graph = episodes(GpuPolicy)
    assert graph == episodes(partial(GpuPolicy, graph=False))
    on_cpu = episodes(Policy)
    assert [[e.length for e in found] for found in graph] == [[e.length for e in found] for found in on_cpu]
    returns = [[e.total_return for found in results for e in found] for results in (graph, on_cpu)]
    assert returns[0] == pytest.approx(returns[1], rel=1e-4)


@GPU
def test_gpu_capture_survives_the_garbage_of_an_earlier_one() -> None:
    """Destroying a graph while another one is captured would abort the process."""
    x = torch.zeros(8, device="cuda")
    cycle: list[object] = [graphs.capture(lambda: x.add_(1), x.zero_)]
    cycle.append(cycle)
    del cycle

    def step() -> Tensor:
        assert len([[] for _ in range(100_000)]) > gc.get_threshold()[0]  # as many objects as start a collection
        return x + 1

    graph, result = graphs.capture(step, lambda: None)
    graph.replay()
    assert result.tolist() == (x + 1).tolist()


@GPU
def test_gpu_interrupted_is_unbroken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(execution.ACTING, "cuda")
    plan = tiny_plan(SPEAKER, 3)

    def train(name: str, *callbacks: StopAfter) -> None:
        folder = tmp_path / name
        run.train(plan, (0, 1), folder, folder / "scratch", Compute("cuda", "eager"), callbacks)

    train("unbroken")
    with pytest.raises(Interrupted):
        train("broken", StopAfter(plan.settings.rollout_length * plan.settings.rollout_threads))
    monkeypatch.setenv(execution.ACTING, "cpu")  # a run goes on as it began
    train("broken")
    assert files(tmp_path / "broken") == files(tmp_path / "unbroken")
    assert {document["path"]["acts_on"] for document in documents(tmp_path / "broken").values()} == {"cuda"}
