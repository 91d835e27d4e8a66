"""All numbers of a run as runs of Weights & Biases, one per seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp3o.errors import UserError, optional_module
from fp3o.training.callbacks import Numbers, Record

if TYPE_CHECKING:
    from fp3o.runs.records import Value


class WeightsAndBiases(Numbers):
    """Logs all columns of iterations.csv and the means of every evaluation; the axis is environment steps.

    Each seed is a run of its own; the seeds form a group.

    Needs the wandb package. Its environment variables count: WANDB_MODE=offline writes to the folder and sends
    nothing, WANDB_PROJECT names another project.
    """

    def __init__(
        self, folder: str | Path, name: str, config: Mapping[str, Any] | None = None, project: str | None = None
    ) -> None:
        """folder: for the files of wandb. name: of the group of runs. config: settings to be shown with them."""
        self.folder, self.name, self.project = Path(folder), name, project
        self._config = dict(config or {})
        self._wandb = _package()
        self._runs: dict[int, Any] = {}

    def end(self) -> None:
        for run in self._runs.values():
            run.finish()
        self._runs.clear()

    def _numbers(self, seed: int, steps: Value, group: str, values: Record) -> None:
        if seed not in self._runs:
            self._runs[seed] = self._begin(seed)
        # Iterations repeated after a kill are logged twice: wandb drops the second, which has the same values.
        shown = {f"{group}/{name}": value for name, value in values.items() if value is not None}
        self._runs[seed].log(shown, step=steps)

    def _begin(self, seed: int) -> Any:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(f"{self.folder.absolute()}/{self.name}/{seed}".encode()).hexdigest()[:16]
        return self._wandb.init(
            project=self.project,
            group=self.name,
            name=f"{self.name} seed {seed}",
            id=key,  # the same after a resume, so that the log goes on
            resume="allow",
            reinit="create_new",  # the seeds of a block are logged side by side
            dir=str(self.folder),
            config={**self._config, "seed": seed},
        )


def _package() -> Any:
    advice = "logging to Weights & Biases needs the wandb package: pip install wandb"
    package = optional_module("wandb", advice)
    if not hasattr(package, "init"):  # A folder of logs named wandb can be imported, too.
        raise UserError(advice)
    return package
