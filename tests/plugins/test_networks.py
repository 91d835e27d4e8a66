"""Networks of plug-ins: what they compute, under every sharing, alone and in a stack, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_graphs import replay_on_cpu
from short_runs import files, tiny_plan, train, train_interrupted
from synthetic import ACTIONS, SETTINGS, make_learner, make_rollout, make_spec, with_settings
from torch import Tensor, nn

import fp3o
from fp3o.config import Cell, Scalar, resolve
from fp3o.config.sharings import SHARINGS
from fp3o.envs import make
from fp3o.envs.interface import EnvSpec
from fp3o.execution import compiler
from fp3o.execution.steps import CompiledSteps, GraphSteps, ThreadedSteps
from fp3o.learner.randomness import Draws
from fp3o.learner.state import named
from fp3o.learner.step import Stepper, Steps
from fp3o.learner.update import Learner, initialise, networks
from fp3o.networks.actor import Actor, Owners
from fp3o.networks.critic import Critic
from fp3o.networks.module_trunk import PREFIX, Inputs, ModuleTrunk
from fp3o.networks.sharing import sharing
from fp3o.networks.stacked import ParameterLayout
from fp3o.networks.standard_module import StandardModule
from fp3o.networks.trunk import StandardTrunk
from fp3o.registry import NETWORKS, load_file
from fp3o.rollout.values import Scan, scan_by_steps

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
Write = Callable[[str, str], Path]
Wrap = Callable[[Stepper], Steps]
REPLICAS = 2

# A network with a memory, and one for critics.
REMEMBERING = """
import torch
from torch import nn
import fp3o

class Judge(nn.Module):
    memory = 3
    def __init__(self, inputs, settings):
        super().__init__()
        self.layer = nn.Linear(inputs.size + self.memory, settings.hidden_size)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, settings.hidden_size))
    def forward(self, state, available, memory):
        assert available is None
        x = torch.tanh(self.layer(torch.cat([state, memory], -1)) * self.scale)
        return x, x[:, :3]

@fp3o.network("remembering", critic=Judge)
class Remembering(nn.Module):
    memory = 5
    def __init__(self, inputs, settings):
        super().__init__()
        self.layer = nn.Linear(inputs.size + inputs.choices + self.memory, 7)
        self.carry = nn.Linear(7, 5)
    def forward(self, observation, available, memory):
        seen = [observation, memory] if available is None else [observation, available.to(memory.dtype), memory]
        x = torch.tanh(self.layer(torch.cat(seen, -1)))
        return x, torch.tanh(self.carry(x))
"""


class Plain(StandardModule):
    """The standard network as a plug-in would write it."""

    def __init__(self, inputs: Inputs, settings: Any) -> None:
        super().__init__(StandardTrunk(inputs.size, settings.hidden_size, settings.recurrent))


@pytest.fixture
def in_double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def as_plain(standard: ParameterLayout, plain: ParameterLayout, flat: Tensor) -> Tensor:
    """A buffer of the standard network's parameters as that of the plug-in's, whose matrices are transposed."""
    views, moved = standard.views(flat), torch.zeros(*flat.shape[:2], plain.size)
    for name, view in plain.views(moved).items():
        own = views[name.removeprefix(PREFIX)]
        view.copy_(own.mT if name.startswith(PREFIX) and own.dim() == 4 else own)
    return moved


def outputs(actor: Actor, critic: Critic, flat: list[Tensor], data: list[Tensor | None]) -> list[Tensor]:
    """Distribution, values, memory and gradients."""
    rows = Owners(*(torch.tensor(o).expand(REPLICAS, -1) for o in (actor.sharing.trunk, actor.sharing.head)))
    seen, state, available, hidden, keep = data
    assert seen is not None
    assert state is not None
    flat = [x.clone().requires_grad_() for x in flat]
    layers = actor.layers(actor.rows(flat[0], flat[1], rows))
    distribution, after = actor.distribution(layers, seen, available, hidden, keep)
    value, states = critic.value(critic.layers(critic.rows(flat[2], rows.trunk)), state, hidden, keep)
    loss = (distribution.location * torch.linspace(0.0, 1.0, distribution.location.shape[-1])).sum() + (value**2).sum()
    found = [distribution.location, value, *(x for x in (after, states) if x is not None)]
    return [x.detach() for x in found] + list(torch.autograd.grad(loss, flat))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("kind", SHARINGS)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_the_standard_network_as_a_plug_in_computes_the_same(
    kind: str, recurrent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NETWORKS, "plain", fp3o.registry.Network(Plain, Plain))
    spec = make_spec(agents=3, action=ACTIONS["multi-discrete"])
    owners, settings = sharing(kind, spec.agent_types), with_settings(SETTINGS, recurrent=recurrent)
    standard, plain = (
        networks(spec, owners, "mappo", with_settings(settings, network=n)) for n in ("standard", "plain")
    )
    source = torch.Generator().manual_seed(1)
    initial = [x + 0.1 * torch.randn(x.shape, generator=source) for x in initialise(*standard, range(REPLICAS))]
    moved = [
        as_plain(standard[0].trunk_layout, plain[0].trunk_layout, initial[0]),
        initial[1],
        as_plain(standard[1].layout, plain[1].layout, initial[2]),
    ]
    lead = (REPLICAS, 3, 4, 5)
    data: list[Tensor | None] = [
        torch.randn(*lead, n, generator=source) for n in (spec.observation_size, spec.state_size)
    ]
    data.append(torch.rand(*lead, spec.action.parameters, generator=source) < 0.8)
    data.append(torch.randn(*lead[:3], 8, generator=source) if recurrent else None)
    data.append((torch.rand(lead, generator=source) < 0.7).double() if recurrent else None)
    ours, theirs = outputs(*standard, initial, data), outputs(*plain, moved, data)
    expected = [
        *ours[:-3],
        as_plain(standard[0].trunk_layout, plain[0].trunk_layout, ours[-3]),
        ours[-2],
        as_plain(standard[1].layout, plain[1].layout, ours[-1]),
    ]
    for mine, yours in zip(expected, theirs, strict=True):
        assert mine.dtype == torch.float64
        assert (mine - yours).abs().max() <= 1e-12 * yours.abs().max()
        assert yours.abs().max() > 1e-3


def test_values_step_by_step_are_those_of_the_scan() -> None:
    learner = make_learner("mappo", "none", with_settings(SETTINGS, recurrent=True), (0, 1))
    rollout, critic = make_rollout(learner, (0, 1)), learner.critic
    assert isinstance(critic.trunk, StandardTrunk)
    layers = critic.layers(critic.rows(learner.stepper.parameters.critic.detach(), None))
    hidden = torch.randn(2, 3, 2, 8, generator=torch.Generator().manual_seed(0))
    given = (layers, rollout.state, rollout.keep, rollout.state[:, -1], rollout.keep[:, 3], hidden)
    scan = Scan(critic, critic.trunk, 2, SETTINGS.rollout_length, 2, torch.device("cpu"))
    for ours, theirs in zip(scan_by_steps(critic, *given), scan(*given), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def image_spec() -> EnvSpec:
    spec = make_spec(agents=3, action=ACTIONS["categorical"], observation=5 * 4 * 2 + 3, state=3 * 5 * 4 * 2)
    return EnvSpec(**{**vars(spec), "observation_shape": (5, 4, 2), "state_shape": (3, 5, 4, 2)})


CASES = {
    "pixels": (image_spec(), {}),
    "entities": (image_spec(), {}),
    "remembering": (make_spec(action=ACTIONS["categorical"]), {"recurrent": True}),
}


def learner_of(
    network: str, kind: str, seeds: tuple[int, ...], write: Write, wrap: Wrap = lambda stepper: stepper
) -> Learner:
    if network == "remembering":
        load_file(write("remembering.py", REMEMBERING))
    else:
        load_file(EXAMPLES / f"{network}.py")
    spec, changes = CASES[network]
    return make_learner("fp3o", kind, with_settings(SETTINGS, network=network, **changes), seeds, spec, wrap)


@pytest.mark.parametrize("kind", SHARINGS)
@pytest.mark.parametrize("network", CASES)
def test_a_seed_alone_and_in_a_stack_are_the_same_bits(network: str, kind: str, write: Write) -> None:
    """Initialisation, and an update with all its turns."""
    states = []
    for seeds in ((3, 7, 9), (7,)):
        learner = learner_of(network, kind, seeds, write)
        before = [x.clone() for x in learner.stepper.parameters]
        learner.update(make_rollout(learner, seeds), Draws(seeds, 0))
        place = seeds.index(7)
        states.append([x[place] for x in (*before, *named(learner.stepper.state).values())])
        moved = [(old - new).abs().max() for old, new in zip(before, learner.stepper.parameters, strict=True)]
        assert min(moved) > 0
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    trunks = states[0][0]
    assert all(not torch.equal(trunks[0], other) for other in trunks[1:]), "each owner is drawn on its own"


@pytest.mark.parametrize("network", CASES)
def test_faster_forms_of_a_step_compute_the_same(network: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads and as a graph bit for bit; traced for the compiler without a constant that could go stale."""
    found = {}
    for form in (lambda stepper: stepper, partial(ThreadedSteps, threads=4), GraphSteps, CompiledSteps):
        with monkeypatch.context() as patched:
            if form is GraphSteps:
                replay_on_cpu(patched)
            traced: list[torch.fx.GraphModule] = []
            patched.setattr(compiler, "_load_or_compile", lambda graph, *_, seen=traced: seen.append(graph) or graph)
            learner = learner_of(network, "partial", (1, 2), write, form)
            learner.update(make_rollout(learner, (1, 2)), Draws((1, 2), 0))
        found[form] = [x.detach() for x in learner.stepper.parameters]
    assert not [node for graph in traced for node in graph.graph.nodes if node.op == "get_attr"]
    assert traced
    eager, paired, graph, programs = found.values()
    for name, others in (("paired", paired), ("graph", graph)):
        assert all(torch.equal(a, b) for a, b in zip(eager, others, strict=True)), name
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(eager, programs, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("form", ["eager", "graph"])
@pytest.mark.parametrize("network", CASES)
def test_a_gpu_agrees_with_the_cpu(network: str, form: str, write: Write) -> None:
    cpu = learner_of(network, "none", (1, 2), write)
    wrap: Wrap = GraphSteps if form == "graph" else lambda stepper: stepper
    gpu = Learner.fresh(cpu.spec, cpu.sharing, "fp3o", cpu.settings, (1, 2), device="cuda", wrap=wrap)
    rollout = make_rollout(cpu, (1, 2))
    gpu.update(type(rollout)._make(None if x is None else x.cuda() for x in rollout), Draws((1, 2), 0, "cuda"))
    cpu.update(rollout, Draws((1, 2), 0))
    for one, two in zip(cpu.stepper.parameters, gpu.stepper.parameters, strict=True):
        assert torch.allclose(one, two.cpu(), atol=1e-4)


@pytest.mark.parametrize("kind", SHARINGS)
def test_a_run_goes_on_to_the_same_bytes(kind: str, write: Write, tmp_path: Path) -> None:
    load_file(write("remembering.py", REMEMBERING))
    cell = f"mpe/simple-spread/{kind}/mappo" if kind == "none" else f"matrix/two-step/{kind}/happo"
    chunks: dict[str, Scalar] = {} if kind == "none" else {"chunk_length": 4}
    plan = tiny_plan(cell, 3, network="remembering", recurrent=True, **chunks)
    whole = train(plan, tmp_path / "whole", (0, 1))
    assert train_interrupted(plan, tmp_path / "interrupted", (0, 1)) == whole == files(tmp_path / "whole")
    run = fp3o.runs(tmp_path / "whole")[0]
    assert run.settings["network"] == "remembering"
    team, snapshot = run.team(), run.make_env(2).reset(np.zeros(2, np.uint64))
    actions, memory = team.act(snapshot.observation, available=snapshot.available)
    module = team.to_torch()
    assert module.memory_sizes == (5, 3)
    assert "trunks.0.carry.weight" in module.state_dict()
    zeros = torch.zeros(2, len(team.agents), 5)
    assert snapshot.available is not None
    acted = module(torch.from_numpy(snapshot.observation), torch.from_numpy(snapshot.available), zeros)
    assert np.array_equal(acted.action.numpy(), actions)
    assert acted.memory is not None
    assert memory is not None
    np.testing.assert_allclose(acted.memory.detach().numpy(), memory, atol=1e-6)


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize(("network", "game"), [("pixels", "spot"), ("entities", "marked")])
def test_the_examples_train_and_are_exported(network: str, game: str, tmp_path: Path) -> None:
    """A few iterations; docs/networks.md says how far they come."""
    import onnxruntime

    for name in (network, game):
        load_file(EXAMPLES / f"{name}.py")
    settings: dict[str, Scalar] = {
        "network": network,
        "total_steps": 400,
        "rollout_threads": 4,
        "minibatches": 1,
        "epochs": 1,
    }
    settings |= {"epochs": 1, "evaluation_episodes": 2, "final_episodes": 2, "hidden_size": 16}
    (run,) = fp3o.train(f"pettingzoo/{game}/partial/fp3o", [0], settings, tmp_path, path="eager", quiet=True)
    assert run.status == "finished"
    team, seen = run.team(), 100 * torch.rand(3, 2, run.team()._width, generator=torch.Generator().manual_seed(0))
    actions, _ = team.act(seen.numpy())
    team.to_torch().to_onnx(tmp_path / "team.onnx")
    session, numbers = onnxruntime.InferenceSession(tmp_path / "team.onnx"), torch.eye(2).expand(3, 2, 2)
    legal = np.ones((3, 2, team._spec.action.parameters), np.bool_)
    given = {"observation": torch.cat([seen, numbers], -1).numpy(), "available": legal}
    assert np.array_equal(session.run(["action"], given)[0], actions)


def test_images_reach_a_network_as_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pixels that the environment drew, in its axes; the agent's number apart; critics see all agents' images."""
    seen: list[tuple[Tensor, Tensor]] = []

    class Looking(nn.Module):
        def __init__(self, inputs: Inputs, settings: Any) -> None:
            super().__init__()
            self.inputs, self.layer = inputs, nn.Linear(inputs.size, 4)

        def forward(self, observation: Tensor, available: Tensor | None, memory: Tensor | None) -> Tensor:
            return self.layer(observation)

    load_file(EXAMPLES / "spot.py")
    monkeypatch.setitem(NETWORKS, "looking", fp3o.registry.Network(Looking, Looking))
    plan = resolve(Cell.parse("pettingzoo/spot/full/mappo"), {"network": "looking"})
    env = make("pettingzoo", "spot", 3, options=plan.options)
    try:
        snapshot, spec = env.reset(np.arange(3, dtype=np.uint64)), env.spec
    finally:
        env.close()
    actor, critic = networks(spec, sharing("full", spec.agent_types), "mappo", plan.settings)
    for trunk, rows in ((actor.trunk, snapshot.observation), (critic.trunk, snapshot.state)):
        assert isinstance(trunk, ModuleTrunk)
        seen.append(trunk.seen.split(torch.from_numpy(rows).flatten(0, 1)))
    (images, numbers), (states, rest) = seen
    assert images.shape == (6, 5, 5, 1)
    assert images.flatten(1).sort(1).values[:, -2:].tolist() == [[0.0, 255.0]] * 6
    assert numbers.tolist() == [[1.0, 0.0], [0.0, 1.0]] * 3
    assert states.shape == (6, 2, 5, 5, 1)
    assert rest.shape == (6, 0)
    assert torch.equal(states[0, 1], images[1])


def test_depth_and_activation_are_settings_that_old_runs_need_not_name() -> None:
    cell = Cell.parse("matrix/climbing/full/mappo")
    plain = resolve(cell)
    assert not {"network", "hidden_layers", "activation"} & plain.configuration()["settings"].keys()
    assert resolve(cell, {"hidden_layers": 2, "activation": "relu", "network": "standard"}).digest == plain.digest
    deep = resolve(cell, {"hidden_layers": 3, "activation": "tanh"})
    assert deep.digest != plain.digest
    actor, _ = networks(make_spec(), sharing("full", (0, 1, 0)), "mappo", deep.settings)
    assert [name for name in actor.trunk_layout.entries if name.endswith("_norm.bias")] == [
        *("feature_norm.bias", "fc1_norm.bias", "fc2_norm.bias", "fc3_norm.bias")
    ]
    module = actor.trunk.module(actor.trunk_layout.views(actor.initialise(torch.Generator().manual_seed(0))[0][0]))
    trunks, heads = actor.initialise(torch.Generator().manual_seed(0))
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    ours, _ = actor.distribution(
        actor.layers(actor.rows(trunks[None], heads[None], Owners(None, None))),
        x.expand(1, 3, 1, 4, 5),
        None,
        None,
        None,
    )
    head = actor.head_layout.views(heads[0])
    torch.testing.assert_close(ours.location[0, 0, 0], module(x) @ head["head.weight"] + head["head.bias"])


def broken(body: str) -> str:
    return f"""
import torch
from torch import nn
import fp3o

@fp3o.network("broken")
class Broken(nn.Module):
    def __init__(self, inputs, settings):
        super().__init__()
        self.layer = nn.Linear(inputs.size, 4)
        self.noise, self.running = nn.Dropout(0.5), nn.BatchNorm1d(4)
    def forward(self, observation, available, memory):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return self.layer(observation).sum(-1)",
            r"network 'broken' returns \(2,\) for 2 rows; allowed: \[2, features\]",
        ),
        ("return None", r"network 'broken' returns NoneType; allowed: features, tensors"),
        ("return self.layer(observation[:, 1:])", r"network 'broken' fails: RuntimeError: .* \(line 13\)"),
        ("return self.noise(self.layer(observation))", r"network 'broken' fails: RuntimeError: .*random.*"),
        ("return self.running(self.layer(observation))", r"network 'broken' fails: (Runtime|Value)Error: .*"),
        ("return self.layer(observation) if observation.sum() > 0 else 0", r"network 'broken' fails: RuntimeError: .*"),
    ],
)
def test_mistakes_in_a_module_are_one_line(body: str, message: str, write: Write) -> None:
    load_file(write("broken.py", broken(body)))
    with pytest.raises(fp3o.UserError, match=f"^{message}$"):
        make_learner("mappo", "full", with_settings(SETTINGS, network="broken"))


def test_mistakes_in_declarations_and_settings_are_one_line(write: Write) -> None:
    with pytest.raises(
        fp3o.UserError, match=r"unknown network 'nothing' in matrix/climbing/full/mappo; allowed: standard"
    ):
        resolve(Cell.parse("matrix/climbing/full/mappo"), {"network": "nothing"})
    for text, message in {
        '@fp3o.network("standard")\nclass A:\n    forward = 1': r"network 'standard': a name may hold .* not standard",
        '@fp3o.network("a")\ndef a(x): ...': r"network 'a': 'a' is no class of torch.nn.Module",
        '@fp3o.network("a", critic=3)\nclass A:\n    forward = 1': r"network 'a': 3 is no class of torch.nn.Module",
    }.items():
        with pytest.raises(fp3o.UserError, match=message):
            load_file(write("wrong.py", f"import fp3o\n{text}\n"))
    load_file(write("remembering.py", REMEMBERING))
    message = r"network 'remembering' has a memory of 5 numbers, and recurrent = false; allowed: recurrent = true"
    with pytest.raises(fp3o.UserError, match=message):
        make_learner("mappo", "full", with_settings(SETTINGS, network="remembering"))


def test_its_source_is_part_of_the_digest(write: Write) -> None:
    cell = Cell.parse("matrix/climbing/full/mappo")
    load_file(write("remembering.py", REMEMBERING))
    first = resolve(cell, {"network": "remembering", "recurrent": True, "chunk_length": 8})
    assert first.configuration()["plugins"].keys() == {"network"}
    load_file(write("remembering.py", REMEMBERING.replace("0.5, 1.5", "0.4, 1.5")))
    second = resolve(cell, {"network": "remembering", "recurrent": True, "chunk_length": 8})
    assert first.digest != second.digest
    assert "plugins" not in resolve(cell).configuration()
