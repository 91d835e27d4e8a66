"""Compile an engine's kernels in a process of its own, while this one compiles other programs.

`python -m fp3o.envs.ahead DOMAIN TASK` is that process: it takes a step, and numba keeps what was compiled for it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np

from fp3o.envs import make
from fp3o.processes import command


def compile_beside(env: object, domain: str, task: str) -> None:
    """Start the process, if the engine `has_kernels` and none are in the cache. This process then waits for a kernel
    that it needs before it is there; if the other one fails, it compiles for itself."""
    if not getattr(env, "has_kernels", False):
        return
    from fp3o.envs.compiled import cache_folder  # imports numba, which not all domains need

    folder = cache_folder(Path(__file__).parent / domain)
    if folder and next(Path(folder).rglob("*.nbi"), None) is None:
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        run = partial(subprocess.run, command("fp3o.envs.ahead", domain, task), check=False, **quiet)
        threading.Thread(target=run, daemon=True).start()  # waits for the process, so that it ends as it should


def main(domain: str, task: str) -> None:
    """One step of two environments, on two threads: on one some kernels are not used."""
    env = make(domain, task, 2, threads=2)
    snapshot = env.reset(np.zeros(2, np.uint64))
    action = env.spec.action
    if snapshot.available is None:
        env.step(np.zeros((2, env.spec.agents, action.width)))
    else:
        env.step(snapshot.available.argmax(-1)[..., None])
    env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
