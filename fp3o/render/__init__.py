"""Videos of a trained policy.

A domain that can be drawn (`Domain.drawn`) has a module of its name here, with the functions
choose_backend()                              before the simulator is imported: choose a rendering library
observe(env)                                  what a picture of environment slot 0 needs, read before every step
frames(task, options, observed, w, h)         the pictures [height, width, 3] of an episode
steps_per_second(task, options)               pictures per second of simulated time
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fp3o.config import Cell
from fp3o.envs.domains import DOMAINS, OPTIONS
from fp3o.envs.interface import Episode
from fp3o.errors import unknown
from fp3o.fields import restored
from fp3o.render import animation
from fp3o.runs import records

DRAWN = tuple(name for name, domain in DOMAINS.items() if domain.drawn)


def render_run(run: Path, out: Path, seed: int, every: int, width: int, height: int) -> tuple[Episode, int]:
    """Play one deterministic episode of a finished run and write every `every`-th step of it as a video.

    Returns the episode and the number of pictures.
    """
    animation.check_name(out)
    document = records.read_run(run / records.RUN)
    domain, task, _, _ = Cell.of(document["cell"]).parts
    if domain not in DRAWN:
        raise unknown("domain to draw", domain, DRAWN, document["cell"])
    module = importlib.import_module(f"fp3o.render.{domain}")
    module.choose_backend()
    from fp3o.training.evaluate import evaluate_run

    observed: list[Any] = []
    episode = evaluate_run(run, 1, seed, lambda env: observed.append(module.observe(env)))[0]
    options = restored(document["options"], OPTIONS[domain])
    pictures = module.frames(task, options, observed[::every], width, height)
    return episode, animation.write(out, pictures, module.steps_per_second(task, options) / every)
