"""The rows of a run's CSV files, as a callback."""

from __future__ import annotations

from collections.abc import Sequence

from fp3o.training.callbacks import Callback, Record
from fp3o.training.run_files import RunFiles


class Records(Callback):
    """Writes iterations.csv, evaluations.csv and final.csv of every seed, in scratch until the run is published."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files

    def iteration(self, seed: int, record: Record) -> None:
        self._files.iterations[seed].append([record])

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        self._files.evaluations[seed].append(records)

    def final(self, seed: int, records: Sequence[Record]) -> None:
        self._files.write_final(seed, records)
