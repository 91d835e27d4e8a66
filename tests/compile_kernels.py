"""Compile the simulators' kernels into numba's cache once; otherwise every test process would, at the same time."""

from __future__ import annotations

from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds

SLOTS = 8

if __name__ == "__main__":
    for domain, task, threads in (("smac", "3m", 1), ("smac", "3m", 2), ("mamujoco", "hopper-3x1", 1)):
        options = SmacOptions(backend="embedded") if domain == "smac" else None
        env = make(domain, task, SLOTS, threads=threads, options=options)
        env.reset(slot_seeds(0, "kernels", SLOTS))
        env.close()
