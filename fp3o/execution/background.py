"""Evaluations that run while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from fp3o.envs.interface import BatchEnv, Episode
from fp3o.machine import processors
from fp3o.rollout.evaluation import Watch

Episodes = list[list[Episode]]


class Background:
    """A thread for evaluations during training, where that pays; elsewhere they are played at once.

    It pays where the simulator works on several threads that release the interpreter's lock: on 16 cores the
    evaluations of five seeds of HalfCheetah took a tenth of the time. It goes on during updates, which take one
    processor at most, and is `paused` during rollouts, which need them all. Numbers are the same, except after an
    evaluation that is not finite: its seed is marked as diverged, and stops learning, as soon as that is seen.
    """

    def __init__(self, env: BatchEnv, threads: int, on_gpu: bool) -> None:
        """env: pays if it has `own_threads`; of a training on the battle engine evaluations take 2 % of the time.
        threads: of the simulators; on_gpu: policies act there."""
        self.pays = env.own_threads and threads != 1 and processors() > 1
        self._warm = self._closed = False
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._thread = ThreadPoolExecutor(1, initializer=partial(torch.set_num_threads, 1))
        self._on_gpu = on_gpu
        self._stream: torch.cuda.Stream | None = None

    def simulator_threads(self, threads: int) -> int:
        """For the evaluation's simulator, where training has so many (0: as many as processors)."""
        return max(1, (threads or processors()) - 1) if self.pays else threads  # one is left for the update

    def start(self, play: Callable[[Watch], Episodes], rehearse: Callable[[], None]) -> Future[Episodes]:
        """play: `Evaluator.run`; rehearse: called once before, as programs are compiled on the main thread."""
        if not self.pays:
            played: Future[Episodes] = Future()
            played.set_result(play(self._go_on))
            return played
        if not self._warm:
            rehearse()
            self._warm = True
        if self._on_gpu:
            # A stream of its own, or acting would wait for all that training has asked of the GPU.
            self._stream = self._stream or torch.cuda.Stream()
            self._stream.wait_stream(torch.cuda.current_stream())
        return self._thread.submit(self._play, play)

    def _play(self, play: Callable[[Watch], Episodes]) -> Episodes:
        with torch.cuda.stream(self._stream):
            return play(self._go_on)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Evaluations wait inside, from their next step on."""
        self._goes_on.clear()
        try:
            yield
        finally:
            self._goes_on.set()

    def close(self) -> None:
        """Give up what is still being played."""
        self._closed = True
        self._goes_on.set()  # a second Ctrl-C may have left it paused
        self._thread.shutdown()

    def _go_on(self, *_: Any) -> None:
        self._goes_on.wait()
        if self._closed:
            raise CancelledError
