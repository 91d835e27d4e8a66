"""Compiles an engine's kernels in another process while this one compiles its own programs.

`python -m fp3o.envs.native.ahead DOMAIN TASK` is that process: it takes one step, which fills numba's cache.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np

from fp3o.envs import make
from fp3o.envs.interface import BatchEnv
from fp3o.processes import command


def compile_in_background(env: BatchEnv, domain: str, task: str) -> None:
    """Start that process if the engine `has_kernels` and the cache is empty.

    This process waits where it needs a kernel that is being compiled; if the other one fails, it compiles it itself.
    """
    if not env.has_kernels:
        return
    from fp3o.envs.native.compiled import cache_folder  # imports numba, which not all domains need

    folder = cache_folder(Path(__file__).parents[1] / domain)
    if folder and next(Path(folder).rglob("*.nbi"), None) is None:
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        run = partial(subprocess.run, command("fp3o.envs.native.ahead", domain, task), check=False, **quiet)
        threading.Thread(target=run, daemon=True).start()  # reaps the process


def main(domain: str, task: str) -> None:
    """One step of two environments on two threads: some kernels are not used on one."""
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
