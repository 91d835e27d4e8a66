"""Run folders as training writes them, with scores of our choosing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
import yaml
from run_files import run_document
from run_files import write_run as finish_run

from fp3o import config
from fp3o.runs import layout, records

# This checkout's paper_figures/, whatever is installed.
sys.path.insert(0, str(Path(__file__).parents[2]))

ITERATION_COLUMNS = ("actor_loss", "critic_loss", "entropy", "clip_fraction", "explained_variance")


class WriteRun(Protocol):
    """Write the run of one seed of a cell."""

    def __call__(
        self,
        root: Path,
        cell: str,
        seed: int,
        score: float,
        *,
        suite: str | None = None,
        overrides: dict[str, config.Scalar] | None = None,
        changes: dict[str, Any] | None = None,
        final: Sequence[float] | None = None,
        evaluations: int = 24,
        columns: dict[str, Callable[[int], float]] | None = None,
    ) -> Path: ...


@pytest.fixture(scope="session")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped runs, results/<suite>/runs, as `dvc pull` would fetch them."""
    repository = Path(__file__).parents[2]

    def stored(digest: str) -> Path:
        return repository / "artifacts" / "files" / "md5" / digest[:2] / digest[2:]

    root = tmp_path_factory.mktemp("pulled")
    for stage in yaml.safe_load((repository / "dvc.lock").read_text())["stages"].values():
        (out,) = stage["outs"]
        for entry in json.loads(stored(out["md5"]).read_text()):
            link = root / out["path"] / entry["relpath"]
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(stored(entry["md5"]))
    return root


@pytest.fixture(scope="session")
def write_run() -> WriteRun:
    """A learning curve that rises to `score` and stays there for the last twelve evaluations, 32 episodes each."""

    def write(
        root: Path,
        cell: str,
        seed: int,
        score: float,
        *,
        suite: str | None = None,
        overrides: dict[str, config.Scalar] | None = None,
        changes: dict[str, Any] | None = None,
        final: Sequence[float] | None = None,
        evaluations: int = 24,
        columns: dict[str, Callable[[int], float]] | None = None,
    ) -> Path:
        chosen = config.load_suite(suite) if suite else None
        plan = config.resolve(config.Cell.parse(cell), overrides, chosen)
        folder = layout.run_directory(root, plan, seed)
        folder.mkdir(parents=True)
        wins, agents = cell.startswith("smac/"), 2 if cell.startswith("mpe/") else 1
        batch = plan.settings.rollout_length * plan.settings.rollout_threads
        stride = max(1, plan.iterations // max(1, evaluations))
        rows: list[str] = [",".join(records.EVALUATION_COLUMNS)]
        for place in range(evaluations):
            iteration = place * stride
            level = score * min(1.0, place / (evaluations - 12)) if evaluations > 12 else score
            for episode in range(plan.settings.evaluation_episodes):
                if wins:  # level in percent, on the grid of 32 episodes
                    won = str(int(episode < round(level * 32 / 100)))
                    rows.append(f"{iteration * batch},{iteration},{episode},{20 * level / 100:.6g},{0:.6g},{won},60")
                else:
                    value = (level + (episode - 15.5) * 0.25) * agents
                    rows.append(f"{iteration * batch},{iteration},{episode},{value:.6g},{value / agents:.6g},,25")
        # A run that diverged before its first evaluation has an empty file.
        (folder / records.EVALUATIONS).write_text("\n".join(rows) + "\n" if evaluations else "")
        extra = columns or {}
        lines = [",".join(("iteration", "env_steps", *ITERATION_COLUMNS, *extra))]
        for iteration in range(1, 41):
            numbers = [iteration, iteration * batch, -0.01, 0.5, 1.4 - iteration / 100, 0.1, 0.7 + seed / 1e5]
            lines.append(",".join(f"{number:.6g}" for number in [*numbers, *(f(iteration) for f in extra.values())]))
        (folder / records.ITERATIONS).write_text("\n".join(lines) + "\n")
        diverged = (changes or {}).get("status") == "diverged"
        count = plan.settings.final_episodes
        if count > plan.settings.evaluation_episodes and not diverged:
            # As many episodes as the cell asks for: the given ones over and over, or like the last evaluation.
            spread = 8 * (np.arange(count) - (count - 1) / 2) / count
            final = (score + spread if final is None else np.resize(final, count)).tolist()
        if final is not None:
            table = [",".join(records.FINAL_COLUMNS)]
            table += [f"{place},{value * agents:.6g},{value:.6g},,25" for place, value in enumerate(final)]
            (folder / records.FINAL).write_text("\n".join(table) + "\n")
        (folder / records.CHECKPOINT).write_bytes(f"weights of seed {seed}".encode())
        document = run_document(plan, seed, folder, **(changes or {}))
        finish_run(folder, document)
        return folder

    return write


def scores_around(centre: float, spread: float, n: int = 5, seed: int = 0) -> list[float]:
    """n numbers with exactly this mean and standard deviation (ddof = 1)."""
    raw = np.random.default_rng(seed).standard_normal(n)
    return (centre + spread * (raw - raw.mean()) / raw.std(ddof=1)).tolist()


@pytest.fixture(scope="session", name="scores_around")
def _scores_around() -> Callable[..., list[float]]:
    return scores_around
