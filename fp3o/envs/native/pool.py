"""A thread pool that runs the parts of a kernel call together with the caller.

Any free thread takes the next part, the caller included, so that a helper that wakes up late or waits for a processor
delays nobody. The caller busy-waits some microseconds for the last part, then sleeps. Helpers sleep between calls; if
this process has a thread for every processor they busy-wait first, because waking sixteen takes longer than some calls.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.native.compiled import inner
from fp3o.envs.native.intrinsics import add, call, exchange, give_way, look, put
from fp3o.envs.native.ranges import Kernel, Ranges, read, types
from fp3o.machine import processors

# Places in the pool's memory, in bytes; numbers that several threads write have cache lines of their own.
LEFT = 0
"""Parts of the current call that nobody has taken yet, plus CALL times its number. Helpers take parts of a call only if
they were woken for it: they have numbers up to that of its helpers."""
CALL = 1 << 32
UNFINISHED = 128
"""Unfinished parts, plus 1 while the caller is awake. The thread that makes it 0 wakes the caller, or is the caller."""
REQUEST, WHAT = 256, 264
"""Of the current call: the address of `SharedRanges`' request, and the kernel's argument."""
CALLS = 272
"""How many there were; the number of the current one."""
AWAKE = 280
"""How often a helper polls for the next call before it sleeps."""
DOORS = 384
"""Where the caller sleeps (the first) and the helpers."""
DOOR, MUTEX, CONDITION = 256, 64, 128
"""Bytes of a door: first 0 while it is closed, else for which call it is open; then from these on a mutex and a
condition variable (at most 64 each)."""
MOST = 1024
"""Helpers."""
SPINS = 20_000
"""How often the caller polls UNFINISHED before it sleeps: some 10 to 50 µs."""
LOOKS = 500
"""Polls of helpers that busy-wait, yielding the processor in between: some 300 µs."""
SERVE, SHARE = range(2)

lock, unlock, signal, wait = (
    types.ExternalFunction(f"pthread_{name}", types.int32(*[types.int64] * addresses))
    for name, addresses in (("mutex_lock", 1), ("mutex_unlock", 1), ("cond_signal", 1), ("cond_wait", 2))
)


@inner
def wake(door: int, number: int) -> None:
    """Open a door for a call."""
    lock(door + MUTEX)
    put(door, number)
    unlock(door + MUTEX)  # before the signal: whoever wakes up takes it
    signal(door + CONDITION)


@inner
def sleep(door: int) -> int:
    """Wait until a door is open, and close it; for which call it was open."""
    lock(door + MUTEX)
    number: int = put(door, 0)
    while number == 0:
        wait(door + CONDITION, door + MUTEX)
        number = put(door, 0)
    unlock(door + MUTEX)
    return number


@inner
def take(home: int, worker: int, number: int) -> None:
    """Do parts of a call until all are taken. worker: the number of this thread, 0 for the caller's."""
    left = look(home + LEFT)
    while left > number * CALL and left < (number + 1) * CALL:
        if exchange(home + LEFT, left, left - 1):
            request = look(home + REQUEST)
            bounds = request + 16 + 8 * (left - number * CALL)
            call(look(request), look(request + 8), look(home + WHAT), worker, look(bounds), look(bounds + 8))
            if add(home + UNFINISHED, -1) == 1:
                wake(home + DOORS, number)
        left = look(home + LEFT)


@Kernel
def share(address: Any, what: int, worker: int, start: int, stop: int) -> int:
    """SERVE: be helper `start`. SHARE a call with helpers start … stop."""
    home = read(address)[0]
    while what == SERVE:
        door = home + DOORS + DOOR * start
        for _ in range(look(home + AWAKE)):
            if look(door) != 0:
                break
            give_way()
        number = sleep(door)
        take(home, start, number)
    parts, number = look(look(home + REQUEST) + 16), look(home + CALLS)
    put(home + UNFINISHED, parts + 1)
    put(home + LEFT, number * CALL + parts)
    for helper in range(start, stop):
        if look(home + LEFT) == number * CALL:
            break
        wake(home + DOORS + DOOR * helper, number)
    take(home, 0, number)
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

    def run(self, request: int, what: int, helpers: int, looks: int) -> None:
        with self.lock:
            while self._helpers < helpers:
                self._helpers += 1
                self._make_door(self._helpers)
                threading.Thread(target=self._serve, args=(self._helpers,), daemon=True).start()
            self._memory[REQUEST // 8], self._memory[WHAT // 8] = request, what
            self._memory[CALLS // 8] += 1
            self._memory[AWAKE // 8] = looks
            self._share.run(SHARE, 1, 1 + helpers)


@functools.cache
def pool() -> Pool:
    return Pool()


os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has the memory but not the threads


class SharedRanges(Ranges):
    """A kernel with what it works on, whose calls are shared by threads. Part i has the slots bounds[i] …
    bounds[i + 1]; parts with higher numbers are begun first."""

    def __init__(self, kernel: Kernel, data: tuple[Any, ...], bounds: NDArray[np.int64], threads: int) -> None:
        super().__init__(kernel, data, int(bounds[-1]))
        self._bounds, self._helpers = bounds, min(threads - 1, MOST)
        self._looks = LOOKS if threads >= processors() else 0

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
            pool().run(self._request_address, what, self._helpers, self._looks)
        else:
            self.run(what)
