"""The pictures of an episode, and of several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import Episode

MOST_PIXELS = 8192  # Largest width, and largest height, of a film.
_INK, _PAPER, _LINE = (30, 30, 30), (255, 255, 255), 12  # colours, height of a caption in pixels


class Shape(NamedTuple):
    """How an episode is drawn: every `every`-th of its first `steps` steps, as a picture of this size."""

    every: int
    width: int
    height: int
    steps: int = 10**9


@dataclass(frozen=True)
class Film:
    """One episode as pictures."""

    episode: Episode
    pictures: Iterator[NDArray[np.uint8]]
    """Each [height, width, 3]; can be read once."""
    count: int
    """Number of pictures."""
    per_second: float
    caption: str
    """What it shows: task, algorithm, the run's seed."""


def grid(count: int) -> tuple[int, int]:
    """Columns and rows for `count` films: up to three share one row, more are as near to a square as can be."""
    columns = count if count <= 3 else math.ceil(math.sqrt(count))
    return columns, math.ceil(count / columns)


def tiled(films: Sequence[Film], shape: Shape) -> Iterator[NDArray[np.uint8]]:
    """Pictures of all films side by side, with captions; a film that has ended keeps showing its last picture."""
    columns, rows = grid(len(films))
    last = [np.full((shape.height, shape.width, 3), 255, np.uint8)] * len(films)
    for pictures in zip_longest(*(film.pictures for film in films)):
        last = [
            old if new is None else captioned(new, film) for old, new, film in zip(last, pictures, films, strict=True)
        ]
        sheet = np.full((rows * shape.height, columns * shape.width, 3), 255, np.uint8)
        for place, picture in enumerate(last):
            top, left = (place // columns) * shape.height, (place % columns) * shape.width
            sheet[top : top + shape.height, left : left + shape.width] = picture
        yield sheet


def captioned(picture: NDArray[np.uint8], film: Film) -> NDArray[np.uint8]:
    """The picture, its lowest rows covered by a line of text: the film's caption and the episode's return."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, image.height - _LINE, image.width, image.height), fill=_PAPER)
    text = f"{film.caption}  return {film.episode.total_return:.4g}"
    pen.text((2, image.height - _LINE), text, fill=_INK, font_size=_LINE - 3)
    return np.asarray(image, np.uint8)
