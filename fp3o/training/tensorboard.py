"""All numbers of a run as TensorBoard events, one folder per seed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp3o.errors import UserError
from fp3o.training.callbacks import Callback, Record, episode_means

if TYPE_CHECKING:
    from fp3o.runs.records import Value


class TensorBoard(Callback):
    """Writes every column of iterations.csv and the mean of every evaluation to `<folder>/seed-<k>`, by steps.

    Needs the tensorboard package.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._writer_class = _summary_writer()
        self._writers: dict[int, Any] = {}

    def iteration(self, seed: int, record: Record) -> None:
        values = {name: value for name, value in record.items() if name not in ("iteration", "env_steps")}
        self._write(seed, record["env_steps"], "training", values)

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        self._write(seed, records[0]["env_steps"], "evaluation", episode_means(records))

    def end(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, seed: int, steps: Value, group: str, values: Mapping[str, Value]) -> None:
        if seed not in self._writers:
            # purge_step: events a killed process wrote beyond the resume point disappear from the charts.
            self._writers[seed] = self._writer_class(str(self.folder / f"seed-{seed}"), purge_step=steps)
        for name, value in values.items():
            if value is not None:
                self._writers[seed].add_scalar(f"{group}/{name}", value, steps)


def _summary_writer() -> Any:
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        raise UserError("TensorBoard events need the tensorboard package: pip install tensorboard") from None
