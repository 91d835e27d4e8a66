"""Simulators behind one protocol; `make` is the only way in."""

from __future__ import annotations

import importlib
from typing import Any, cast

from fp3o.envs.domains import OPTIONS
from fp3o.envs.interface import BatchEnv
from fp3o.errors import unknown


def make(
    domain: str,
    task: str,
    slots: int,
    *,
    auto_reset: bool = True,
    threads: int = 1,
    options: Any = None,
) -> BatchEnv:
    """A batch of `slots` environments; `options`: the domain's dataclass of fp3o.envs.options (default: paper's)."""
    if domain not in OPTIONS:
        raise unknown("domain", domain, OPTIONS)
    # Imported on demand: MuJoCo, numba and PettingZoo are heavy, and a run needs one of them.
    module = importlib.import_module(f"fp3o.envs.{domain}")
    chosen = OPTIONS[domain]() if options is None else options
    return cast(BatchEnv, module.make(task, slots, auto_reset=auto_reset, threads=threads, options=chosen))
