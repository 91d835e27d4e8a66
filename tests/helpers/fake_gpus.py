"""A stand-in for nvidia-smi: GPUs of a machine that has none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ASKED = "asked"
"""In the stand-in's folder: a line for every question it was asked."""

_SOURCE = """
import sys, time

with open({asked!r}, "a") as file:
    print(*sys.argv[1:], file=file)
time.sleep({seconds})
assert "--format=csv,noheader,nounits" in sys.argv
(query,) = [given.partition("=")[2].split(",") for given in sys.argv if given.startswith("--query-gpu=")]
for device in {devices!r}:
    print(", ".join(device[name] for name in query))
sys.exit({code})
"""


def device(number: int, memory: object, parted: str = "Disabled") -> dict[str, str]:
    """What nvidia-smi says about a GPU; memory in MiB."""
    uuid = f"GPU-{number}a1b2c3d-0000-1111-2222-333344445555"
    return {"index": str(number), "uuid": uuid, "mig.mode.current": parted, "memory.total": str(memory)}


def fake_nvidia_smi(folder: Path, devices: Sequence[dict[str, str]], code: int = 0, seconds: float = 0.0) -> None:
    """Put it into the folder, which is to be in PATH. It answers after so many seconds, and ends with this code."""
    folder.mkdir(exist_ok=True)
    source = folder / "nvidia_smi.py"
    source.write_text(_SOURCE.format(asked=str(folder / ASKED), seconds=seconds, devices=list(devices), code=code))
    command = folder / "nvidia-smi"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{source}" "$@"\n')
    command.chmod(0o755)
