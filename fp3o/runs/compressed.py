"""Runs saved small: CSV files compressed, mostly no checkpoint; whatever reads numbers reads them like any other run.

<cell>/<digest>/seed-<k>/       evaluations.csv.xz iterations.csv.xz [final.csv.xz] [checkpoint.safetensors] run.json

run.json is the trainer's own, so its checksums are those of the plain files and of a checkpoint that may not be there.
That iterations.csv is compressed tells such a run from one that has lost its checkpoint.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path

from fp3o.runs import checkpoint_list, records
from fp3o.runs.layout import RunId


def lacks_checkpoint(folder: Path) -> bool:
    """Whether the run in a folder was saved without its checkpoint."""
    plain = folder / records.ITERATIONS
    return not (plain.exists() or (folder / records.CHECKPOINT).exists()) and records.compressed(plain).is_file()


def has(folder: Path, name: str) -> bool:
    """Whether a run has one of its files, plain or compressed, or does without it by design."""
    path = folder / name
    by_design = name == records.CHECKPOINT and lacks_checkpoint(folder)
    return path.is_file() or records.compressed(path).is_file() or by_design


def names(files: Iterable[str], checkpoint: bool) -> list[str]:
    """The names that a run's files have when saved small, with its checkpoint or without."""
    kept = [name for name in files if checkpoint or name != records.CHECKPOINT]
    return [name + records.COMPRESSED if name.endswith(".csv") else name for name in kept]


def packed(contents: Mapping[str, bytes], saved: Iterable[str]) -> dict[str, bytes]:
    """A run's files (name → content, plain) under the names they are saved as, compressed where the name says so."""
    return {
        name: contents[name] if name in contents else _compressed(contents[name.removesuffix(records.COMPRESSED)])
        for name in saved
    }


def _compressed(content: bytes) -> bytes:
    return lzma.compress(content, preset=lzma.PRESET_EXTREME | 9)


def without_checkpoint(folder: Path, cell: str, seed: int) -> str:
    """Why such a run cannot be played, the first other seed here that can, and how to make it playable."""
    above = folder.absolute().parents[5:7]  # results/<suite>/runs
    root = above[1] if len(above) == 2 and above[0].name == "runs" else None
    suite = f" --suite {root.name}" if root else ""
    command = f"fp3o train {cell}{suite} --seeds {seed} --replace"
    others = folder.absolute().parent.glob(f"seed-*/{records.CHECKPOINT}")
    seeds = [name for path in others if (name := path.parent.name.removeprefix("seed-")).isdecimal()]
    played = f" (seed {min(seeds, key=int)} has one)" if seeds else ""
    file = f"{RunId.at(folder).path}/{records.CHECKPOINT}"
    listed = root is not None and any(entry.file == file for entry in checkpoint_list.read(root).values())
    fetched = f"`fp3o pull --checkpoints {cell}{suite}` fetches it, " if listed else ""
    return f"{folder} was saved without its checkpoint{played}; {fetched}`{command}` trains it again"
