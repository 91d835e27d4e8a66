"""Simulators behind one interface (`BatchEnv`); `make` builds them all."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from fp3o.config.domains import OPTIONS
from fp3o.errors import unknown

if TYPE_CHECKING:
    from fp3o.envs.interface import BatchEnv  # imports NumPy, which listing and help do without


def make(
    domain: str,
    task: str,
    slots: int,
    *,
    auto_reset: bool = True,
    threads: int = 1,
    options: Any = None,
) -> BatchEnv:
    """A batch of `slots` environments of one task.

    threads: CPU threads of the simulator; 0: as many as pay. options: the domain's dataclass of fp3o.config.options;
    None: the paper's.
    """
    if domain not in OPTIONS:
        raise unknown("domain", domain, OPTIONS)
    # Imported on demand: MuJoCo, numba and PettingZoo take seconds to import, and a run needs only one of them.
    module = importlib.import_module(f"fp3o.envs.{domain}")
    chosen = OPTIONS[domain]() if options is None else options
    return cast("BatchEnv", module.make(task, slots, auto_reset=auto_reset, threads=threads, options=chosen))
