"""Extra files that a run keeps on request: its last state, checkpoints every so many iterations, the best one.

<scratch_root>/<cell>/<digest>/kept/seeds-<block>.safetensors       the state that `fp3o continue` goes on from
<scratch_root>/<cell>/<digest>/kept/seed-<k>/step-<steps>.safetensors
<scratch_root>/<cell>/<digest>/kept/seed-<k>/best.safetensors       the policy with the best evaluation so far

Checkpoints have the format of a run's checkpoint.safetensors: `fp3o evaluate RUN --checkpoint FILE` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp3o.config import Plan, parse_seeds, seeds_text
from fp3o.config.domains import DOMAINS
from fp3o.runs import checkpoint
from fp3o.runs.atomic import disk_errors, write_atomically
from fp3o.training.callbacks import SCORE_COLUMNS, Record, episode_means

Tensors = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Keep:
    """What to keep, and where."""

    folder: Path
    state: bool = False
    every: int = 0
    """Iterations between checkpoints; 0: none."""
    best: bool = False


class Keeper:
    """Writes the extra files that `keep` asks for; none if it is None."""

    def __init__(self, keep: Keep | None, plan: Plan) -> None:
        self._keep = keep
        self._identity = {"cell": plan.cell.id, "digest": plan.digest}
        self._column = SCORE_COLUMNS[DOMAINS[plan.cell.domain].scoring.metric]
        self._best: dict[int, float | None] = {}

    def iterated(self, seed: int, iterations: int, env_steps: int, tensors: Tensors) -> None:
        """Call after every iteration of a seed. iterations: done so far; tensors: returns a checkpoint's tensors."""
        if self._keep is not None and self._keep.every and iterations % self._keep.every == 0:
            self._write(seed, f"step-{env_steps}", tensors(), {"env_steps": env_steps})

    def evaluated(self, seed: int, rows: Sequence[Record], tensors: Tensors) -> None:
        """Call after every evaluation of a seed; rows: its episodes. Of equally good policies the first is kept."""
        if self._keep is None or not self._keep.best:
            return
        value = episode_means(rows).get(self._column)
        if value is None:  # a game of wins that was neither won nor lost
            return
        if seed not in self._best:
            self._best[seed] = self._written(seed)
        best = self._best[seed]
        if best is None or value > best:
            self._best[seed] = value
            self._write(seed, "best", tensors(), {"env_steps": rows[0]["env_steps"], self._column: value})

    def finished(self, seeds: Sequence[int], resume: Path) -> None:
        """Call when all seeds are done, before their runs are published. resume: the file with the last state."""
        if self._keep is not None and self._keep.state:
            self._keep.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(state_path(self._keep.folder, seeds), resume.read_bytes())

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
        assert self._keep is not None
        return self._keep.folder / f"seed-{seed}" / f"{name}.safetensors"


def state_path(folder: Path, seeds: Sequence[int]) -> Path:
    """File for the last state of these seeds, which were trained together."""
    return folder / f"seeds-{seeds_text(seeds)}.safetensors"


def kept_states(folder: Path) -> dict[Path, tuple[int, ...]]:
    """The kept states in a folder, and the seeds of each."""
    found = sorted(folder.glob("seeds-*.safetensors"))
    return {path: parse_seeds(path.stem.removeprefix("seeds-")) for path in found}
