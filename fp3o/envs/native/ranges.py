"""Kernels: compiled functions that run on ranges of slots.

A kernel is given one address, at which it finds the addresses and shapes of all its arrays. So threads (`pool.py`) call
the machine code that Python calls, too (a function called in numba's prange is compiled anew, three times over), and a
call does not look at the types of sixty arrays.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numba
import numba.core.ccallback
import numba.extending
import numba.np.arrayobj
import numpy as np
from numba.core import cgutils
from numpy.typing import NDArray

from fp3o.caches import making
from fp3o.envs.native.compiled import UNCOUNTED, cache_of

Record = Any  # in kernels: its fields are attributes
Records = Any  # an array of them

# Without types to check: most of numba has none.
typeof: Any = numba.typeof
types: Any = numba.types
arrays: Any = numba.np.arrayobj
CFunc: Any = numba.core.ccallback.CFunc
ir: Any = cgutils.ir  # type: ignore[attr-defined]
INTEGER = ir.IntType(64)


class Kernel:
    """Decorator of a function (address, what, worker, start, stop) → int. It starts with `read(address)`, which gives
    the tuple that it works on. worker: the number of the thread that runs it, which may have memory of its own.

    Compiled on first use; of processes that start together the first compiles it, the others load it from the cache.
    """

    def __init__(self, function: Callable[[Any, int, int, int, int], int]) -> None:
        self.function = function
        self._lock = threading.Lock()
        self.compiled: dict[Any, Any] = {}
        """By (numba's) type of the tuple."""

    def address(self, kind: Any) -> int:
        """Of the machine code for this type of tuple."""
        with self._lock:
            if kind not in self.compiled:
                arguments = (types.CPointer(kind), *[types.int64] * 4)
                code = CFunc(self.function, (arguments, types.int64), locals={}, options=UNCOUNTED)
                with cache_of(self.function) as folder:
                    if folder:
                        code.enable_caching()
                with making(Path(folder) / f"{self.function.__name__}.lock") if folder else nullcontext():
                    code.compile()
                self.compiled[kind] = code
        return int(self.compiled[kind].address)


class Ranges:
    """A kernel with what it works on, N slots: a tuple of arrays, integers, and tuples of them."""

    def __init__(self, kernel: Kernel, data: tuple[Any, ...], slots: int) -> None:
        self._kernel = kernel
        self._data = data  # kept, as the table has only addresses
        self._table = np.array(_table(data), np.int64)
        self._slots = slots

    @functools.cached_property
    def address(self) -> int:
        """Of the kernel's machine code."""
        return self._kernel.address(typeof(self._data))

    @functools.cached_property
    def _function(self) -> Callable[[int, int, int], int]:
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(self.address)
        table = self._table.ctypes.data
        return lambda what, start, stop: function(table, what, 0, start, stop)

    def run(self, what: int, start: int = 0, stop: int | None = None) -> int:
        """Run on slots start … stop, by default all, in this thread. Returns what the kernel returns."""
        return self._function(what, start, self._slots if stop is None else stop)


def empty_records(shape: tuple[int, ...], **types_of: Any) -> NDArray[Any]:
    """Records of zeros with fields of these types."""
    by_size = sorted(types_of.items(), key=lambda field: -np.dtype(field[1]).itemsize)  # no gaps between fields
    return np.zeros(shape, np.dtype(by_size, align=True))


def records(shape: tuple[int, ...], **values: Any) -> NDArray[Any]:
    """Records with these values."""
    out = empty_records(shape, **{name: np.asarray(value).dtype for name, value in values.items()})
    for name, value in values.items():
        out[name] = value
    return out


def _table(value: Any) -> list[int]:
    """The numbers that `read` needs: an array's address and shape, or an integer."""
    if isinstance(value, tuple):
        return [number for part in value for number in _table(part)]
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("kernels read contiguous arrays only")
        return [value.ctypes.data, *value.shape]
    if not isinstance(value, int | np.integer | np.bool_):
        raise TypeError(f"kernels read arrays and integers only: {value!r}")
    return [int(value)]


def _read(_: Any, address: Any) -> Any:
    """The tuple whose `_table` is at an address; its type is that of the pointer."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        table = builder.bitcast(values[0], INTEGER.as_pointer())
        places = itertools.count()

        def number() -> Any:
            return builder.load(builder.gep(table, [ir.Constant(INTEGER, next(places))]))

        def build(kind: Any) -> Any:
            if isinstance(kind, types.BaseTuple):
                return context.make_tuple(builder, kind, [build(part) for part in kind])
            if not isinstance(kind, types.Array):
                return context.cast(builder, number(), types.int64, kind)
            array = arrays.make_array(kind)(context, builder)
            data = builder.inttoptr(number(), array.data.type)
            shape = [number() for _ in range(kind.ndim)]
            size = ir.Constant(INTEGER, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            strides = [size]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(length, strides[0]))
            arrays.populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
            return array._getvalue()

        return build(address.dtype)

    return address.dtype(address), lower


read: Any = numba.extending.intrinsic(_read)
