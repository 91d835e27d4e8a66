"""What a user may ask of how training is computed. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Device = Literal["auto", "cpu", "cuda"]
Path = Literal["auto", "eager", "compiled"]


@dataclass(frozen=True)
class Compute:
    """The options --device, --path, --threads and --allow-path-change of `fp3o train`."""

    device: Device = "auto"
    """Of updates; auto: a GPU if there is one."""
    path: Path = "auto"
    """auto: compiled where a compiler exists and the run is long enough to repay it."""
    threads: int = 1
    """CPU threads of the simulators and, with two or more, of eager updates; 0: as many as pay."""
    allow_path_change: bool = False
    """Resume although device, path or torch version changed; no longer exact to the bit."""


AUTO = Compute()
