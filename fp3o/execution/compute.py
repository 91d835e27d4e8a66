"""What a user may ask of how training is computed; `fp3o train --help` shows these texts. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Device = Literal["auto", "cpu", "cuda"]
Path = Literal["auto", "eager", "compiled"]


@dataclass(frozen=True)
class Compute:
    """Where and how training is computed."""

    device: Device = "auto"
    """Where updates run; auto takes a GPU if there is one."""
    path: Path = "auto"
    """How updates run; auto compiles where a compiler exists and the run is long enough to repay it."""
    threads: int = 1
    """CPU threads of the simulators and of eager updates; 0: what pays on this machine. Results do not change."""
    allow_path_change: bool = False
    """Resume although device, path or torch version changed; no longer bit-exact."""


AUTO = Compute()
