"""Pictures of the particle tasks from above: landmarks, agents, a line from agent to goal, the words said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MpeOptions
from fp3o.envs.interface import BatchEnv
from fp3o.envs.mpe.engine import RADIUS, TASKS, TIME_STEP

_GROUND, _INK = (250, 250, 246), (30, 30, 30)
_LANDMARKS = ((214, 80, 60), (70, 160, 80), (60, 100, 200))
_AGENTS = ((90, 90, 90), (170, 120, 40), (110, 70, 150))
_SIDE = 2.8  # Side of the square shown, in the world's units; start positions lie within ± 1.
_SMOOTH = 2  # Drawn this many times larger and scaled down, for smooth edges.
# For goal k: the agent that has to reach it, and the agent that knows it and speaks about it.
_MOVERS = {"simple-reference": (1, 0), "simple-speaker-listener": (1,), "simple-spread": ()}
_SPEAKERS = {"simple-reference": (0, 1), "simple-speaker-listener": (0,), "simple-spread": ()}


class Scene(NamedTuple):
    """One world at one step."""

    position: NDArray[np.float64]
    """Of the agents, [A, 2] (x, y), in the world's units."""
    landmark: NDArray[np.float64]
    """Positions of the landmarks, [landmarks, 2]."""
    goal: NDArray[np.int64]
    """[goals]: the landmark that is goal k; empty in simple-spread."""
    word: NDArray[np.int64]
    """[goals]: number of the word last said about goal k."""
    step: int


def observe(env: BatchEnv, slot: int, actions: object) -> Scene:
    """The world of a slot."""
    state: dict[str, NDArray[Any]] = env.state_dict()
    none = np.empty((env.slots, 0), np.int64)
    goal, word = (state.get(name, none)[slot].copy() for name in ("goal", "word"))
    place, landmark = (state[name][slot].copy() for name in ("position", "landmark"))
    return Scene(place, landmark, goal, word, int(state["lengths"][slot]))


def steps_per_second(task: str, options: MpeOptions) -> float:
    """Steps per second of simulated time."""
    return 1 / TIME_STEP


def frames(
    task: str, options: MpeOptions, scenes: Sequence[Scene], width: int = 320, height: int = 240
) -> Iterator[NDArray[np.uint8]]:
    """One picture [height, width, 3] per scene."""
    from PIL import Image, ImageDraw

    scale = _SMOOTH * min(width, height) / _SIDE
    for scene in scenes:
        picture = Image.new("RGB", (_SMOOTH * width, _SMOOTH * height), _GROUND)
        pen = ImageDraw.Draw(picture)
        places = _placed(scene.position, scale, width, height)
        marks = _placed(scene.landmark, scale, width, height)
        for goal, agent in zip(scene.goal.tolist(), _MOVERS[task], strict=True):
            pen.line([tuple(places[agent]), tuple(marks[goal])], fill=_LANDMARKS[goal], width=_SMOOTH)
        for (x, y), colour in zip(marks, _LANDMARKS, strict=True):
            half = 0.06 * scale
            pen.rectangle((x - half, y - half, x + half, y + half), fill=colour, outline=_INK)
        radius = (RADIUS if task == "simple-spread" else 0.08) * scale
        for agent, (x, y) in enumerate(places):
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_AGENTS[agent], outline=_INK)
            pen.text((x, y), str(agent), fill="white", anchor="mm", font_size=radius)
        words = zip(_SPEAKERS[task], scene.word.tolist(), strict=True)
        said = [f"{agent} says {word_text(task, word)}" for agent, word in words]
        text = "   ".join([f"{task}  step {scene.step}", *said])
        pen.text((4, 2), text, fill=_INK, font_size=9 * _SMOOTH)
        yield np.asarray(picture.resize((width, height), Image.Resampling.LANCZOS), np.uint8)


def _placed(points: NDArray[np.float64], scale: float, width: int, height: int) -> list[tuple[float, float]]:
    """World coordinates [points, 2] as pixels of the enlarged picture; y points up in the world, down there."""
    centre = _SMOOTH * width / 2, _SMOOTH * height / 2
    return [(centre[0] + scale * float(x), centre[1] - scale * float(y)) for x, y in points]


def word_text(task: str, number: int) -> str:
    """A word as a letter. Before anything is said there is silence, whose number is that after the task's last word."""
    vocabulary = getattr(TASKS[task], "words", 0)
    return "–" if number == vocabulary else "ABCDEFGHIJ"[number]
