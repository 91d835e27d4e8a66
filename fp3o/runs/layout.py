"""The identity of a run, and where its files are: the one place that spells these paths.

Runs are in results/<suite>/{runs,scratch}/<cell>/<digest>/…, or below a folder the user chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fp3o.config.catalogue import checkout
from fp3o.config.resolve import Plan
from fp3o.config.seeds import seeds_text
from fp3o.config.suites import is_shipped

# Files of every finished run; run.json is written last. Some runs have final.csv too (see `verify.needed`).
RUN_FILES = ("evaluations.csv", "iterations.csv", "checkpoint.safetensors", "run.json")


class RunId(NamedTuple):
    """Identifies a run; the digest stands for settings, options, protocol version and engine revision."""

    cell: str
    digest: str
    seed: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RunId:
        """The run that a run.json, or an entry of a manifest, says it is."""
        return cls(document["cell"], document["digest"], document["seed"])

    @classmethod
    def at(cls, folder: Path | str) -> RunId:
        """The run that belongs into a folder `…/<cell>/<digest>/seed-<k>`; seed −1 where that is not its name."""
        parts = Path(folder).parts
        seed = parts[-1].removeprefix("seed-")
        return cls("/".join(parts[-6:-2]), parts[-2], int(seed) if seed.isdecimal() else -1)

    @property
    def path(self) -> str:
        """Its folder below results/<suite>/runs or the folder of `--out`, as listings spell it, too."""
        return f"{self.cell}/{self.digest}/seed-{self.seed}"

    @property
    def key(self) -> str:
        """Its key in a manifest."""
        return f"{self.digest}-s{self.seed}"


def run_directory(root: Path, plan: Plan, seed: int) -> Path:
    """The folder of a finished run; `root` is results/<suite>/runs or the folder of `--out`."""
    return root / RunId(plan.cell.id, plan.digest, seed).path


def document_path(suite: str, run: RunId) -> Path:
    """run.json of a suite's run, which exists if and only if the run is finished."""
    return suite_root(suite) / "runs" / run.path / RUN_FILES[-1]


def scratch_directory(scratch_root: Path, plan: Plan, seeds: Sequence[int]) -> Path:
    """Where a seed block in training keeps its files. Never an output of a Snakemake rule: those get deleted."""
    return scratch_root / plan.cell.id / plan.digest / f"seeds-{seeds_text(seeds)}"


def finished_runs(root: Path) -> list[Path]:
    """The folders of the finished runs below results/<suite>/runs or the folder of `--out`."""
    return sorted(path.parent for path in root.glob(f"*/*/*/*/*/seed-*/{RUN_FILES[-1]}"))


def runs_below(root: Path) -> list[Path]:
    """The folders of finished runs anywhere below a folder, or that folder itself; replaced runs do not count."""
    if (root / RUN_FILES[-1]).is_file():
        return [root]
    top = root / "runs" if (root / "runs").is_dir() else root
    return finished_runs(top) or sorted(
        path.parent
        for path in root.rglob(f"seed-*/{RUN_FILES[-1]}")
        if not {"scratch", "replaced", "replacing"} & set(path.relative_to(root).parts)
    )


def kept_directory(scratch_root: Path, plan: Plan) -> Path:
    """Where a run keeps what it was asked to beside its files: fp3o/training/callbacks/checkpoints.py."""
    return scratch_root / plan.cell.id / plan.digest / "kept"


def suite_root(name: str) -> Path:
    """results/<suite> in the checkout; of a suite of the user's own, or without a checkout, in the current folder.

    A relative path where the current folder is the checkout: Snakemake knows files by such names.
    """
    folder = Path("results") / name
    return _in_checkout(folder) if is_shipped(name) else folder


def own_root() -> Path:
    """runs/ in the checkout: for runs that belong to no suite. Tracked neither by git nor by DVC."""
    return _in_checkout(Path("runs"))


def _in_checkout(path: Path) -> Path:
    home = checkout()
    return path if home is None or home == Path.cwd() else home / path
