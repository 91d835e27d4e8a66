"""A GRU over a sequence is its steps one after the other, values and gradients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from fp3o.networks import recurrent
from fp3o.networks.recurrent import (
    fused_sequence,
    fused_sequence_gradient,
    gru,
    gru_step,
    scan,
    sequence,
    sequence_gradient,
)

REPLICAS, OWNERS, CHUNKS, LENGTH, SIZE = 2, 3, 5, 4, 6


def drawn(dtype: torch.dtype = torch.float64, chunks: int = CHUNKS, size: int = SIZE) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(REPLICAS, OWNERS, *shape, generator=source, dtype=torch.float64).to(dtype)

    return {
        "inputs": normal(chunks, LENGTH, 3 * size),
        "state": normal(chunks, size),
        "keep": (normal(chunks, LENGTH) > -0.5).to(dtype),
        "weight": normal(size, 3 * size) / size**0.5,
        "bias": normal(3 * size),
    }


def step_by_step(inputs: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    states = []
    for step in range(inputs.shape[3]):
        state = gru_step(weight, bias, inputs[:, :, :, step], state * keep[:, :, :, step, None])
        states.append(state)
    return torch.stack(states, 3)


GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_sequence_is_its_steps(device: str) -> None:
    given = {name: x.to(device) for name, x in drawn().items()}
    assert 0 < given["keep"].mean() < 1
    for mine, expected in zip(with_gradients(gru, given), with_gradients(step_by_step, given), strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-12, rtol=1e-10)


def with_gradients(function: Callable[..., Tensor], given: dict[str, Tensor]) -> list[Tensor]:
    """States and the gradients of all that learns, from a gradient that is different in every number."""
    leaves = {name: x.clone().requires_grad_(name != "keep") for name, x in given.items()}
    states = function(**leaves)
    gradient = torch.linspace(-1, 1, states.numel(), dtype=states.dtype, device=states.device).view_as(states).cos()
    return [states, *torch.autograd.grad(states, [x for x in leaves.values() if x.requires_grad], gradient)]


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("size", [6, 64])
@pytest.mark.parametrize("chunks", [CHUNKS, 700])
def test_kernels_are_as_exact_as_single_precision(device: str, size: int, chunks: int) -> None:
    """A GPU's products are made of three, a CPU's exponentials of a series; the measure are torch's own steps."""
    if device == "cuda":  # A100, H100 and H200, B200
        large = torch.cuda.get_device_capability() in {(8, 0), (9, 0), (10, 0)}
        assert recurrent._has_kernels(torch.device("cuda", 0)) or not large
    exact, single = drawn(torch.float64, chunks, size), drawn(torch.float32, chunks, size)
    for given in (exact, single):  # gates far from 0, wide open and shut, too
        given["inputs"][:, :, 0] *= 50
    right = with_gradients(step_by_step, exact)
    ours = with_gradients(gru, {name: x.to(device) for name, x in single.items()})
    for x, plain, expected in zip(ours, with_gradients(step_by_step, single), right, strict=True):
        error, usual = ((y.cpu().double() - expected).abs().max() for y in (x, plain))
        assert error <= 4 * usual + 1e-7 * expected.abs().max()


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_scan_writes_the_states_of_a_sequence(device: str) -> None:
    given = {name: x.to(device) for name, x in drawn(torch.float32).items()}
    expected = gru(**given).movedim(3, 0)
    inputs, keep = (given[name].movedim(3, 0).contiguous() for name in ("inputs", "keep"))
    states = torch.zeros(expected.shape, device=device)
    scan(inputs, keep, given["state"], given["weight"], given["bias"], states)
    torch.testing.assert_close(states, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_network_alone_is_the_same_to_the_bit(device: str) -> None:
    given = {name: x.to(device) for name, x in drawn(torch.float32).items()}
    together = gru(**given)
    alone = gru(**{name: x[1:, 2:] for name, x in given.items()})
    assert together[1:, 2:].equal(alone)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_the_compiler_is_told_of_the_operators(device: str) -> None:
    """Shapes and types as they will be: torch's own check of an operator against its description."""
    given = drawn(torch.float32)
    inputs, keep = (given[name].movedim(3, 0).contiguous().to(device) for name in ("inputs", "keep"))
    state, weight, bias = (given[name].to(device) for name in ("state", "weight", "bias"))
    states, kept = sequence(inputs, keep, state, weight, bias)
    assert states.shape == (LENGTH, *state.shape)
    gradients = sequence_gradient(torch.ones_like(states), keep, weight, kept)
    assert [x.shape for x in gradients] == [x.shape for x in (inputs, state, weight, bias)]


@pytest.mark.parametrize("device", ["meta", GPU])
def test_what_the_compiler_is_told_of_the_kernels(device: str) -> None:
    given = {name: x.to(device) for name, x in drawn(torch.float32).items()}
    inputs, state, keep, weight, bias = given.values()
    states, kept = fused_sequence(inputs, keep, state, weight, bias)
    assert states.shape == (*keep.shape, SIZE)
    gradients = fused_sequence_gradient(torch.ones_like(states), keep, weight, kept)
    assert [x.shape for x in gradients] == [x.shape for x in (inputs, state, weight, bias)]
    assert all(x.is_contiguous() for x in gradients)


def test_the_compiler_sees_operators_and_is_not_imported_without_need() -> None:
    """Unrolled, a sequence would be compiled for minutes; importing the compiler takes longer than a short run."""
    given = drawn(torch.float32)
    traced = make_fx(lambda *x: with_gradients(gru, dict(zip(given, x, strict=True))), tracing_mode="fake")
    called = {str(node.target) for node in traced(*given.values()).graph.nodes}
    assert {"fp3o.gru_forward.default", "fp3o.gru_backward.default"} <= called

    code = (
        "import sys, torch; from fp3o.networks.recurrent import gru\n"
        "x = [torch.ones(1, 1, 2, 3, 6), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 6)]\n"
        "gru(x[0].requires_grad_(), *x[1:], torch.ones(1, 1, 6)).sum().backward()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
