"""`fp3o render`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, allow_code, check_number, read_run
from fp3o.errors import UserError

if TYPE_CHECKING:
    from fp3o.envs.interface import Episode


def render(
    runs: Annotated[
        Positional[tuple[Path, ...]],
        arg(metavar="RUN", help="Folders of finished runs (with run.json); several are shown side by side."),
    ],
    *,
    out: Annotated[Path, arg(metavar="FILE", help="What to write: .webp, .gif, .png or .mp4.")] = Path("episode.webp"),
    episodes: Annotated[int, arg(metavar="N", help="Of every run, side by side.")] = 1,
    seed: Annotated[int, arg(metavar="S", help="Of the start states; not the run's seed.")] = 0,
    every: Annotated[int, arg(metavar="K", help="Draw every K-th step.")] = 2,
    steps: Annotated[int, arg(metavar="N", help="Draw the first N steps of an episode; 0: all.")] = 0,
    width: Annotated[int, arg(metavar="PIXELS", help="Of an episode's picture.")] = 320,
    height: Annotated[int, arg(metavar="PIXELS", help="Of an episode's picture.")] = 240,
    import_: Imports = (),
    trust: Annotated[bool, arg(help="Import the environment's code that run.json names (module:factory).")] = False,
) -> int:
    """Draw episodes of finished runs' final policies, side by side in one film."""
    check_number("every", every, 1, 1_000_000)
    check_number("steps", steps, 0, 10**9)
    check_number("width", width, 2, 8192)
    check_number("height", height, 2, 8192)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    check_number("episodes", episodes, 1, 100)
    if not runs:
        raise UserError("render needs the folder of a finished run")
    from fp3o.render import render_runs
    from fp3o.render.animation import check_name
    from fp3o.render.films import Shape

    check_name(out)
    for run in runs:
        allow_code(run, read_run(run), trust)
    shape = Shape(every, width, height, steps or 10**9)
    played, count = render_runs(runs, out, episodes=episodes, seed=seed, shape=shape)
    if len(played) == 1:
        print(f"{out}: {count} pictures, {_result(played[0], shape.steps)}")
        return 0
    print(f"{out}: {count} pictures of {len(played)} episodes")
    for number, episode in enumerate(played):
        run = runs[number // episodes]
        print(f"  {run.name} episode {episode.slot}: {_result(episode, shape.steps)}")
    return 0


def _result(episode: Episode, steps: int) -> str:
    """Return and length of the episode, which was played to its end however few steps are drawn."""
    drawn = f", the first {steps} of them drawn" if steps < episode.length else ""
    return f"return {episode.total_return:.6g}, {episode.length} steps{drawn}"
