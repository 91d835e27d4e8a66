"""A signal to Snakemake's own process stops the whole sweep.

Ctrl-C in a terminal reaches every process. `kill`, a script or a service manager may signal Snakemake alone, which then
waits for its jobs to end by themselves; a training may take days. So the jobs are asked to stop, too.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import psutil

from fp3o.runs.interrupt import ASKED

EVERY = 0.25
"""Seconds between two looks: whether a signal came, and then, whether another job was just being started."""
AGAIN = 5.0
"""Seconds after which a job that still runs is asked again: on a GPU host four of seven went on after one signal."""


class Stopping:
    """Asks the running jobs to stop once SIGINT or SIGTERM came, and does what Snakemake's own handlers do."""

    def __init__(self) -> None:
        self._snakemakes: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._received: list[int] = []
        self._asked: dict[psutil.Process, float] = {}
        self._inherited: set[psutil.Process] = set()

    def start(self) -> None:
        """From the main thread, once Snakemake has installed its handlers."""
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):  # One that is ignored, as by a script's background job, stays so.
                self._snakemakes[number] = handler
                signal.signal(number, self._receive)
        self._inherited.update(psutil.Process().children())  # Of a script that ended in `exec snakemake`: not ours.
        threading.Thread(target=self._repeat, daemon=True).start()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        if number == signal.SIGINT:  # Raises KeyboardInterrupt, which must be here, in the main thread.
            self._snakemakes[number](number, frame)

    def _repeat(self) -> None:
        while not self._received:
            time.sleep(EVERY)
        print("stopping: the jobs save their states and end; the same command goes on", file=sys.stderr, flush=True)
        if signal.SIGTERM in self._received:
            # Not in `_receive`: it takes a lock that the main thread may hold.
            self._snakemakes[signal.SIGTERM](signal.SIGTERM, None)
        while True:
            self._ask_jobs()
            time.sleep(EVERY)

    def _ask_jobs(self) -> None:
        """Snakemake's children are shells, which would not wait for their commands; theirs are the jobs' commands."""
        for shell in set(psutil.Process().children()) - self._inherited:
            with contextlib.suppress(psutil.Error):
                for job in shell.children():
                    if time.monotonic() > self._asked.get(job, -AGAIN) + AGAIN:
                        job.send_signal(ASKED)
                        self._asked[job] = time.monotonic()
