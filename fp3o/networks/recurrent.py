"""GRUs of many networks at once: parameters [R, P, …], data [R, P, rows, …].

Unrolled into a compiled program, ten steps forward and back were most of it, and compiling took minutes. So a sequence
is an operator of its own, with its gradient written out, and the compiler does not look inside: on a GPU one kernel for
all steps, where networks are small enough (fused_gru.py), else a step after the other, on a CPU by gru_kernels.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from fp3o.machine import has_c_compiler
from fp3o.networks.products import linear, sigmoid, sum_of_products

Operator = Callable[..., Any]
KEPT = 5  # numbers per unit and step that the gradient needs


def gru(inputs: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """States [R, P, C, L, H] after each step of C sequences of L steps, as torch.nn.GRU computes them.

    inputs [R, P, C, L, 3H]: the gates' contributions from the input, in the order reset, update, new. state
    [R, P, C, H]: before the first step. keep [R, P, C, L]: 0 where the state is reset before a step. weight
    [R, P, H, 3H], bias [R, P, 3H]: recurrent.
    """
    if inputs.shape[3] == 1:  # acting: the step is compiled together with the layers around it
        return gru_step(weight, bias, inputs[:, :, :, 0], state * keep)[:, :, :, None]
    if _fuses(state):
        given = (x.contiguous() for x in (inputs, keep, state, weight, bias))
        return _sequence(fused_sequence, fused_sequence_gradient, *given)
    steps_first = (x.movedim(3, 0).contiguous() for x in (inputs, keep))
    return _sequence(sequence, sequence_gradient, *steps_first, state.contiguous(), weight, bias).movedim(0, 3)


def gru_step(weight: Tensor, bias: Tensor, inputs: Tensor, state: Tensor) -> Tensor:
    """torch.nn.GRUCell; `inputs` [R, P, rows, 3H] are the gates' contributions from the input."""
    recurrent = linear(state, weight, bias)
    if state.is_cuda:
        return _cell(inputs, recurrent, state)[0]
    size = state.shape[-1]
    input_gates, input_new = inputs.split((2 * size, size), -1)
    hidden_gates, hidden_new = recurrent.split((2 * size, size), -1)
    reset, update = sigmoid(input_gates + hidden_gates).chunk(2, -1)
    new = torch.tanh(input_new + reset * hidden_new)
    return new + update * (state - new)


class _Sequence(torch.autograd.Function):
    """By an operator, whose gradient is another."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, gradient: Operator, inputs: Tensor, keep: Tensor, *others: Tensor) -> Any:
        states, kept = _plain(operator, inputs)(inputs, keep, *others)
        _, weight, _ = others
        ctx.gradient = gradient
        ctx.save_for_backward(keep, weight, kept)
        return states

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        of_inputs, *others = _plain(ctx.gradient, gradient)(gradient.contiguous(), *ctx.saved_tensors)
        return None, None, of_inputs, None, *others


def _plain(operator: Operator, given: Tensor) -> Operator:
    """On a CPU, unless the compiler looks on, the function itself: an operator imports the compiler when it is called,
    two seconds of a short run."""
    return PLAIN.get(operator, operator) if type(given) is Tensor and given.is_cpu else operator


def _sequence(operator: Operator, gradient: Operator, *given: Tensor) -> Tensor:
    states: Tensor = _Sequence.apply(operator, gradient, *given)  # type: ignore[no-untyped-call]
    return states


# One kernel for all steps (fused_gru.py) ------------------------------------------------------------------------------

MOST_UNITS = 64  # of which a multiprocessor holds the recurrent weights
SHARED_MEMORY = 163_840  # bytes of a multiprocessor that a block needs: an A100 has them, and what came after it
TENSOR_CORES = 8  # generation (compute capability) from which they take single precision


def _fuses(state: Tensor) -> bool:
    fits = state.is_cuda and state.shape[-1] <= MOST_UNITS and state.dtype == torch.float32
    return fits and _has_kernels(state.device)


@functools.cache
def _has_kernels(device: torch.device) -> bool:
    gpu = torch.cuda.get_device_properties(device)
    memory = getattr(gpu, "shared_memory_per_block_optin", 0)  # not of AMD's
    return (
        gpu.major >= TENSOR_CORES and memory >= SHARED_MEMORY and find_spec("triton") is not None and has_c_compiler()
    )


def scan(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor, states: Tensor) -> None:
    """Without a gradient: write the states [L, R, P, C, H] after each step; arguments as of `sequence`."""
    if _fuses(state):
        from fp3o.networks import fused_gru

        inputs, keep, into = (x.flatten(1, 2).movedim(0, 2) for x in (inputs, keep, states))
        state, weight, bias = (x.flatten(0, 1) for x in (state, weight, bias))
        fused_gru.forward(inputs, keep, state, weight, bias, into)
        return
    for given, kept, into in zip(inputs, keep, states, strict=True):
        state = into.copy_(gru_step(weight, bias, given, state * kept[..., None]))


@torch.library.custom_op("fp3o::fused_gru_forward", mutates_args=(), device_types="cuda")
def fused_sequence(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """States [R, P, C, L, H], and what their gradient needs; arguments as of `gru`, contiguous."""
    from fp3o.networks import fused_gru

    states, kept = _fused_outputs(inputs, keep, state, weight, bias)
    fused_gru.forward(*(x.flatten(0, 1) for x in (inputs, keep, state, weight, bias, states, kept)))
    return states, kept


@fused_sequence.register_fake
def _fused_outputs(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    steps, size = inputs.shape[:-1], state.shape[-1]
    return inputs.new_empty(*steps, size), inputs.new_empty(*steps, KEPT * size)


@torch.library.custom_op("fp3o::fused_gru_backward", mutates_args=(), device_types="cuda")
def fused_sequence_gradient(
    gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs, the first state, weight and bias from that of the states."""
    from fp3o.networks import fused_gru

    found = fused_gru.backward(*(x.flatten(0, 1) for x in (gradient, keep, weight, kept)))
    of_inputs, of_state, of_weight, of_bias = (x.unflatten(0, weight.shape[:2]) for x in found)
    return of_inputs, of_state, of_weight, of_bias


@fused_sequence_gradient.register_fake
def _(gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *shape, _, size = gradient.shape
    return (
        gradient.new_empty(*gradient.shape[:-1], 3 * size),
        gradient.new_empty(*shape, size),
        torch.empty_like(weight),
        gradient.new_empty(*weight.shape[:2], 3 * size),
    )


# A step after the other ----------------------------------------------------------------------------------------------


def _forward(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """States [L, R, P, C, H] from inputs [L, R, P, C, 3H] and keep [L, R, P, C], and what their gradient needs."""
    from fp3o.networks import gru_kernels  # imports numba, which not all runs need

    states, kept = _outputs(inputs, keep, state, weight, bias)
    inputs, keep, into = (x.flatten(1, 2) for x in (inputs, keep, states))
    state, weight, bias = (x.flatten(0, 1) for x in (state, weight, bias))
    product, parts = torch.empty_like(inputs[0]), _parts(kept, states)
    torch.mul(state, keep[0, ..., None], out=parts[0, :, 0])
    arrays = [x.numpy() for x in (inputs, keep, bias, product, into, parts)]
    for step, before in enumerate(parts[0].unbind(1)):
        torch.bmm(before, weight, out=product)
        gru_kernels.forward(step, *arrays)
    return states, kept


def _parts(kept: Tensor, states: Tensor) -> Tensor:
    """[5, networks, L, C, H], as `gru_kernels` names them."""
    length, *_, rows, size = states.shape
    return kept.view(KEPT, -1, length, rows, size)


sequence = torch.library.custom_op("fp3o::gru_forward", _forward, mutates_args=())


@sequence.register_kernel("cuda")
def _(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    states, kept = _outputs(inputs, keep, state, weight, bias)
    for step, given in enumerate(inputs):
        state = state * keep[step, ..., None]
        new, needed = _cell(given, linear(state, weight, bias), state)
        state = states[step].copy_(new)
        kept[step].view_as(needed).copy_(needed)
    return states, kept


def _cell(inputs: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The state after a step, and what its gradient needs, by torch's own kernel for GPUs: a whole cell in one instead
    of eleven."""
    rows = state[..., 0].numel()
    new, needed = torch.ops.aten._thnn_fused_gru_cell(*(x.reshape(rows, -1) for x in (inputs, recurrent, state)))
    return new.view_as(state), needed


@sequence.register_fake
def _outputs(inputs: Tensor, keep: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Uninitialised outputs. What is kept is [L, 5, R, P, C, H] on a CPU; on a GPU in the order of torch's kernel."""
    return inputs.new_empty(len(inputs), *state.shape), inputs.new_empty(len(inputs), KEPT, *state.shape)


def _backward(gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs, the first state, weight and bias from that of the states."""
    from fp3o.networks import gru_kernels

    parts = _parts(kept, gradient)
    found: tuple[Tensor, Tensor, Tensor, Tensor] = _gradients(gradient, keep, weight, kept)
    gradient, keep, of_inputs = (x.flatten(1, 2) for x in (gradient, keep, found[0]))
    of_state, of_weight, of_bias = (x.flatten(0, 1) for x in found[1:])
    through = of_state.zero_().clone()
    of_product = gradient.new_empty(*parts.shape[1:4], of_inputs.shape[-1])
    transposed = weight.transpose(2, 3).flatten(0, 1).contiguous()
    arrays = [x.numpy() for x in (gradient, keep, parts, of_inputs, of_product, of_state, through)]
    for step, of_step in reversed(list(enumerate(of_product.unbind(1)))):
        gru_kernels.backward(step, *arrays)
        torch.bmm(of_step, transposed, out=through)
    of_state.add_(through).mul_(keep[0, ..., None])
    torch.bmm(parts[0].flatten(1, 2).transpose(1, 2), of_product.flatten(1, 2), out=of_weight)
    # Sums over sequences as products with ones: torch.sum takes three times as long.
    ones = keep.new_ones(1, 1, keep.shape[-1]).expand(keep.shape[0] * keep.shape[1], -1, -1)
    torch.sum(torch.bmm(ones, of_product.flatten(0, 1)).view(*of_product.shape[:2], -1), 1, out=of_bias)
    return found


sequence_gradient = torch.library.custom_op("fp3o::gru_backward", _backward, mutates_args=())
PLAIN: dict[Operator, Operator] = {sequence: _forward, sequence_gradient: _backward}


@sequence_gradient.register_kernel("cuda")
def _(gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    of_inputs, of_state, *_ = _gradients(gradient, keep, weight, kept)
    of_recurrent, rows = torch.empty_like(of_inputs), of_state[..., 0].numel()
    transposed = weight.transpose(2, 3).flatten(0, 1)
    of_state.zero_()
    for step in reversed(range(len(gradient))):
        total = (gradient[step] + of_state).view(rows, -1)
        cell = torch.ops.aten._thnn_fused_gru_cell_backward(total, kept[step].view(rows, -1), False)
        of_inputs[step].view(rows, -1).copy_(cell[0])
        recurrent = of_recurrent[step].view(rows, -1).copy_(cell[1])
        networks = (len(transposed), -1)
        through = torch.baddbmm(cell[2].unflatten(0, networks), recurrent.unflatten(0, networks), transposed)
        torch.mul(through.view_as(of_state), keep[step, ..., None], out=of_state)
    before = kept.view(len(kept), rows, KEPT, -1)[:, :, 3].view(gradient.shape)
    return of_inputs, of_state, *_of_parameters(before, of_recurrent, weight)


@sequence_gradient.register_fake
def _gradients(gradient: Tensor, keep: Tensor, weight: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialised gradients."""
    *shape, size = gradient.shape
    networks = weight.shape[:2]
    return (
        gradient.new_empty(*shape, 3 * size),
        gradient.new_empty(*shape[1:], size),
        gradient.new_empty(weight.shape),
        gradient.new_empty(*networks, 3 * size),
    )


def _of_parameters(before: Tensor, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of weight and bias from that of the recurrent contributions; both arguments have steps first."""
    rows, gradients = (x.movedim(0, 2).flatten(0, 1).flatten(1, 2) for x in (before, gradient))
    return sum_of_products(rows, gradients).view(weight.shape), gradients.sum(1).view(*weight.shape[:2], -1)
