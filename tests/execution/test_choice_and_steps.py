"""The same numbers on every path: eager and compiled, CPU and GPU, a seed alone and in a stack.

All learn from one recorded rollout, three updates: small differences would grow in free-running training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from fake_graphs import replay_on_cpu
from short_runs import begin, documents, tiny_plan, train, train_interrupted
from torch import Tensor
from torch.torch_version import TorchVersion

from fp3o.algorithms.turns import Rollout
from fp3o.config import Cell, Plan, resolve
from fp3o.envs import make
from fp3o.envs.interface import EnvSpec, slot_seeds
from fp3o.errors import UserError
from fp3o.execution import choice as execution
from fp3o.execution import compiler as compiling
from fp3o.execution.choice import Execution
from fp3o.execution.compute import Compute
from fp3o.execution.steps import CompiledSteps, GraphSteps, ThreadedSteps
from fp3o.learner.randomness import Draws
from fp3o.learner.step import Stepper, Steps, StepVariant, TurnData, take_step
from fp3o.learner.update import Learner
from fp3o.networks import products
from fp3o.networks.sharing import sharing
from fp3o.rollout.collector import Collector
from fp3o.rollout.policy import MakePolicy, Policy

SEEDS = (0, 1, 2)
UPDATES = 3
# An MLP with Gaussian actions, and a GRU with categorical ones; actors whose step is long enough to be wrong.
MLP = "mamujoco/hopper-3x1/partial/fp3o"
GRU = "mpe/simple-speaker-listener/none/fp3o"
SEQUENTIAL = "mamujoco/reacher-2x1/full/a2po"
TOLERANCE = 1e-5

UNSOUND = "torch compiles wrongly for CPUs" if torch.__version__ < execution.SOUND_ON_CPUS else None
OBSTACLE = execution.why_not_compiled() or UNSOUND
needs_compiler = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))


def short(cell: str) -> Plan:
    """With one layer before the GRU, not two: a third less to compile."""
    length = 50 if cell.startswith("mamujoco") else 25
    return tiny_plan(cell, rollout_length=length, epochs=2, actor_lr=3e-4, hidden_layers=1)


Wrap = Callable[[Stepper], Steps]


def eager(stepper: Stepper) -> Steps:
    return stepper


def make_learner(plan: Plan, spec: EnvSpec, seeds: Sequence[int], device: str = "cpu", wrap: Wrap = eager) -> Learner:
    owners = sharing(plan.cell.sharing, spec.agent_types)
    return Learner.fresh(spec, owners, plan.cell.algorithm, plan.settings, seeds, device=device, wrap=wrap)


class Recorded(NamedTuple):
    """A rollout of all seeds, on the CPU, and where it came from."""

    spec: EnvSpec
    rollout: Rollout


@cache
def recorded(cell: str) -> Recorded:
    return collect(short(cell))


def collect(plan: Plan, policy: MakePolicy = Policy) -> Recorded:
    settings = plan.settings
    slots = settings.rollout_threads
    env = make(plan.cell.domain, plan.cell.task, len(SEEDS) * slots, options=plan.options)
    env.reset(np.concatenate([slot_seeds(seed, "training", slots) for seed in SEEDS]))
    learner = make_learner(plan, env.spec, SEEDS)
    collected = Collector(env, learner, settings, policy).collect(SEEDS, 0)
    env.close()
    return Recorded(env.spec, Rollout._make(None if x is None else x.clone() for x in collected.rollout))


def learned(
    cell: str, seeds: Sequence[int] = SEEDS, device: str = "cpu", wrap: Wrap = eager
) -> list[dict[str, Tensor]]:
    """Parameters, normaliser and the record's numbers after each update."""
    plan, (spec, rollout) = short(cell), recorded(cell)
    places = [SEEDS.index(seed) for seed in seeds]
    mine = Rollout._make(None if x is None else x[places].to(device) for x in rollout)
    learner = make_learner(plan, spec, seeds, device, wrap)
    states = []
    for update in range(UPDATES):
        numbers = learner.update(mine, Draws(seeds, update, device))
        state = dict(learner.stepper.parameters._asdict()) | learner.stepper.normaliser._asdict() | numbers
        states.append({name: x.detach().cpu().clone() for name, x in state.items()})
    return states


LEARNED = ("trunk", "head", "critic", "mean_sum", "square_sum", "weight")


def agree(one: list[dict[str, Tensor]], other: list[dict[str, Tensor]], numbers: float = TOLERANCE) -> None:
    """What is learned to 1e-5; numbers of the record to `numbers`: in some, one sample at an edge shows."""
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            tolerance = TOLERANCE if name in LEARNED else numbers
            difference = (b[name].float() - value.float()).abs() / (1 + value.float().abs())
            assert difference.max() <= tolerance, f"{name}: {difference.max():.2g}"


@pytest.mark.parametrize("cell", [MLP, GRU])
def test_steps_are_long_enough_to_show_a_mistake(cell: str) -> None:
    first, *_, last = learned(cell)
    for name in ("trunk", "head", "critic"):
        assert (last[name] - first[name]).abs().max() > 50 * TOLERANCE


@pytest.mark.parametrize("large", [1, CompiledSteps.LARGE])  # a replica at a time, and all at once
@pytest.mark.parametrize("cell", [MLP, GRU])
def test_traced_is_eager(cell: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to torch's compiler has the function's results, and nothing in it is a constant of this run."""
    monkeypatch.setattr(CompiledSteps, "LARGE", large)
    traced: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, *_: object) -> torch.fx.GraphModule:
        traced.append(graph)
        return graph

    monkeypatch.setattr(compiling, "_load_or_compile", keep)
    agree(learned(cell), learned(cell, wrap=CompiledSteps))
    assert traced
    assert not [node for graph in traced for node in graph.graph.nodes if node.op == "get_attr"]


@needs_compiler
@pytest.mark.parametrize("cell", [MLP, pytest.param(GRU, marks=pytest.mark.slow)])
def test_compiled_is_eager(cell: str) -> None:
    agree(learned(cell), learned(cell, wrap=CompiledSteps))


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU with so many rows that every weight's gradient is a sum of several pieces."""
    monkeypatch.setattr(products, "product", products.split_product)
    monkeypatch.setattr(products, "ROWS_PER_PIECE", 10)


def test_gradients_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learned(MLP)
    in_pieces(monkeypatch)
    agree(whole, learned(MLP))


class Noting:
    """The methods of a stepper; notes the name of each that is called, and the thread that calls it."""

    def __init__(self, stepper: Stepper, calls: list[tuple[str, int]]) -> None:
        self._stepper, self._calls = stepper, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stepper, name)

        def call(*arguments: Any) -> Any:
            self._calls.append((name, threading.get_ident()))
            return method(*arguments)

        return method if name == "slice_units" else call


class InParts:
    """As on a GPU: a step by four functions, gradients of actors and critics perhaps at the same time."""

    def __init__(self, stepper: Stepper, calls: list[tuple[str, int]], both: Callable[..., Any]) -> None:
        self._parts, self._both = Noting(stepper, calls), both

    def begin(self, turn: TurnData, variant: StepVariant) -> Callable[[Tensor], Any]:
        return lambda rows: take_step(self._parts, turn, variant, rows, self._both)

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return function


@pytest.mark.parametrize("cell", [MLP, GRU, SEQUENTIAL])
def test_a_step_in_four_parts_is_the_same(cell: str) -> None:
    calls: list[tuple[str, int]] = []

    def in_turn(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        return first(), second()

    parts = learned(cell, wrap=lambda stepper: InParts(stepper, calls, in_turn))
    for one, other in zip(learned(cell), parts, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    names = ["loss_weights", "actor_gradients", "critic_gradients", "apply"]
    assert [name for name, _ in calls] == names * (len(calls) // 4)


@pytest.mark.parametrize(("threads", "sizes"), [(2, {3}), (3, {2, 1}), (8, {1})])
@pytest.mark.parametrize("cell", [MLP, GRU, SEQUENTIAL])
def test_threads_change_no_number(cell: str, threads: int, sizes: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """sizes: of the groups of replicas."""
    plain, calls = learned(cell), set[tuple[str, int, int]]()
    methods = {name: getattr(Stepper, name) for name in ("actor_gradients", "critic_gradients")}
    for name, method in methods.items():

        def noted(stepper: Stepper, turn: TurnData, *others: Any, name: str = name, method: Any = method) -> Any:
            calls.add((name, len(turn.members.agents), threading.get_ident()))
            return method(stepper, turn, *others)

        monkeypatch.setattr(Stepper, name, noted)
    for one, other in zip(plain, learned(cell, wrap=partial(ThreadedSteps, threads=threads)), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert {size for _, size, _ in calls} == sizes
    assert 2 <= len({thread for _, _, thread in calls}) <= threads


def test_an_error_on_another_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise UserError("of the critic")

    monkeypatch.setattr(Stepper, "critic_gradients", fail)
    with pytest.raises(UserError, match="of the critic"):
        learned(MLP, wrap=partial(ThreadedSteps, threads=2))


def test_eager_updates_take_the_threads_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(mode: execution.Mode, threads: int) -> Execution:
        return Execution(mode, "cuda" if mode == "graph" else "cpu", torch.__version__, threads, "")

    monkeypatch.setattr(execution, "processors", lambda: 6)
    stepper = make_learner(short(MLP), recorded(MLP).spec, SEEDS).stepper
    assert [chosen("eager", threads).step_threads for threads in (0, 1, 2)] == [6, 1, 2]
    assert isinstance(chosen("eager", 2).steps(stepper), ThreadedSteps)
    assert chosen("eager", 1).steps(stepper) is stepper
    assert [chosen(mode, 2).steps for mode in ("compiled", "graph")] == [CompiledSteps, GraphSteps]
    assert [chosen(mode, 2).step_threads for mode in ("compiled", "graph")] == [1, 1]


@pytest.mark.parametrize("cell", [MLP, GRU, SEQUENTIAL])
def test_replayed_steps_are_the_same_without_a_gpu(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a graph reads is copied to fixed addresses, and warming up leaves no trace."""
    replay_on_cpu(monkeypatch)
    for one, other in zip(learned(cell), learned(cell, wrap=GraphSteps), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    plan, (spec, rollout) = short(cell), recorded(cell)
    plain, replayed = (make_learner(plan, spec, SEEDS, wrap=wrap) for wrap in (eager, GraphSteps))
    for update, scale in enumerate((1.0, 0.5)):  # a second rollout must not be taken for the first
        other_rollout = rollout._replace(observation=scale * rollout.observation)
        for learner in (plain, replayed):
            learner.update(other_rollout, Draws(SEEDS, update, "cpu"))
        pairs = zip(plain.stepper.parameters, replayed.stepper.parameters, strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


@needs_compiler
@pytest.mark.slow  # a minute of C++ where nothing is compiled yet; whole gradients are compared above
def test_gradients_in_pieces_are_the_same_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learned(MLP)
    in_pieces(monkeypatch)
    agree(whole, learned(MLP, wrap=CompiledSteps))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("cell", [MLP, GRU])
def test_a_rollout_collected_compiled_is_the_eager_one(cell: str) -> None:
    """Actors and critics with GRUs, legal choices, time limits that are no ends: all that is compiled in collecting."""
    options = {"episode_limit": 8} if cell == MLP else {}
    plan = tiny_plan(cell, rollout_length=50, recurrent=True, time_limit_is_terminal=False, **options)
    compiled = Execution("compiled", "cpu", torch.__version__, 1, "").policy
    one, other = (
        {k: x for k, x in collect(plan, policy).rollout._asdict().items() if x is not None}
        for policy in (Policy, compiled)
    )
    agree([one], [other])


@pytest.mark.parametrize("cell", [MLP, GRU, SEQUENTIAL])
def test_a_seed_in_a_stack_is_the_seed_alone(cell: str) -> None:
    together = learned(cell)
    for place, seed in enumerate(SEEDS):
        for many, alone in zip(together, learned(cell, (seed,)), strict=True):
            for name, value in alone.items():
                assert torch.equal(value[0], many[name][place]), f"{name} of seed {seed}"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("cell", [MLP, GRU])
def test_a_seed_in_a_stack_is_the_seed_alone_compiled(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large steps are compiled for one replica. Statistics of the record are not: their last bits may differ."""
    monkeypatch.setattr(CompiledSteps, "LARGE", 1)
    together = learned(cell, wrap=CompiledSteps)
    agree(learned(cell), together)
    for many, alone in zip(together, learned(cell, SEEDS[:1], wrap=CompiledSteps), strict=True):
        assert all(torch.equal(alone[name][0], many[name][0]) for name in LEARNED)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("path", ["eager", "graph"])
@pytest.mark.parametrize("cell", [MLP, GRU, SEQUENTIAL])
def test_a_gpu_agrees_with_the_cpu(cell: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = learned(cell)
    in_pieces(monkeypatch)
    agree(on_cpu, learned(cell, device="cuda", wrap=eager if path == "eager" else GraphSteps), numbers=1e-3)


def test_a_path_is_possible_where_it_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, has_compiler = False, True
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(execution, "why_not_compiled", lambda: None if has_compiler else "no compiler")
    eager_path = Execution("eager", "cpu", torch.__version__, 1, "")
    compiled = Execution("compiled", "cpu", torch.__version__, 1, "")
    graph = Execution("graph", "cuda", torch.__version__, 1, "")
    other = Execution("eager", "cpu", "0.0", 1, "")
    every = (eager_path, compiled, graph, other)
    assert [path.possible for path in every] == [True, True, False, False]
    has_compiler = False
    assert [path.possible for path in every] == [True, False, False, False]
    gpu, has_compiler = True, True
    assert [path.possible for path in every] == [True, True, True, False]
    assert execution.choose(tiny_plan(MLP), Compute("cpu", "compiled")).possible, "what is chosen can be resumed"


def test_torch_that_compiles_wrongly_for_cpus_is_used_eagerly_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = resolve(Cell.parse(MLP), {})
    monkeypatch.setattr(execution, "why_not_compiled", lambda: None)
    for version, mode in (
        ("2.11.0+cu130", "eager"),
        ("2.12.9", "eager"),
        ("2.13.0", "compiled"),
        ("2.100.0", "compiled"),
    ):
        monkeypatch.setattr(torch, "__version__", TorchVersion(version))
        chosen = execution.choose(plan, Compute("cpu"))
        assert chosen.mode == mode
        assert ("torch before 2.13" in chosen.reason) == (mode == "eager")
        assert execution.choose(plan, Compute("cpu", "compiled")).mode == "compiled", "as asked"


@pytest.mark.parametrize(
    ("steps", "threads", "cores", "mode"),
    [
        (3_000_000, 1, 8, "compiled"),
        (3_000_000, 2, 8, "eager"),
        (3_000_000, 0, 8, "eager"),
        (3_000_000, 0, 1, "compiled"),
        (300_000, 1, 8, "eager"),
    ],
)
def test_grus_are_compiled_for_one_thread_in_long_runs(
    steps: int, threads: int, cores: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = resolve(Cell.parse(GRU), {"total_steps": steps})
    monkeypatch.setattr(execution, "why_not_compiled", lambda: None)
    monkeypatch.setattr(execution, "processors", lambda: cores)
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.13.0"))
    assert execution.choose(plan, Compute("cpu", threads=threads)).mode == mode


def test_a_run_goes_on_as_it_began_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny_plan(MLP, 3)
    kept = train_interrupted(plan, tmp_path / "kept", (0,))
    begin(plan, tmp_path / "moved", (0,))
    monkeypatch.setattr(Execution, "possible", False)
    with pytest.raises(UserError, match=r"began eager on cpu with torch .*--allow-path-change") as caught:
        train(plan, tmp_path / "moved", (0,))
    assert "\n" not in str(caught.value)
    assert train(plan, tmp_path / "moved", (0,), allow_path_change=True).keys() == kept.keys()
    (document,) = documents(tmp_path / "moved").values()
    assert any("path changed at a resume" in note for note in document["volatile"]["notes"])


def test_a_run_that_moves_to_another_processor_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FP3O_COMMIT", "a" * 40)  # somebody may commit while the tests run
    plan = tiny_plan(MLP, 3)
    for processor in ("", "x86_64 AVX2"):  # "": the file does not say
        folder = tmp_path / (processor or "unknown")
        with monkeypatch.context() as before:
            before.setattr(execution, "_processor", lambda device, name=processor: name)
            begin(plan, folder, (0,))
        train(plan, folder, (0,))
        (document,) = documents(folder).values()
        expected = [f"processor changed at a resume: {processor} before"] if processor else []
        assert document["volatile"]["notes"] == expected


def test_a_run_that_other_code_goes_on_with_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny_plan(MLP, 3)
    monkeypatch.setenv("FP3O_COMMIT", "a" * 40 + "+")
    begin(plan, tmp_path, (0,))
    monkeypatch.setenv("FP3O_COMMIT", "b" * 40)
    train(plan, tmp_path, (0,))
    (document,) = documents(tmp_path).values()
    assert document["git"] == {"commit": "b" * 40, "dirty": False}
    assert document["volatile"]["notes"] == [f"code changed at a resume: commit {'a' * 40}+ up to iteration 1"]
