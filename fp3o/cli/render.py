"""`fp3o render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, check_number


def render(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    out: Annotated[Path, arg(metavar="FILE", help="What to write: .webp, .gif, .png or .mp4.")] = Path("episode.webp"),
    seed: Annotated[int, arg(metavar="S", help="Of the start state; not the run's seed.")] = 0,
    every: Annotated[int, arg(metavar="K", help="Draw every K-th step.")] = 2,
    width: Annotated[int, arg(metavar="PIXELS", help="Of the picture.")] = 320,
    height: Annotated[int, arg(metavar="PIXELS", help="Of the picture.")] = 240,
    import_: Imports = (),
) -> int:
    """Draw one episode of a finished run's final policy (MAMuJoCo and SMAC)."""
    check_number("every", every, 1, 1_000_000)
    check_number("width", width, 2, 8192)
    check_number("height", height, 2, 8192)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    from fp3o.render import render_run

    episode, count = render_run(run, out, seed, every, width, height)
    print(f"{out}: {count} pictures, return {episode.total_return:.6g}, {episode.length} steps")
    return 0
