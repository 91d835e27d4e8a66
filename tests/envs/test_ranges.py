"""Kernels that find their arrays by address, and run alone or in threads."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fp3o.envs.compiled import cache_folder
from fp3o.envs.ranges import CFunc, Kernel, Ranges, read

ROW = np.dtype([("age", np.float32), ("seen", np.int16)], align=True)


class Inner(NamedTuple):
    scale: int
    odd: bool
    grid: Any  # [2, 3, N] float64


class Data(NamedTuple):
    rows: Any  # [N] ROW
    inner: Inner
    threads: Any  # [N] int8


@Kernel
def grow(address: Any, what: int, thread: int, start: int, stop: int) -> int:
    data: Data = read(address)
    inner = data.inner
    for n in range(start, stop):
        data.rows[n].age += np.float32(what * inner.scale)
        data.rows[n].seen = inner.grid.shape[1] if inner.odd else -1
        inner.grid[1, 2, n] = inner.grid[0, 1, n] + n
        data.threads[n] = thread
    return stop - start


def make(slots: int, odd: bool = True) -> Data:
    grid = np.arange(6.0 * slots).reshape(2, 3, slots)
    return Data(np.zeros(slots, ROW), Inner(3, odd, grid), np.full(slots, -1, np.int8))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_kernel_reads_and_writes_the_arrays_it_is_given(threads: int) -> None:
    data, untouched = make(7), make(7)
    bounds = 7 * np.arange(threads + 1) // threads
    ranges = Ranges(grow, data, bounds)
    ranges.run(5)
    np.testing.assert_array_equal(data.rows["age"], np.full(7, 15, np.float32))
    assert (data.rows["seen"] == 3).all()
    np.testing.assert_array_equal(data.threads, np.repeat(np.arange(threads), np.diff(bounds)))
    untouched.inner.grid[1, 2] = untouched.inner.grid[0, 1] + np.arange(7)
    np.testing.assert_array_equal(data.inner.grid, untouched.inner.grid)
    assert ranges.run_alone(-5) == 7
    assert not data.rows["age"].any()
    assert not data.threads.any()


def test_numbers_of_a_tuple_are_its_own() -> None:
    even = make(2, odd=False)
    Ranges(grow, even, np.array([0, 2])).run(1)
    assert (even.rows["seen"] == -1).all()
    assert len(grow.compiled) == 1


def test_of_several_processes_one_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it compiles, nobody else can take the lock."""
    compiled = CFunc.compile
    waited = []

    def compile_watched(self: Any) -> None:
        (lock,) = Path(cache_folder(Path(__file__).parent)).glob("watched.lock")
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                waited.append(lock)
        compiled(self)

    monkeypatch.setattr(CFunc, "compile", compile_watched)
    monkeypatch.setattr(grow.function, "__name__", "watched")  # a lock that no other test takes at the same time
    data = make(3)
    Ranges(Kernel(grow.function), data, np.array([0, 3])).run(1)
    assert len(waited) == 1
    assert (data.rows["age"] == 3).all()


def test_arrays_with_gaps_are_refused() -> None:
    data = make(4)
    with pytest.raises(ValueError, match="contiguous"):
        Ranges(grow, data._replace(rows=np.zeros(8, ROW)[::2]), np.array([0, 4]))


def test_numbers_that_are_no_integers_are_refused() -> None:
    data = make(4)
    with pytest.raises(TypeError, match=r"integers only: 0\.5"):
        Ranges(grow, data._replace(inner=data.inner._replace(scale=0.5)), np.array([0, 4]))  # type: ignore[arg-type]
