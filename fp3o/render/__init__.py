"""Films of trained policies: one episode, or several episodes and runs side by side.

A domain that can be drawn (`Domain.drawn`) has a module of its name here. One with `films` (PettingZoo's) plays the
episodes itself, as the user's environments draw their own pictures. The others draw what was observed
while fp3o played, and have
choose_backend()                              optional, before the simulator is imported: choose a rendering library
observe(env, slot, actions)                   what a picture of an environment needs, read before every step; actions
                                              [N, A, …]: those of the last step, None before the first
frames(task, options, observed, w, h)         the pictures [height, width, 3] of an episode
steps_per_second(task, options)               pictures per second of simulated time
PICTURES_PER_STEP                             optional, default 1: pictures per observed step
EVERY                                         optional: draw every EVERY-th step, whatever the user asks for
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.config.domains import DOMAINS, OPTIONS
from fp3o.envs.interface import BatchEnv, Episode
from fp3o.errors import UserError, unknown
from fp3o.fields import restored
from fp3o.progress import Bar, Rounds, counted
from fp3o.render import animation
from fp3o.render.films import MOST_PIXELS, Film, Shape, grid, tiled
from fp3o.runs import records

DRAWN = tuple(name for name, domain in DOMAINS.items() if domain.drawn)


def render_runs(
    runs: Sequence[Path], out: Path, *, episodes: int = 1, seed: int = 0, shape: Shape
) -> tuple[list[Episode], int]:
    """Play deterministic episodes of finished runs and write them as one film, side by side.

    seed: of the episodes' start states, which are the same for every run. Returns the episodes, run by run, and the
    number of pictures.
    """
    animation.check_name(out)
    columns, rows = grid(len(runs) * episodes)
    if columns * shape.width > MOST_PIXELS or rows * shape.height > MOST_PIXELS:
        raise UserError(
            f"{columns} × {rows} pictures of {shape.width} × {shape.height} are too large; allowed: "
            f"{MOST_PIXELS} × {MOST_PIXELS} in all"
        )
    documents = [records.read_run(run / records.RUN) for run in runs]
    for document in documents:
        domain = Cell.of(document["cell"]).domain
        if domain not in DRAWN:
            raise unknown("domain to draw", domain, DRAWN, document["cell"])
    films = [film for run, one in zip(runs, documents, strict=True) for film in _films(run, one, episodes, seed, shape)]
    pictures = films[0].pictures if len(films) == 1 else tiled(films, shape)
    total = max(film.count for film in films)
    count = animation.write(out, counted(pictures, total, "drawing", "pictures"), films[0].per_second)
    return [film.episode for film in films], count


def _films(run: Path, document: dict[str, Any], episodes: int, seed: int, shape: Shape) -> list[Film]:
    """Play episodes of one run's final policy; returns their films."""
    cell = Cell.of(document["cell"])
    module = importlib.import_module(f"fp3o.render.{cell.domain}")
    options = restored(document["options"], OPTIONS[cell.domain])
    caption = f"{cell.task} {cell.label} seed {document['seed']}"
    if hasattr(module, "films"):
        films: list[Film] = module.films(run, cell, options, episodes, seed, shape, caption)
        return films
    if hasattr(module, "choose_backend"):
        module.choose_backend()
    from fp3o.rollout.evaluation import evaluate_run

    observed: list[list[Any]] = [[] for _ in range(episodes)]
    with Bar("playing", 0, at_most=True) as bar:
        rounds = Rounds(bar)

        def watch(env: BatchEnv, actions: NDArray[Any] | None) -> None:
            rounds(env, actions)
            for slot, seen in enumerate(observed):
                seen.append(module.observe(env, slot, actions))

        played = evaluate_run(run, episodes, seed, watch)
        bar.advance(bar.total)
    each = getattr(module, "PICTURES_PER_STEP", 1)
    every = getattr(module, "EVERY", shape.every)
    per_second = module.steps_per_second(cell.task, options) / every
    films = []
    for episode, seen in zip(played, observed, strict=True):
        scenes = seen[: min(episode.length, shape.steps) + 1 : every]  # later ones repeat the end
        pictures = module.frames(cell.task, options, scenes, shape.width, shape.height)
        films.append(Film(episode, pictures, each * len(scenes), per_second, caption))
    return films
