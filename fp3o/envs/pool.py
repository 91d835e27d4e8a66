"""Threads that share the parts of a kernel's call with the caller.

Whoever is free takes the next part, the caller too: a helper that wakes up late, or waits for a processor behind other
programs, holds nobody up. Helpers sleep between calls; the caller waits for the last part, awake for some microseconds.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any

import numba
import numba.extending
import numpy as np
from numpy.typing import NDArray

from fp3o.envs.compiled import inner
from fp3o.envs.ranges import INTEGER, Kernel, Ranges, ir, read, types

# Places in the pool's memory, in bytes; numbers that several threads write have cache lines of their own.
LEFT = 0
"""Parts that nobody has taken yet; below 0 after all were taken."""
UNFINISHED = 128
"""Parts that are not done, plus 1 while the caller is awake. Whoever makes it 0 wakes the caller, or is the caller."""
REQUEST, WHAT = 256, 264
"""Of the current call: the address of `SharedRanges`' request, and the kernel's argument."""
DOORS = 384
"""Where the caller sleeps (the first) and the helpers."""
DOOR, MUTEX, CONDITION = 256, 64, 128
"""Bytes of a door: first whether it is open, then from these on a mutex and a condition variable (at most 64 each)."""
MOST = 1024
"""Helpers."""
SPINS = 20_000
"""Looks at UNFINISHED before the caller sleeps: some 10 to 50 µs."""
SERVE, SHARE = range(2)

lock, unlock, signal, wait = (
    types.ExternalFunction(f"pthread_{name}", types.int32(*[types.int64] * addresses))
    for name, addresses in (("mutex_lock", 1), ("mutex_unlock", 1), ("cond_signal", 1), ("cond_wait", 2))
)


def _atomic(operation: str) -> Any:
    """An intrinsic (address, number) that changes the integer at an address and returns what it was. Whoever sees the
    change sees what was written before it."""

    def change(_: Any, address: Any, number: Any) -> Any:
        def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
            place = builder.inttoptr(values[0], INTEGER.as_pointer())
            return builder.atomic_rmw(operation, place, values[1], "seq_cst")

        return types.int64(types.int64, types.int64), lower

    return numba.extending.intrinsic(change)


def _look(_: Any, address: Any) -> Any:
    """The integer at an address."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(values[0], INTEGER.as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), lower


def _call(_: Any, code: Any, table: Any, what: Any, part: Any, start: Any, stop: Any) -> Any:
    """Call a kernel's machine code."""

    def lower(context: Any, builder: Any, _: Any, values: Any) -> Any:
        function = ir.FunctionType(INTEGER, [INTEGER] * 5)
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 6), lower


add, put = _atomic("add"), _atomic("xchg")
look: Any = numba.extending.intrinsic(_look)
call: Any = numba.extending.intrinsic(_call)


@inner
def wake(door: int) -> None:
    """Open a door."""
    lock(door + MUTEX)
    put(door, 1)
    unlock(door + MUTEX)  # before the signal: whoever wakes up takes it
    signal(door + CONDITION)


@inner
def sleep(door: int) -> None:
    """Wait until a door is open, and close it."""
    lock(door + MUTEX)
    while put(door, 0) == 0:
        wait(door + CONDITION, door + MUTEX)
    unlock(door + MUTEX)


@inner
def take(home: int) -> None:
    """Do parts until all are taken."""
    part = add(home + LEFT, -1) - 1
    while part >= 0:
        request = look(home + REQUEST)  # not read before a part was taken: until then it may change
        bounds = request + 24 + 8 * part
        call(look(request), look(request + 8), look(home + WHAT), part, look(bounds), look(bounds + 8))
        if add(home + UNFINISHED, -1) == 1:
            wake(home + DOORS)
        part = add(home + LEFT, -1) - 1


@Kernel
def share(address: Any, what: int, part: int, start: int, stop: int) -> int:
    """SERVE: be helper `start`. SHARE a call with helpers start … stop."""
    home = read(address)[0]
    while what == SERVE:
        sleep(home + DOORS + DOOR * start)
        take(home)
    parts = look(look(home + REQUEST) + 16)
    put(home + UNFINISHED, parts + 1)
    put(home + LEFT, parts)
    for helper in range(start, stop):
        if look(home + LEFT) <= 0:
            break
        wake(home + DOORS + DOOR * helper)
    take(home)
    for _ in range(SPINS):
        if look(home + UNFINISHED) == 1:
            break
    if add(home + UNFINISHED, -1) > 1:
        sleep(home + DOORS)
    return 0


class Pool:
    """The helpers of this process. One call at a time."""

    def __init__(self) -> None:
        self._memory = np.zeros((DOORS + DOOR * (1 + MOST)) // 8, np.int64)
        self._home = self._memory.ctypes.data
        self._share = Ranges(share, (self._home,), 0)
        self.lock = threading.Lock()
        self._helpers = 0
        self._make_door(0)

    def _make_door(self, number: int) -> None:
        library, door = ctypes.CDLL(None), self._home + DOORS + DOOR * number
        library.pthread_mutex_init(ctypes.c_void_p(door + MUTEX), None)
        library.pthread_cond_init(ctypes.c_void_p(door + CONDITION), None)

    def _serve(self, helper: int) -> None:
        self._share.run(SERVE, helper)  # for ever; meanwhile this frame keeps the memory where the helper sleeps

    def run(self, request: int, what: int, helpers: int) -> None:
        with self.lock:
            while self._helpers < helpers:
                self._helpers += 1
                self._make_door(self._helpers)
                threading.Thread(target=self._serve, args=(self._helpers,), daemon=True).start()
            self._memory[REQUEST // 8], self._memory[WHAT // 8] = request, what
            self._share.run(SHARE, 1, 1 + helpers)


@functools.cache
def pool() -> Pool:
    return Pool()


os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has the memory but not the threads


class SharedRanges(Ranges):
    """A kernel with what it works on, whose calls are shared by threads. Part i, the kernel's third argument, has the
    slots bounds[i] … bounds[i + 1]."""

    def __init__(self, kernel: Kernel, data: tuple[Any, ...], bounds: NDArray[np.int64], threads: int) -> None:
        super().__init__(kernel, data, int(bounds[-1]))
        self._bounds, self._helpers = bounds, min(threads - 1, MOST)

    @functools.cached_property
    def _request(self) -> NDArray[np.int64]:
        """The machine code, the data, the number of parts and their bounds."""
        return np.array((self.address, self._table.ctypes.data, len(self._bounds) - 1, *self._bounds), np.int64)

    @functools.cached_property
    def _request_address(self) -> int:
        return self._request.ctypes.data

    def share(self, what: int) -> None:
        """Run on all slots."""
        if self._helpers:
            pool().run(self._request_address, what, self._helpers)
        else:
            self.run(what)
