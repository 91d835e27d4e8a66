"""A stack of networks computes what separate torch.nn modules compute, values and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from synthetic import ACTIONS, SETTINGS, make_spec, with_settings
from torch import Tensor, nn

from fp3o.config.sharings import SHARINGS
from fp3o.envs.interface import ActionSpec
from fp3o.learner.update import initialise, networks
from fp3o.networks.actor import UNAVAILABLE, Actor, Distribution, Owners
from fp3o.networks.critic import Critic
from fp3o.networks.products import split_product
from fp3o.networks.sharing import sharing
from fp3o.networks.stacked import ParameterLayout

REPLICAS, CHUNKS, LENGTH = 2, 4, 3


class PlainTrunk(nn.Module):
    def __init__(self, inputs: int, hidden: int, recurrent: bool) -> None:
        super().__init__()
        self.feature_norm = nn.LayerNorm(inputs)
        self.fc1, self.fc1_norm = nn.Linear(inputs, hidden), nn.LayerNorm(hidden)
        self.fc2, self.fc2_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        if recurrent:
            self.gru, self.gru_norm = nn.GRUCell(hidden, hidden), nn.LayerNorm(hidden)

    def forward(self, x: Tensor, hidden: Tensor | None, keep: Tensor) -> Tensor:  # x [C, L, in]
        x = self.fc1_norm(torch.relu(self.fc1(self.feature_norm(x))))
        x = self.fc2_norm(torch.relu(self.fc2(x)))
        if hidden is None:
            return x
        outputs = []
        for step in range(x.shape[1]):
            hidden = self.gru(x[:, step], hidden * keep[:, step, None])
            outputs.append(hidden)
        return self.gru_norm(torch.stack(outputs, 1))


class PlainHead(nn.Module):
    def __init__(self, name: str, hidden: int, outputs: int, stds: int) -> None:
        super().__init__()
        layer = nn.Linear(hidden, outputs)
        if stds:
            layer.log_std = nn.Parameter(torch.zeros(stds))
        setattr(self, name, layer)


def tied(module: nn.Module, layout: ParameterLayout, row: Tensor) -> Any:
    """The module with the parameters of a row of a flat buffer."""
    views = layout.views(row)
    for name, parameter in module.named_parameters():
        value = views[name]
        parameter.data.copy_(value.T if value.dim() == 2 else value)
    return module


def gradient_row(module: nn.Module, layout: ParameterLayout, row: Tensor) -> None:
    """Add the module's gradients into a row of a flat buffer."""
    views = layout.views(row)
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        views[name].add_(parameter.grad.T if parameter.grad.dim() == 2 else parameter.grad)


def density(actor: Actor, module: Any, features: Tensor, available: Tensor | None, action: Tensor) -> Any:
    """log π(action) and entropy as torch.distributions has them."""
    outputs = module.head(features)
    if actor.action.kind == "gaussian":
        psi = module.head.log_std
        std = 0.5 * torch.sigmoid(psi) if actor.gaussian_std == "sigmoid" else psi.exp()
        normal = torch.distributions.Normal(outputs, std.expand_as(outputs))
        return normal.log_prob(action).sum(-1), normal.entropy().sum(-1)
    assert available is not None
    parts = outputs.masked_fill(~available, -1e10).split(actor.action.sizes, -1)
    choices = [torch.distributions.Categorical(logits=part) for part in parts]
    log_prob = sum(c.log_prob(action[..., i]) for i, c in enumerate(choices))
    return log_prob, sum(c.entropy() for c in choices) / len(choices)


def inputs(actor: Actor, critic: Critic, agents: int) -> dict[str, Any]:
    """Tensors by name; None for masks and hidden states that there are not."""
    source = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return torch.randn(REPLICAS, agents, CHUNKS, *shape, generator=source)

    available, action = None, normal(LENGTH, actor.action.width)
    if actor.action.kind == "categorical":
        available = normal(LENGTH, actor.action.parameters) > -0.5
        first = [sum(actor.action.sizes[:i]) for i in range(len(actor.action.sizes))]
        available[..., first] = True
        # One of the legal choices, drawn for each sub-action on its own.
        scores = torch.rand(available.shape, generator=source).masked_fill(~available, -1.0)
        choices = [part.argmax(-1) for part in scores.split(actor.action.sizes, -1)]
        action = torch.stack(choices, -1).to(torch.get_default_dtype())
        assert (action.flatten(0, -2).amax(0) == torch.tensor(actor.action.sizes) - 1).all()
        assert len(choices) == 1 or (action[..., 0] != action[..., 1]).float().mean() > 0.5
    keep = (normal(LENGTH) > -0.5).to(torch.get_default_dtype())
    recurrent = bool(actor.trunk.memory)
    return {
        "observation": normal(LENGTH, actor.trunk.inputs),
        "state": normal(LENGTH, critic.trunk.inputs),
        "action": action,
        "available": available,
        "keep": keep,
        "hidden_actor": normal(actor.trunk.memory) if recurrent else None,
        "hidden_critic": normal(actor.trunk.memory) if recurrent else None,
        "weight": normal(LENGTH) / (agents * CHUNKS * LENGTH),
    }


@pytest.fixture
def in_double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def assert_equal_but_for_rounding(ours: Tensor, theirs: Tensor) -> None:
    """Measured over all cases: within 3e-15 of the largest number."""
    assert ours.dtype == theirs.dtype == torch.float64
    assert (ours - theirs).abs().max() <= 1e-12 * theirs.abs().max()


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("recurrent", [False, True], ids=["mlp", "gru"])
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("kind", SHARINGS)
def test_stack_equals_separate_modules(kind: str, action: ActionSpec, recurrent: bool) -> None:
    torch.manual_seed(0)
    settings = with_settings(recurrent=recurrent, hidden_size=16)
    spec = make_spec(agents=4, action=action)
    owners = sharing(kind, spec.agent_types)
    actor, critic = networks(spec, owners, "mappo", settings)
    initial = initialise(actor, critic, range(REPLICAS))
    # Away from the start, where biases are 0 and scales 1.
    trunks, heads, critics = (p.add(0.05 * torch.randn_like(p)).requires_grad_() for p in initial)
    data = inputs(actor, critic, spec.agents)

    rows = Owners(*(torch.tensor(o).expand(REPLICAS, -1) for o in (owners.trunk, owners.head)))
    layers = actor.layers(actor.rows(trunks, heads, rows))
    distribution, _ = actor.distribution(
        layers, data["observation"], data["available"], data["hidden_actor"], data["keep"]
    )
    log_prob, entropy = actor.log_prob(distribution, data["action"]), actor.entropy(distribution)
    value, _ = critic.value(
        critic.layers(critic.rows(critics, rows.trunk)), data["state"], data["hidden_critic"], data["keep"]
    )
    loss = (data["weight"] * (log_prob + 0.5 * entropy + value)).sum()
    ours = torch.autograd.grad(loss, (trunks, heads, critics))

    theirs = [torch.zeros_like(p) for p in (trunks, heads, critics)]
    for replica in range(REPLICAS):
        plain_trunks = [
            tied(PlainTrunk(spec.observation_size, 16, recurrent), actor.trunk_layout, row) for row in trunks[replica]
        ]
        stds = action.width if action.kind == "gaussian" else 0
        plain_heads = [
            tied(PlainHead("head", 16, action.parameters, stds), actor.head_layout, row) for row in heads[replica]
        ]
        plain_critics = []
        for row in critics[replica]:
            plain = PlainTrunk(spec.state_size, 16, recurrent)
            plain.v_out = nn.Linear(16, 1)
            plain_critics.append(tied(plain, critic.layout, row))
        total = torch.zeros(())
        for agent in range(spec.agents):
            x: dict[str, Any] = {name: None if t is None else t[replica, agent] for name, t in data.items()}
            trunk, plain_critic = plain_trunks[owners.trunk[agent]], plain_critics[owners.trunk[agent]]
            features = trunk(x["observation"], x["hidden_actor"], x["keep"])
            expected = density(actor, plain_heads[owners.head[agent]], features, x["available"], x["action"])
            values = plain_critic.v_out(plain_critic(x["state"], x["hidden_critic"], x["keep"])).squeeze(-1)
            assert_equal_but_for_rounding(log_prob[replica, agent], expected[0])
            assert_equal_but_for_rounding(entropy[replica, agent], expected[1])
            assert_equal_but_for_rounding(value[replica, agent], values)
            total = total + (x["weight"] * (expected[0] + 0.5 * expected[1] + values)).sum()
        total.backward()
        for modules, layout, gradient in (
            (plain_trunks, actor.trunk_layout, theirs[0]),
            (plain_heads, actor.head_layout, theirs[1]),
            (plain_critics, critic.layout, theirs[2]),
        ):
            for module, row in zip(modules, gradient[replica], strict=True):
                gradient_row(module, layout, row)
    for mine, yours in zip(ours, theirs, strict=True):
        assert_equal_but_for_rounding(mine, yours)
        assert mine.abs().max() > 1e-3


@pytest.mark.parametrize("rows", [1, 99, 100, 307, 750, 4000], ids=str)
def test_a_product_whose_gradient_is_summed_in_pieces(rows: int) -> None:
    """What GPUs compute; 307 is a prime and stays in one piece, 4000 would be 40 pieces and is 32."""
    source = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(shape, generator=source, dtype=torch.double) for shape in ((2, rows, 3), (2, 3, 4)))
    weights = torch.randn(2, rows, 4, generator=source, dtype=torch.double)
    found = []
    for product in (split_product, torch.bmm):
        inputs = x.clone().requires_grad_(), weight.clone().requires_grad_()
        y = product(*inputs).view(2, rows, 4).add_(1.0)
        found.append((y, *torch.autograd.grad((weights * y**2).sum(), inputs)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-10, rtol=1e-10)


def test_padded_gaussian_dimensions_count_for_nothing() -> None:
    spec = make_spec(agents=2, action=ActionSpec("gaussian", (2,), (1, 2)))
    owners = sharing("none", spec.agent_types)
    actor, critic = networks(spec, owners, "mappo", SETTINGS)
    trunks, heads, _ = (p.requires_grad_() for p in initialise(actor, critic, range(REPLICAS)))
    data = inputs(actor, critic, 2)
    used = torch.tensor([[1.0, 0.0], [1.0, 1.0]])[None, :, None, None]
    distribution, _ = actor.distribution(
        actor.layers(actor.rows(trunks, heads, Owners(None, None))), data["observation"], None, None, None
    )
    log_prob, entropy = actor.log_prob(distribution, data["action"], used), actor.entropy(distribution, used)
    assert distribution.std is not None
    alone = torch.distributions.Normal(distribution.location[:, 0, ..., 0], distribution.std[:, 0, ..., 0])
    torch.testing.assert_close(log_prob[:, 0], alone.log_prob(data["action"][:, 0, ..., 0]))
    torch.testing.assert_close(entropy[:, 0], alone.entropy())
    (gradient,) = torch.autograd.grad((log_prob + entropy).sum(), heads)
    views = actor.head_layout.views(gradient)
    assert views["head.log_std"][:, 0, 1].abs().max() == 0
    assert views["head.weight"][:, 0, :, 1].abs().max() == 0
    assert views["head.log_std"][:, 1, 1].abs().min() > 0


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_exact_divergence(action: ActionSpec) -> None:
    spec = make_spec(agents=1, action=action)
    actor, critic = networks(spec, sharing("full", (0,)), "mappo", SETTINGS)
    trunks, heads, _ = initialise(actor, critic, range(REPLICAS))
    data = inputs(actor, critic, 1)
    owners = Owners(None, None)
    old, _ = actor.distribution(
        actor.layers(actor.rows(trunks, heads, owners)), data["observation"], data["available"], None, None
    )
    torch.manual_seed(1)
    moved = heads + 0.3 * torch.randn_like(heads)
    new, _ = actor.distribution(
        actor.layers(actor.rows(trunks, moved, owners)), data["observation"], data["available"], None, None
    )
    kl = actor.kl(new, old)
    if action.kind == "gaussian":
        assert new.std is not None
        assert old.std is not None
        normal = torch.distributions.Normal
        pair = normal(new.location, new.std), normal(old.location, old.std)
        expected: Any = torch.distributions.kl_divergence(*pair).sum(-1)
    else:
        parts = [d.location.split(action.sizes, -1) for d in (new, old)]
        expected = sum(
            torch.distributions.kl_divergence(
                torch.distributions.Categorical(logits=n), torch.distributions.Categorical(logits=o)
            )
            for n, o in zip(*parts, strict=True)
        )
    torch.testing.assert_close(kl, expected, atol=1e-6, rtol=1e-5)
    assert kl.min() > 0


def test_sampling_follows_the_distribution() -> None:
    spec = make_spec(agents=1, action=ACTIONS["multi-discrete"])
    actor, critic = networks(spec, sharing("full", (0,)), "mappo", SETTINGS)
    trunks, heads, _ = initialise(actor, critic, [0])
    source = torch.Generator().manual_seed(3)
    count = 20_000
    observation = torch.randn(1, 1, 1, 1, spec.observation_size, generator=source)
    available = torch.tensor([True, False, True, True, True, False, True])
    trunks, heads = trunks + 0.1, heads + torch.randn(heads.shape, generator=source)
    distribution, _ = actor.distribution(
        actor.layers(actor.rows(trunks, heads, Owners(None, None))), observation, available, None, None
    )
    many = distribution._replace(location=distribution.location.expand(1, 1, count, 1, -1))
    drawn = actor.sample(many, torch.rand(1, 1, count, 1, 2, generator=source))[0, 0, :, 0]
    for i, part in enumerate(distribution.location[0, 0, 0, 0].exp().split(spec.action.sizes, -1)):
        frequency = torch.bincount(drawn[:, i], minlength=len(part)) / count
        torch.testing.assert_close(frequency, part, atol=0.015, rtol=0)
        assert (frequency[part < 1e-9] == 0).all()
    assert drawn.max() <= 3
    # The largest uniform number a float can hold still names a legal choice.
    edge = actor.sample(distribution, torch.full((1, 1, 1, 1, 2), 1 - 2**-24))
    assert edge[0, 0, 0, 0, 0] == 2
    assert edge[0, 0, 0, 0, 1] == 3


def in_parallel(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Sums as a GPU's threads compute them: of two neighbours, of four, and so on."""
    step = 1
    while step < x.shape[dim]:
        x = torch.cat((x[..., :step], x[..., step:] + x[..., :-step]), dim)
        step *= 2
    return x


GPU = pytest.param(
    "cuda", torch.Tensor.cumsum, marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
)


@pytest.mark.parametrize(("device", "cumsum"), [("cpu", torch.Tensor.cumsum), ("cpu", in_parallel), GPU])
def test_no_rounding_makes_a_choice_illegal(device: str, cumsum: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are computed in parallel may grow where nothing is added, and end below the total."""
    size, count = 70, 100_000
    spec = make_spec(agents=1, action=ActionSpec("categorical", (size,)))
    actor, _ = networks(spec, sharing("full", (0,)), "mappo", SETTINGS)
    source = torch.Generator().manual_seed(0)
    legal = torch.rand(count, size, generator=source) < 0.3
    legal[:, 0] = True
    logits = torch.where(legal, 3 * torch.randn(count, size, generator=source), UNAVAILABLE).to(device)
    monkeypatch.setattr(torch.Tensor, "cumsum", cumsum)
    cumulative = logits.softmax(-1).cumsum(-1)
    # Beside a sum, where rounding decides.
    places = torch.randint(size - 1, (count, 1), generator=source).to(device)
    noise = (cumulative.gather(-1, places) / cumulative[:, -1:]).clamp(max=1 - 2**-24)
    noise[: count // 100] = 1 - 2**-24
    drawn = actor.sample(Distribution(logits.log_softmax(-1), None), noise)
    assert legal.gather(-1, drawn.cpu()).all()
