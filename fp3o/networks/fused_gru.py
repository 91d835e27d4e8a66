"""GRUs along whole sequences on a GPU, one kernel for all steps (Triton): the state and the recurrent weights stay in a
multiprocessor, where operations of torch would read and write them at every step.

Tensors: parameters [networks, …], data [networks, rows, steps, …]; `rows` are sequences. Gates are in torch's order:
reset, update, new.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fp3o.networks.products import sum_of_products

# Rows per block: many are fast, few keep more of the GPU busy. By the rows of one network, so that results do not
# depend on how many networks there are. The fastest of some, on an H200 for 64 units: with 12,800 rows of 10 steps
# forward 0.20 and back 0.44 ms (a step after the other 0.48 and 0.75), with 320 rows of 401 steps 1.1 to 1.3 (5.5).
# All of them fit into the memory that `recurrent.py` asks for.
MANY_ROWS, FEW = 512, {"BLOCK": 16, "num_warps": 8, "num_stages": 3}
FORWARD, BACKWARD = {"BLOCK": 32, "num_warps": 4, "num_stages": 1}, {"BLOCK": 32, "num_warps": 8, "num_stages": 2}

# Products as exact as in single precision. Tensor cores round factors to fewer digits; with three products of rounded
# factors and remainders instead of one, results are as exact, and much faster than without tensor cores.
PRECISION = "tf32x3"


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def tanh(x):
    """By its series near 0, where the other formula would cancel digits."""
    square = x * x
    near = x * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835)))))
    e = tl.exp(-2 * tl.abs(x))
    far = (1 - e) / (1 + e)
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))


@triton.jit
def of_block(rows, SIZE: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr):
    """A block's network, rows and units; which of the rows there are, and which of [row, unit]."""
    row, unit = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64), tl.arange(0, UNITS)
    there = row < rows
    return tl.program_id(1).to(tl.int64), row, unit, there, there[:, None] & (unit < SIZE)[None, :]


@triton.jit
def of_gates(weight, SIZE: tl.constexpr, UNITS: tl.constexpr):
    """Recurrent weights [from, to] of the three gates."""
    unit = tl.arange(0, UNITS)
    square = (unit < SIZE)[:, None] & (unit < SIZE)[None, :]
    at = weight + unit[:, None] * (3 * SIZE) + unit[None, :]
    return tl.load(at, square, 0.0), tl.load(at + SIZE, square, 0.0), tl.load(at + 2 * SIZE, square, 0.0)


@triton.jit
def forward_kernel(
    inputs, keep, state, weight, bias, states, kept,
    rows, steps,
    inputs_network, inputs_row, inputs_step,
    keep_network, keep_row, keep_step,
    states_network, states_row, states_step,
    KEEPS: tl.constexpr, SIZE: tl.constexpr, UNITS: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """KEEPS: whether to write what the gradient needs."""
    network, row, unit, there, inside = of_block(rows, SIZE, UNITS, BLOCK)
    w_reset, w_update, w_new = of_gates(weight + network * 3 * SIZE * SIZE, SIZE, UNITS)
    bias += network * 3 * SIZE + unit
    b_reset = tl.load(bias, unit < SIZE, 0.0)[None, :]
    b_update = tl.load(bias + SIZE, unit < SIZE, 0.0)[None, :]
    b_new = tl.load(bias + 2 * SIZE, unit < SIZE, 0.0)[None, :]
    inputs += network * inputs_network + row[:, None] * inputs_row + unit[None, :]
    states += network * states_network + row[:, None] * states_row + unit[None, :]
    kept += (network * rows + row[:, None]) * steps * (5 * SIZE) + unit[None, :]
    keep += network * keep_network + row * keep_row
    now = tl.load(state + (network * rows + row[:, None]) * SIZE + unit[None, :], inside, 0.0)
    for _ in range(steps):
        now *= tl.load(keep, there, 0.0)[:, None]
        reset = tl.load(inputs, inside, 0.0)  # all before the products, which take as long as reading
        update = tl.load(inputs + SIZE, inside, 0.0)
        new = tl.load(inputs + 2 * SIZE, inside, 0.0)
        reset = sigmoid(tl.dot(now, w_reset, reset + b_reset, input_precision=PRECISION))
        update = sigmoid(tl.dot(now, w_update, update + b_update, input_precision=PRECISION))
        recurrent = tl.dot(now, w_new, input_precision=PRECISION) + b_new
        new = tanh(new + reset * recurrent)
        if KEEPS:
            tl.store(kept, now, inside)
            tl.store(kept + SIZE, reset, inside)
            tl.store(kept + 2 * SIZE, update, inside)
            tl.store(kept + 3 * SIZE, new, inside)
            tl.store(kept + 4 * SIZE, recurrent, inside)
            kept += 5 * SIZE
        now = new + update * (now - new)
        tl.store(states, now, inside)
        inputs += inputs_step
        states += states_step
        keep += keep_step


@triton.jit
def backward_kernel(
    gradient, keep, weight, kept, of_inputs, of_recurrent, of_state,
    rows, steps,
    SIZE: tl.constexpr, UNITS: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All tensors contiguous. of_recurrent: gradient of the recurrent contributions to the new gate."""
    network, row, unit, there, inside = of_block(rows, SIZE, UNITS, BLOCK)
    w_reset, w_update, w_new = of_gates(weight + network * 3 * SIZE * SIZE, SIZE, UNITS)
    w_reset, w_update, w_new = tl.trans(w_reset), tl.trans(w_update), tl.trans(w_new)
    first = network * rows + row
    last = first * steps + steps - 1
    gradient += last[:, None] * SIZE + unit[None, :]
    of_inputs += last[:, None] * (3 * SIZE) + unit[None, :]
    of_recurrent += last[:, None] * SIZE + unit[None, :]
    kept += last[:, None] * (5 * SIZE) + unit[None, :]
    keep += last
    passed = tl.zeros((BLOCK, UNITS), tl.float32)  # gradient of the state after the step, from later steps
    for _ in range(steps):
        before = tl.load(kept, inside, 0.0)
        reset = tl.load(kept + SIZE, inside, 0.0)
        update = tl.load(kept + 2 * SIZE, inside, 0.0)
        new = tl.load(kept + 3 * SIZE, inside, 0.0)
        recurrent = tl.load(kept + 4 * SIZE, inside, 0.0)
        total = tl.load(gradient, inside, 0.0) + passed
        # The derivatives of sigmoid and tanh are x(1 − x) and 1 − x² of their results.
        of_new = total * (1 - update) * (1 - new * new)
        of_update = total * (before - new) * update * (1 - update)
        of_reset = of_new * recurrent * reset * (1 - reset)
        tl.store(of_inputs, of_reset, inside)
        tl.store(of_inputs + SIZE, of_update, inside)
        tl.store(of_inputs + 2 * SIZE, of_new, inside)
        of_new *= reset  # from here on that of the recurrent contribution
        passed = tl.dot(of_reset, w_reset, total * update, input_precision=PRECISION)
        passed = tl.dot(of_update, w_update, passed, input_precision=PRECISION)
        passed = tl.dot(of_new, w_new, passed, input_precision=PRECISION)
        passed *= tl.load(keep, there, 0.0)[:, None]
        tl.store(of_recurrent, of_new, inside)
        of_recurrent -= SIZE
        gradient -= SIZE
        of_inputs -= 3 * SIZE
        kept -= 5 * SIZE
        keep -= 1
    tl.store(of_state + first[:, None] * SIZE + unit[None, :], passed, inside)


def forward(
    inputs: Tensor,
    keep: Tensor,
    state: Tensor,
    weight: Tensor,
    bias: Tensor,
    states: Tensor,
    kept: Tensor | None = None,
) -> None:
    """Write the states [N, C, L, H] after each step and what the gradient needs, [N, C, L, 5H].

    Arguments as of `recurrent.gru`, with R and P as one axis N. Inputs, keep and states may be strided, except for the
    last axis of inputs and states; the others are contiguous.
    """
    assert inputs.stride(-1) == states.stride(-1) == 1
    assert all(x is None or x.is_contiguous() for x in (state, weight, bias, kept))
    networks, rows, steps, size = states.shape
    how = FORWARD if rows >= MANY_ROWS else FEW
    forward_kernel[(triton.cdiv(rows, how["BLOCK"]), networks)](
        inputs, keep, state, weight, bias, states, states if kept is None else kept,
        rows, steps, *inputs.stride()[:3], *keep.stride(), *states.stride()[:3],
        KEEPS=kept is not None, **_constants(size), **how,
    )  # fmt: skip


def backward(gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs, the first state, weight and bias from that of the states; all contiguous."""
    assert all(x.is_contiguous() for x in (gradient, keep, weight, kept))
    networks, rows, steps, size = gradient.shape
    how = BACKWARD if rows >= MANY_ROWS else FEW
    of_inputs = gradient.new_empty(networks, rows, steps, 3 * size)
    of_recurrent, of_state = torch.empty_like(gradient), gradient.new_empty(networks, rows, size)
    backward_kernel[(triton.cdiv(rows, how["BLOCK"]), networks)](
        gradient, keep, weight, kept, of_inputs, of_recurrent, of_state,
        rows, steps, **_constants(size), **how,
    )  # fmt: skip
    # Of two gates the recurrent contributions have the same gradient as the inputs, of the third another.
    before = kept.flatten(1, 2)[..., :size]
    parts = of_inputs.flatten(1, 2)[..., : 2 * size], of_recurrent.flatten(1, 2)
    of_weight = torch.cat([sum_of_products(before, part) for part in parts], -1)
    return of_inputs, of_state, of_weight, torch.cat([part.sum(1) for part in parts], -1)


def _constants(size: int) -> dict[str, Any]:
    return {"SIZE": size, "UNITS": max(16, triton.next_power_of_2(size)), "PRECISION": PRECISION}
