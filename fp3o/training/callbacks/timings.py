"""`fp3o train --timings`: the seconds of every iteration by phase, as a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fp3o.runs.records import CsvLog
from fp3o.training.callbacks import PHASES, Callback


class Timings(Callback):
    """Overwrites the file; one row per iteration of this process: iteration, then seconds of every phase."""

    def __init__(self, path: Path) -> None:
        self._log = CsvLog(path, ("iteration", *(f"{phase}_s" for phase in PHASES)))

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        self._log.append([{"iteration": iteration, **{f"{phase}_s": seconds[phase] for phase in PHASES}}])
        self._log.flush()

    def end(self) -> None:
        self._log.close()
