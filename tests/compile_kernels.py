"""Compile the kernels of simulators and GRUs into numba's cache once; else every test process would, at one time."""

from __future__ import annotations

import torch

from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.networks.recurrent import gru

SLOTS = 8

if __name__ == "__main__":
    for domain, task, threads in (("smac", "3m", 1), ("smac", "3m", 2), ("mamujoco", "hopper-3x1", 1)):
        options = SmacOptions(backend="embedded") if domain == "smac" else None
        env = make(domain, task, SLOTS, threads=threads, options=options)
        env.reset(slot_seeds(0, "kernels", SLOTS))
        env.close()
    shapes = [
        (2, 3, 6),
        (2, 2),
        (2, 3),
        (2, 6),
        (6,),
    ]  # inputs, state, keep, weight, bias of two units
    gru(*(torch.ones(1, 1, *shape, requires_grad=True) for shape in shapes)).sum().backward()
