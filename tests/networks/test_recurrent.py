"""A GRU over a sequence is its steps one after the other, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fp3o.networks.recurrent import gru, gru_step, sequence, sequence_gradient

REPLICAS, OWNERS, CHUNKS, LENGTH, SIZE = 2, 3, 5, 4, 6


def drawn(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(REPLICAS, OWNERS, *shape, generator=source, dtype=dtype)

    return {
        "inputs": normal(CHUNKS, LENGTH, 3 * SIZE),
        "state": normal(CHUNKS, SIZE),
        "keep": (normal(CHUNKS, LENGTH) > -0.5).to(dtype),
        "weight": normal(SIZE, 3 * SIZE),
        "bias": normal(3 * SIZE),
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
    given, results = {name: x.to(device) for name, x in drawn().items()}, []
    assert 0 < given["keep"].mean() < 1
    gradient = torch.randn(REPLICAS, OWNERS, CHUNKS, LENGTH, SIZE, dtype=torch.float64).to(device)
    for function in (gru, step_by_step):
        leaves = {name: x.clone().requires_grad_(name != "keep") for name, x in given.items()}
        states = function(**leaves)
        learned = [x for x in leaves.values() if x.requires_grad]
        results.append([states, *torch.autograd.grad(states, learned, gradient)])
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-12, rtol=1e-10)


def test_a_network_alone_is_the_same_to_the_bit() -> None:
    given = drawn(torch.float32)
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
