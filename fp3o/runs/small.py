"""Runs saved small: CSV files compressed, no checkpoint; everything that reads numbers reads them like any other run.

<cell>/<digest>/seed-<k>/       evaluations.csv.xz iterations.csv.xz [final.csv.xz] run.json

run.json is the trainer's own, so its checksums are those of the plain files and of the checkpoint that is not there.
That iterations.csv is compressed tells such a run from one that has lost its checkpoint.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path

from fp3o.runs import records


def is_small(folder: Path) -> bool:
    """Whether the run in a folder was saved without its checkpoint."""
    plain = folder / records.ITERATIONS
    return not plain.exists() and records.compressed(plain).is_file()


def has(folder: Path, name: str) -> bool:
    """Whether a run has one of its files, plain or compressed, or does without it by design."""
    path = folder / name
    return path.is_file() or records.compressed(path).is_file() or (name == records.CHECKPOINT and is_small(folder))


def packed(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """A run's files (name → content) as they are saved small."""
    tables = {name: content for name, content in contents.items() if name.endswith(".csv")}
    files = {n + records.COMPRESSED: lzma.compress(c, preset=lzma.PRESET_EXTREME | 9) for n, c in tables.items()}
    return {**files, records.RUN: contents[records.RUN]}


def without_checkpoint(folder: Path, cell: str, seed: int) -> str:
    """Why a small run cannot be played, and what to do."""
    above = folder.absolute().parents[5:7]  # results/<suite>/runs
    suite = f" --suite {above[1].name}" if len(above) == 2 and above[0].name == "runs" else ""
    command = f"fp3o train {cell}{suite} --seeds {seed} --replace"
    return f"{folder} was saved without its checkpoint; `{command}` trains it again"
