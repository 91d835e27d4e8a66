"""Folder names: runs are in results/<suite>/{runs,scratch}/<cell>/<digest>/…, or below a folder the user chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fp3o.config.catalogue import checkout
from fp3o.config.resolve import Plan
from fp3o.config.seeds import seeds_text
from fp3o.config.suites import suite_names

# Files of every finished run; run.json is written last. Some runs have final.csv too (see `verify.needed`).
RUN_FILES = ("evaluations.csv", "iterations.csv", "checkpoint.safetensors", "run.json")


def run_directory(root: Path, plan: Plan, seed: int) -> Path:
    """The folder of a finished run; `root` is results/<suite>/runs or the folder of `--out`."""
    return root / plan.cell.id / plan.digest / f"seed-{seed}"


def scratch_directory(scratch_root: Path, plan: Plan, seeds: Sequence[int]) -> Path:
    """Where a seed block in training keeps its files. Never an output of a Snakemake rule: those get deleted."""
    return scratch_root / plan.cell.id / plan.digest / f"seeds-{seeds_text(seeds)}"


def finished_runs(root: Path) -> list[Path]:
    """The folders of the finished runs below results/<suite>/runs or the folder of `--out`."""
    return sorted(path.parent for path in root.glob(f"*/*/*/*/*/seed-*/{RUN_FILES[-1]}"))


def kept_directory(scratch_root: Path, plan: Plan) -> Path:
    """Where a run keeps what it was asked to beside its files: fp3o/training/callbacks/checkpoints.py."""
    return scratch_root / plan.cell.id / plan.digest / "kept"


def suite_root(name: str) -> Path:
    """results/<suite> in the checkout; of a suite of the user's own, or without a checkout, in the current folder.

    A relative path where the current folder is the checkout: Snakemake knows files by such names.
    """
    folder = Path("results") / name
    return _in_checkout(folder) if name in suite_names() else folder


def own_root() -> Path:
    """runs/ in the checkout: for runs that belong to no suite. Tracked neither by git nor by DVC."""
    return _in_checkout(Path("runs"))


def _in_checkout(path: Path) -> Path:
    home = checkout()
    return path if home is None or home == Path.cwd() else home / path
