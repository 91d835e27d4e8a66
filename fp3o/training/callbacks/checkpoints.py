"""Extra files that a run keeps on request: its last state, checkpoints every so many iterations, the best one.

<scratch_root>/<cell>/<digest>/kept/seeds-<block>.safetensors       the state that `fp3o continue` goes on from
<scratch_root>/<cell>/<digest>/kept/seed-<k>/step-<steps>.safetensors
<scratch_root>/<cell>/<digest>/kept/seed-<k>/best.safetensors       the policy with the best evaluation so far

Checkpoints have the format of a run's checkpoint.safetensors: `fp3o evaluate RUN --checkpoint FILE` plays them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fp3o.config import Plan, parse_seeds, seeds_text
from fp3o.config.domains import DOMAINS
from fp3o.runs import checkpoint
from fp3o.runs.atomic import disk_errors, write_atomically
from fp3o.runs.layout import kept_directory
from fp3o.training.callbacks import SCORE_COLUMNS, Callback, Record, Tensors, episode_means


class ExtraCheckpoints(Callback):
    """Keeps the last state, a checkpoint after every so many iterations (0: none) and the best one, as asked for."""

    def __init__(
        self, plan: Plan, scratch_root: Path, *, state: bool = False, every: int = 0, best: bool = False
    ) -> None:
        self.folder = kept_directory(scratch_root, plan)
        self._state, self._every, self._keeps_best = state, every, best
        self._identity = {"cell": plan.cell.id, "digest": plan.digest}
        self._column = SCORE_COLUMNS[DOMAINS[plan.cell.domain].scoring.metric]
        self._best: dict[int, float | None] = {}

    def updated_policy(self, seed: int, iterations: int, env_steps: int, tensors: Tensors) -> None:
        if self._every and iterations % self._every == 0:
            self._write(seed, f"step-{env_steps}", tensors(), {"env_steps": env_steps})

    def evaluated_policy(self, seed: int, records: Sequence[Record], tensors: Tensors) -> None:
        """Of equally good policies the first is kept."""
        if not self._keeps_best:
            return
        value = episode_means(records).get(self._column)
        if value is None:  # a game of wins that was neither won nor lost
            return
        if seed not in self._best:
            self._best[seed] = self._written(seed)
        best = self._best[seed]
        if best is None or value > best:
            self._best[seed] = value
            self._write(seed, "best", tensors(), {"env_steps": records[0]["env_steps"], self._column: value})

    def finished(self, seeds: Sequence[int], state: Path) -> None:
        if self._state:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / f"seeds-{seeds_text(seeds)}.safetensors", state.read_bytes())

    def _write(self, seed: int, name: str, tensors: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        path = self._path(seed, name)
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(path, tensors, {**self._identity, "seed": seed, **more})

    def _written(self, seed: int) -> float | None:
        """Score of the best checkpoint on disk, which a process before the resume wrote; None if there is none."""
        path = self._path(seed, "best")
        return float(checkpoint.load(path)[1][self._column]) if path.exists() else None

    def _path(self, seed: int, name: str) -> Path:
        return self.folder / f"seed-{seed}" / f"{name}.safetensors"


def kept_states(folder: Path) -> dict[Path, tuple[int, ...]]:
    """The kept states in a folder, and the seeds of each."""
    found = sorted(folder.glob("seeds-*.safetensors"))
    return {path: parse_seeds(path.stem.removeprefix("seeds-")) for path in found}
