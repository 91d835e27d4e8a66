"""The progress of all jobs of a sweep in one view: a line a minute for each job that trains, and one for the whole."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fp3o.progress import duration

EVERY = 60.0
"""Seconds between two views."""
WINDOW = 10
"""Views from which the rate, and so the time left, is taken."""
TAIL = 4096
"""Bytes at the end of a log that are read: several of its lines."""
_STEPS = re.compile(r"^(\S+) [0-9a-f]{10} (seeds \S+: ([\d,]+) of ([\d,]+) steps .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """A job's last line of progress."""

    text: str
    share: float
    """Of its steps that is done."""


def last_line(log: Path) -> Seen | None:
    """What the end of a job's log says; None: nothing yet (it starts or compiles)."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            found = _STEPS.findall(stream.read().decode(errors="replace"))
    except FileNotFoundError:  # It is being started again: Snakemake deletes the log before.
        return None
    if not found:
        return None
    cell, text, done, total = found[-1]
    return Seen(f"{cell} {text}", int(done.replace(",", "")) / int(total.replace(",", "")))


class Watch:
    """Prints the view until the process ends.

    work: of every job, by cell and seeds, in any unit; logs: where their logs are.
    """

    def __init__(
        self,
        work: Mapping[tuple[str, str], float],
        logs: Path,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.work, self.logs, self.stream, self.clock = work, logs, stream or sys.stderr, clock
        self.begun = time.time()  # Compared with the times of files.
        self.views: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    def start(self) -> None:
        """In the background: it must not hold up the end of Snakemake."""
        threading.Thread(target=self._repeat, daemon=True).start()

    def _repeat(self) -> None:
        while True:
            time.sleep(EVERY)
            for line in self.view():
                print(line, file=self.stream, flush=True)

    def view(self) -> list[str]:
        """A line for each job that trains, then one for the whole."""
        seen = {job: found for job in self.work if (found := self._seen(*job))}
        running = [found for found in seen.values() if found.share < 1]
        done = sum(self.work[job] * found.share for job, found in seen.items())
        self.views.append((self.clock(), done))
        (first, before), (now, _) = self.views[0], self.views[-1]
        whole = sum(self.work.values())
        left = "" if done <= before else f", about {duration((whole - done) * (now - first) / (done - before))} left"
        trained = len(seen) - len(running)
        share = f"{100 * done / whole:.0f} % of the work" if whole else ""
        counts = f"{trained} of {len(self.work)} jobs done, {len(running)} in training: {share}{left}"
        return [*(found.text for found in running), counts]

    def _seen(self, cell: str, seeds: str) -> Seen | None:
        """By its newest log of this sweep."""
        times = {path: _written(path) for path in (self.logs / cell).glob(f"*-s{seeds}.*.log")}
        newest = max(times, key=lambda path: times[path], default=None)
        return last_line(newest) if newest is not None and times[newest] >= self.begun else None


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # as above
        return 0.0
