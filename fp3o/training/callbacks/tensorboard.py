"""All numbers of a run as TensorBoard events, one folder per seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp3o.errors import optional_module
from fp3o.training.callbacks import Numbers, Record

if TYPE_CHECKING:
    from fp3o.runs.records import Value


class TensorBoard(Numbers):
    """Writes every column of iterations.csv and the mean of every evaluation to `<folder>/seed-<k>`, by steps.

    Needs the tensorboard package.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        advice = "TensorBoard events need the tensorboard package: pip install tensorboard"
        self._writer_class = optional_module("torch.utils.tensorboard", advice).SummaryWriter
        self._writers: dict[int, Any] = {}

    def end(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _numbers(self, seed: int, steps: Value, group: str, values: Record) -> None:
        if seed not in self._writers:
            # purge_step: events a killed process wrote beyond the resume point disappear from the charts.
            self._writers[seed] = self._writer_class(str(self.folder / f"seed-{seed}"), purge_step=steps)
        for name, value in values.items():
            if value is not None:
                self._writers[seed].add_scalar(f"{group}/{name}", value, steps)
