"""Kernels that find their arrays by address, and calls of them that threads share."""

from __future__ import annotations

import fcntl
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fp3o.envs.native import pool
from fp3o.envs.native.compiled import cache_folder
from fp3o.envs.native.intrinsics import LANES, lowest, within
from fp3o.envs.native.pool import SharedRanges
from fp3o.envs.native.ranges import CFunc, Kernel, Ranges, read

ROW = np.dtype([("age", np.float32), ("seen", np.int16)], align=True)


class Inner(NamedTuple):
    scale: int
    odd: bool
    grid: Any  # [2, 3, N] float64


class Data(NamedTuple):
    rows: Any  # [N] ROW
    inner: Inner
    workers: Any  # [N] int8


@Kernel
def grow(address: Any, what: int, worker: int, start: int, stop: int) -> int:
    data: Data = read(address)
    inner = data.inner
    for n in range(start, stop):
        data.rows[n].age += np.float32(what * inner.scale)
        data.rows[n].seen = inner.grid.shape[1] if inner.odd else -1
        inner.grid[1, 2, n] = inner.grid[0, 1, n] + n
        data.workers[n] = worker
    return stop - start


@Kernel
def linger(address: Any, what: int, worker: int, start: int, stop: int) -> int:
    data: Data = read(address)
    for _ in range(what):
        for n in range(start, stop):
            data.rows[n].age += np.float32(1.0)
    return 0


def make(slots: int, odd: bool = True) -> Data:
    grid = np.arange(6.0 * slots).reshape(2, 3, slots)
    return Data(np.zeros(slots, ROW), Inner(3, odd, grid), np.full(slots, -1, np.int8))


@pytest.mark.parametrize(("parts", "threads"), [(1, 1), (3, 1), (3, 2), (3, 3), (7, 5), (2, 8)])
def test_a_kernel_reads_and_writes_the_arrays_it_is_given(parts: int, threads: int) -> None:
    data, untouched = make(7), make(7)
    bounds = 7 * np.arange(parts + 1) // parts
    ranges = SharedRanges(grow, data, bounds, threads)
    ranges.share(5)
    np.testing.assert_array_equal(data.rows["age"], np.full(7, 15, np.float32))
    assert (data.rows["seen"] == 3).all()
    assert ((data.workers >= 0) & (data.workers < threads)).all()
    untouched.inner.grid[1, 2] = untouched.inner.grid[0, 1] + np.arange(7)
    np.testing.assert_array_equal(data.inner.grid, untouched.inner.grid)
    assert ranges.run(-5, 2) == 5
    assert data.rows["age"].tolist() == [15.0] * 2 + [0.0] * 5
    assert ranges.run(-5, stop=2) == 2
    assert not data.rows["age"].any()
    assert not data.workers.any()


def test_every_part_is_run_once_whoever_calls() -> None:
    """By three threads of Python at a time; some parts last longer than the caller stays awake."""

    def calls(slots: int) -> float:
        data = make(slots)
        ranges = SharedRanges(grow, data, np.arange(slots + 1), 4)
        for _ in range(200):
            ranges.share(1)
        long = make(2000)
        SharedRanges(linger, long, np.array([0, 1900, 2000]), 2).share(1000)
        assert (long.rows["age"] == 1000).all()
        assert (data.rows["age"] == 600).all()
        return float(data.rows["age"].sum())

    with ThreadPoolExecutor(3) as callers:
        assert list(callers.map(calls, (1, 5, 40))) == [600.0, 3000.0, 24000.0]


def test_only_threads_of_a_call_work_for_it() -> None:
    """Also if others were woken for the call before it and come late: each has memory of its own, and no other."""
    many, few = make(40), make(40)
    all_of_them = SharedRanges(grow, many, np.arange(41), 12)
    two_of_them = SharedRanges(grow, few, np.arange(41), 2)
    for _ in range(300):
        all_of_them.share(0)
        two_of_them.share(0)
        assert few.workers.max() < 2
    assert many.workers.max() < 12


def test_a_forked_process_has_threads_of_its_own() -> None:
    """Also if another thread was in a call, whose lock nobody gives back there."""
    data = make(4)
    ranges = SharedRanges(grow, data, np.arange(5), 2)
    ranges.share(1)
    with pool.pool().lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forks beside threads
        child = os.fork()
        if not child:
            signal.alarm(20)
            ranges.share(1)
            os._exit(0 if (data.rows["age"] == 6).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_numbers_of_a_tuple_are_its_own() -> None:
    even = make(2, odd=False)
    Ranges(grow, even, 2).run(1)
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
    Ranges(Kernel(grow.function), data, 3).run(1)
    assert len(waited) == 1
    assert (data.rows["age"] == 3).all()


def test_arrays_with_gaps_are_refused() -> None:
    data = make(4)
    with pytest.raises(ValueError, match="contiguous"):
        Ranges(grow, data._replace(rows=np.zeros(8, ROW)[::2]), 4)


def test_numbers_that_are_no_integers_are_refused() -> None:
    data = make(4)
    with pytest.raises(TypeError, match=r"integers only: 0\.5"):
        Ranges(grow, data._replace(inner=data.inner._replace(scale=0.5)), 4)  # type: ignore[arg-type]


class Cloud(NamedTuple):
    x: Any  # [2 · LANES] float32
    y: Any
    limits: Any
    found: Any  # [3, LANES] int64, by start: one limit for all, one each, the first of these


@Kernel
def look_around(address: Any, what: int, worker: int, start: int, stop: int) -> int:
    cloud: Cloud = read(address)
    x, y = np.float32(0.5), np.float32(-0.25)
    for first in range(start, stop):
        cloud.found[0, first] = within(cloud.x, cloud.y, first, x, y, np.float32(0.5))
        cloud.found[1, first] = within(cloud.x, cloud.y, first, x, y, cloud.limits)
        cloud.found[2, first] = lowest(first, cloud.found[1, first] | 1 << 31)
    return 0


def test_points_within_a_distance_are_those_that_numpy_finds() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.uniform(-1, 1, (2, 2 * LANES)).astype(np.float32)
    limits = generator.uniform(-0.5, 2, 2 * LANES).astype(np.float32)
    x[::7] = np.nan
    limits[5] = (x[5] - np.float32(0.5)) ** 2 + (y[5] + np.float32(0.25)) ** 2  # at the limit is not within it
    cloud = Cloud(x, y, limits, np.zeros((3, LANES), np.int64))
    Ranges(look_around, cloud, LANES).run(0)
    square = (x - np.float32(0.5)) ** 2 + (y + np.float32(0.25)) ** 2
    for first in range(LANES):
        for limit, found in ((np.float32(0.5), cloud.found[0, first]), (limits, cloud.found[1, first])):
            near = np.flatnonzero((square < limit)[first : first + LANES])
            assert found == sum(1 << int(place) for place in near)
        assert cloud.found[2, first] == first + (near[0] if len(near) else LANES - 1)
