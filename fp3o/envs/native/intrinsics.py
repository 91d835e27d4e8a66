"""Intrinsics numba lacks: atomics, raw loads, numbers from bits, distances of many points at once, indirect calls."""

from __future__ import annotations

from typing import Any

import numba.extending

from fp3o.envs.native.ranges import INTEGER, arrays, ir, types


def _atomic(operation: str) -> Any:
    """An intrinsic (address, number): an atomic read-modify-write of the integer there, which returns the old one."""

    def change(_: Any, address: Any, number: Any) -> Any:
        def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
            place = builder.inttoptr(values[0], INTEGER.as_pointer())
            return builder.atomic_rmw(operation, place, values[1], "seq_cst")

        return types.int64(types.int64, types.int64), lower

    return numba.extending.intrinsic(change)


def _exchange(_: Any, address: Any, old: Any, new: Any) -> Any:
    """Compare-and-swap the integer at an address; whether it was `old`."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        place = builder.inttoptr(values[0], INTEGER.as_pointer())
        return builder.extract_value(builder.cmpxchg(place, values[1], values[2], "seq_cst", "seq_cst"), 1)

    return types.boolean(types.int64, types.int64, types.int64), lower


def _look(_: Any, address: Any) -> Any:
    """The integer at an address."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(values[0], INTEGER.as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), lower


def _real(_: Any, address: Any) -> Any:
    """The float64 at an address."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.load(builder.inttoptr(values[0], ir.DoubleType().as_pointer()))

    return types.float64(types.int64), lower


def _as_float(_: Any, bits: Any) -> Any:
    """The float32 with these bits."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.int32), lower


LANES = 32
"""How many points `within` looks at."""
VECTOR, LANE = ir.VectorType(ir.FloatType(), 8), ir.IntType(32)


def _within(_: Any, xs: Any, ys: Any, start: Any, x: Any, y: Any, limits: Any) -> Any:
    """Which of the points `start` … `start` + LANES − 1 are nearer to (x, y) than the limits, squared distances in
    float32, one for each or one for all: a bit each, the first is the lowest."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        nothing, first = ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.VectorType(LANE, VECTOR.count), None)

        def repeat(number: Any) -> Any:
            return builder.shuffle_vector(builder.insert_element(nothing, number, LANE(0)), nothing, first)

        def load(k: int, part: int) -> Any:
            data = arrays.make_array(signature.args[k])(context, builder, values[k]).data
            place = builder.gep(data, [builder.add(values[2], INTEGER(part * VECTOR.count))])
            return builder.load(builder.bitcast(place, VECTOR.as_pointer()), align=4)

        bits, x, y = INTEGER(0), repeat(values[3]), repeat(values[4])
        for part in range(LANES // VECTOR.count):
            dx, dy = builder.fsub(load(0, part), x), builder.fsub(load(1, part), y)
            square = builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))
            limit = load(5, part) if isinstance(limits, types.Array) else repeat(values[5])
            near = builder.bitcast(builder.fcmp_ordered("<", square, limit), ir.IntType(VECTOR.count))
            bits = builder.or_(bits, builder.shl(builder.zext(near, INTEGER), INTEGER(part * VECTOR.count)))
        return bits

    return types.int64(xs, ys, types.int64, types.float32, types.float32, limits), lower


def _lowest(_: Any, start: Any, bits: Any) -> Any:
    """start + the number of the lowest bit that is set, of at least one; less than 2³², so that the compiler need not
    look whether an index is negative."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        place = builder.add(values[0], builder.cttz(values[1], ir.Constant(ir.IntType(1), 1)))
        return builder.zext(builder.trunc(place, LANE), INTEGER)

    return types.int64(types.int64, types.int64), lower


def _address(_: Any, array: Any) -> Any:
    """Where an array's numbers are."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(arrays.make_array(signature.args[0])(context, builder, values[0]).data, INTEGER)

    return types.int64(array), lower


def _call(_: Any, code: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call a C function by address with five integers or pointers; one with fewer parameters ignores the rest.

    The result of a void function is meaningless."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        function = ir.FunctionType(INTEGER, [INTEGER] * 5)
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 6), lower


add, put = _atomic("add"), _atomic("xchg")
exchange: Any = numba.extending.intrinsic(_exchange)
look: Any = numba.extending.intrinsic(_look)
real: Any = numba.extending.intrinsic(_real)
as_float: Any = numba.extending.intrinsic(_as_float)
within: Any = numba.extending.intrinsic(_within)
lowest: Any = numba.extending.intrinsic(_lowest)
address: Any = numba.extending.intrinsic(_address)
call: Any = numba.extending.intrinsic(_call)
give_way = types.ExternalFunction("sched_yield", types.int32())
"""Yield the processor to another thread."""
