"""The elementwise part of a GRU on a CPU: one pass per step over numbers that torch's operations would read and write a
dozen times.

Arrays: C sequences of L steps of each of N networks with H units. Gates are in torch's order: reset, update, new. A
number depends on its own sequence alone, so a network computes the same bits alone and among others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload
from numpy.typing import NDArray

from fp3o.envs.native.compiled import Function, compiled, inner
from fp3o.envs.native.intrinsics import as_float

Floats = NDArray[np.floating[Any]]
FUSED: Any = {"fastmath": {"contract"}}  # a product and a sum are one instruction, where there is one


def kernel(function: Function) -> Function:
    return compiled(function, **FUSED)


def part(function: Function) -> Function:
    return inner(function, **FUSED)


# exp(x) = 2ⁿ·exp(r), r = x − n·ln 2 by its series; ln 2 in two parts, of which n times the first is exact.
LOG2_E, LN2, LN2_REST = (np.float32(x) for x in (1 / math.log(2), 0.693359375, math.log(2) - 0.693359375))
EXP = tuple(np.float32(1 / math.factorial(n)) for n in range(7))
TANH = tuple(np.float32(x) for x in (1, -1 / 3, 2 / 15, -17 / 315, 62 / 2835))  # in powers of x², for x near 0
TO_INTEGER = np.float32(1.5 * 2**23)  # added and subtracted again, it rounds
ONE, TWO, NEAR = np.float32(1), np.float32(2), np.float32(0.25)
LARGEST = np.float32(80)  # e⁸⁰ and e⁻⁸⁰ are normal numbers
EXPONENT_AT, EXPONENT_OF_ONE = np.int32(23), np.int32(127)


@part
def exp(x: Any) -> Any:
    """Of |x| ≤ LARGEST; without branches, so that the compiler computes several at once."""
    n = (x * LOG2_E + TO_INTEGER) - TO_INTEGER
    r = (x - n * LN2) - n * LN2_REST
    series = EXP[0] + r * (EXP[1] + r * (EXP[2] + r * (EXP[3] + r * (EXP[4] + r * (EXP[5] + r * EXP[6])))))
    return series * as_float((np.int32(n) + EXPONENT_OF_ONE) << EXPONENT_AT)


@part
def fast_sigmoid(x: Any) -> Any:
    return ONE / (ONE + exp(min(max(-x, -LARGEST), LARGEST)))


@part
def fast_tanh(x: Any) -> Any:
    """By its series near 0, where the other formula would cancel digits."""
    square = x * x
    near = x * (TANH[0] + square * (TANH[1] + square * (TANH[2] + square * (TANH[3] + square * TANH[4]))))
    e = exp(max(-TWO * abs(x), -LARGEST))
    far = (ONE - e) / (ONE + e)
    return near if abs(x) < NEAR else (-far if x < 0 else far)


def sigmoid(x: Any) -> Any:
    """In single precision within 3e-7 of the truth; in double, for tests, exact."""


def tanh(x: Any) -> Any:
    """Likewise."""


overload(sigmoid)(lambda x: (lambda x: fast_sigmoid(x)) if x is types.float32 else (lambda x: 1 / (1 + math.exp(-x))))
overload(tanh)(lambda x: (lambda x: fast_tanh(x)) if x is types.float32 else (lambda x: math.tanh(x)))


@kernel
def forward(
    step: int, inputs: Floats, keep: Floats, bias: Floats, product: Floats, states: Floats, kept: Floats
) -> None:
    """inputs [L, N, C, 3H], keep [L, N, C], bias [N, 3H]; product [N, C, 3H]: the state before times weights.

    Writes states [L, N, C, H] and kept [5, N, L, C, H]: the state before (of the next step), reset, update, new, and
    the recurrent contribution to new.
    """
    length, networks, rows, size = states.shape
    for n in range(networks):
        shift = bias[n]
        for i in range(rows):
            before, reset, update = kept[0, n, step, i], kept[1, n, step, i], kept[2, n, step, i]
            new, hidden, state = kept[3, n, step, i], kept[4, n, step, i], states[step, n, i]
            given, recurrent = inputs[step, n, i], product[n, i]
            for j in range(size):
                reset[j] = sigmoid(given[j] + (recurrent[j] + shift[j]))
                update[j] = sigmoid(given[size + j] + (recurrent[size + j] + shift[size + j]))
            for j in range(size):
                hidden[j] = recurrent[2 * size + j] + shift[2 * size + j]
                new[j] = tanh(given[2 * size + j] + reset[j] * hidden[j])
            for j in range(size):
                state[j] = new[j] + update[j] * (before[j] - new[j])
            if step + 1 < length:
                after = kept[0, n, step + 1, i]
                for j in range(size):
                    after[j] = state[j] * keep[step + 1, n, i]


@kernel
def backward(
    step: int,
    gradient: Floats,
    keep: Floats,
    kept: Floats,
    of_inputs: Floats,
    of_product: Floats,
    of_state: Floats,
    through: Floats,
) -> None:
    """gradient [L, N, C, H]: of the states; of_state + through [N, C, H]: of what the next step used, from it and later
    ones.

    Writes of_inputs [L, N, C, 3H] and of_product [N, L, C, 3H], and of_state: of the state before, but for what comes
    through the product.
    """
    length, networks, rows, size = gradient.shape
    for n in range(networks):
        for i in range(rows):
            before, reset, update = kept[0, n, step, i], kept[1, n, step, i], kept[2, n, step, i]
            new, hidden, state = kept[3, n, step, i], kept[4, n, step, i], of_state[n, i]
            given, gates, products = gradient[step, n, i], of_inputs[step, n, i], of_product[n, step, i]
            of_reset, of_update, of_new = gates[:size], gates[size : 2 * size], gates[2 * size :]
            later = through[n, i]
            kept_on = keep[min(step + 1, length - 1), n, i]  # after the last step there is nothing to keep
            # The derivatives of sigmoid and tanh are x(1 − x) and 1 − x² of their results. Copies are made in a loop of
            # their own: with them in the first one, the compiler would not compute several units at once.
            for j in range(size):
                total = given[j] + (state[j] + later[j]) * kept_on
                passed = total * update[j]
                rest = total - passed
                state[j] = passed
                of_update[j] = (before[j] - new[j]) * rest * update[j]
                rest *= ONE - new[j] * new[j]
                of_new[j] = rest
                of_reset[j] = rest * hidden[j] * (reset[j] * (ONE - reset[j]))
                products[2 * size + j] = rest * reset[j]
            for j in range(2 * size):
                products[j] = gates[j]
