"""An episode of a trained policy as a film.

A domain that can be drawn is a module of this package with `choose_backend`, `look`, `steps_per_second` and `frames`.
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
    """Play one deterministic episode of a finished run and write every `every`-th step; the episode, and the frames."""
    animation.check_name(out)
    document = records.read_run(run / records.RUN)
    domain, task, _, _ = Cell.of(document["cell"]).parts
    if domain not in DRAWN:
        raise unknown("domain to draw", domain, DRAWN, document["cell"])
    module = importlib.import_module(f"fp3o.render.{domain}")
    module.choose_backend()
    from fp3o.training.evaluate import evaluate_run

    seen: list[Any] = []
    episode = evaluate_run(run, 1, seed, lambda env: seen.append(module.look(env)))[0]
    options = restored(document["options"], OPTIONS[domain])
    pictures = module.frames(task, options, seen[::every], width, height)
    return episode, animation.write(out, pictures, module.steps_per_second(task, options) / every)
