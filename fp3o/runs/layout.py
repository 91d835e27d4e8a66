"""Where runs lie: results/<suite>/{runs,scratch}/<cell>/<digest>/…, or a folder of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fp3o.config.resolution import Plan
from fp3o.config.seeds import seeds_text
from fp3o.config.sources import checkout

# Of every run; run.json is written last. Where the settings ask for it, final.csv comes before the checkpoint.
RUN_FILES = ("evaluations.csv", "iterations.csv", "checkpoint.safetensors", "run.json")


def run_directory(root: Path, plan: Plan, seed: int) -> Path:
    """Where a finished run lies; `root` is results/<suite>/runs or the folder of `--out`."""
    return root / plan.cell.id / plan.digest / f"seed-{seed}"


def scratch_directory(scratch_root: Path, plan: Plan, seeds: Sequence[int]) -> Path:
    """Where a run in progress keeps its state; never a declared output."""
    return scratch_root / plan.cell.id / plan.digest / f"seeds-{seeds_text(seeds)}"


def suite_root(name: str) -> Path:
    """results/<suite> of the checkout (of the current folder where there is none): no suite touches another's tables.

    Relative where it can be, because the workflow names its files so.
    """
    return _in_checkout(Path("results") / name)


def own_root() -> Path:
    """runs/ of the checkout: for what is no run of a suite. Neither git nor DVC looks there."""
    return _in_checkout(Path("runs"))


def _in_checkout(path: Path) -> Path:
    home = checkout()
    return path if home is None or home == Path.cwd() else home / path
