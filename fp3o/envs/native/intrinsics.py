"""What kernels do that numba has no words for: read and change memory at an address, call machine code."""

from __future__ import annotations

from typing import Any

import numba.extending

from fp3o.envs.native.ranges import INTEGER, arrays, ir, types


def _atomic(operation: str) -> Any:
    """An intrinsic (address, number) that changes the integer at an address and returns what it was. Whoever sees the
    change sees what was written before it."""

    def change(_: Any, address: Any, number: Any) -> Any:
        def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
            place = builder.inttoptr(values[0], INTEGER.as_pointer())
            return builder.atomic_rmw(operation, place, values[1], "seq_cst")

        return types.int64(types.int64, types.int64), lower

    return numba.extending.intrinsic(change)


def _exchange(_: Any, address: Any, old: Any, new: Any) -> Any:
    """Replace the integer at an address if it is `old`; whether it was."""

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


def _address(_: Any, array: Any) -> Any:
    """Where an array's numbers are."""

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(arrays.make_array(signature.args[0])(context, builder, values[0]).data, INTEGER)

    return types.int64(array), lower


def _call(_: Any, code: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call machine code with five integers or addresses. A C function that has fewer parameters ignores the others; the
    result of one that has none means nothing."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        function = ir.FunctionType(INTEGER, [INTEGER] * 5)
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 6), lower


add, put = _atomic("add"), _atomic("xchg")
exchange: Any = numba.extending.intrinsic(_exchange)
look: Any = numba.extending.intrinsic(_look)
real: Any = numba.extending.intrinsic(_real)
address: Any = numba.extending.intrinsic(_address)
call: Any = numba.extending.intrinsic(_call)
give_way = types.ExternalFunction("sched_yield", types.int32())
"""Let another thread have the processor, if one waits for it."""
