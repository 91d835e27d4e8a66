"""Pictures of the tiny games: a payoff table with the agents' choice marked, or a target and what each agent adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MatrixOptions
from fp3o.envs.interface import BatchEnv
from fp3o.envs.matrix.engine import GAMES, Game, TargetGame

EVERY = 1  # The games last a few steps: each is drawn.
_PAPER, _INK, _BEST, _WORST, _CHOSEN = (255, 255, 255), (30, 30, 30), (120, 190, 120), (235, 225, 225), (200, 60, 40)
_AGENTS = ((60, 100, 200), (214, 120, 40), (110, 70, 150))


class Scene(NamedTuple):
    """A game before a step, and the agents' actions in the step before that."""

    state: float
    """Number of the game's node (which payoff table applies) or, in a target game, the target."""
    actions: NDArray[Any] | None
    """[A, sub-actions]; None at the start."""


def observe(env: BatchEnv, slot: int, actions: NDArray[Any] | None) -> Scene:
    """The game of a slot."""
    state = env.state_dict()
    where = state["node"] if "node" in state else state["target"]
    return Scene(float(where[slot]), None if actions is None else np.array(actions[slot]))


def steps_per_second(task: str, options: MatrixOptions) -> float:
    """A step is shown for a second."""
    return 1.0


def frames(
    task: str, options: MatrixOptions, scenes: Sequence[Scene], width: int = 320, height: int = 240
) -> Iterator[NDArray[np.uint8]]:
    """One picture [height, width, 3] per scene, with the actions then chosen in it.

    After the end nothing is chosen: the last picture repeats the last step.
    """
    game = GAMES[task]
    for step, scene in enumerate(scenes):
        following = scenes[step + 1] if step + 1 < len(scenes) else None
        if following is None and step:  # The episode has ended: show the last step again.
            scene, following = scenes[step - 1], scene
        chosen = None if following is None else following.actions
        caption = f"{task}  step {min(step, max(len(scenes) - 2, 0))}"
        if isinstance(game, TargetGame):
            yield _target(game, scene, chosen, caption, width, height)
        else:
            yield _table(game, scene, chosen, caption, width, height)


def _canvas(caption: str, width: int, height: int) -> tuple[Any, Any]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((4, 2), caption, fill=_INK, font_size=10)
    return image, pen


def _table(
    game: Game, scene: Scene, chosen: NDArray[Any] | None, caption: str, width: int, height: int
) -> NDArray[np.uint8]:
    """Payoffs. Rows: agent 0's choices; columns: agent 1's; one table for every joint choice of the other agents."""
    payoff = game.nodes[int(scene.state)].payoff
    sizes = (*payoff.shape, 1, 1)
    tables = payoff.reshape(sizes[0], sizes[1], -1)
    image, pen = _canvas(caption, width, height)
    gap, top = 8, 18
    across, down = tables.shape[1] * tables.shape[2], tables.shape[0]
    wide, high = (width - gap * (tables.shape[2] + 1)) / across, (height - top - gap) / down
    low, span = float(payoff.min()), float(np.ptp(payoff)) or 1.0
    mark = None if chosen is None else np.ravel_multi_index(tuple(int(c) for c in chosen[:, 0]), payoff.shape)
    numbers = np.arange(payoff.size).reshape(tables.shape)
    for (row, column, table), value in np.ndenumerate(tables):
        left = gap + table * (gap + tables.shape[1] * wide) + column * wide
        box = (left, top + row * high, left + wide - 2, top + (row + 1) * high - 2)
        share = (float(value) - low) / span
        fill = tuple(round(a + share * (b - a)) for a, b in zip(_WORST, _BEST, strict=True))
        here = numbers[row, column, table] == mark
        pen.rectangle(box, fill=fill, outline=_CHOSEN if here else _INK, width=4 if here else 1)
        pen.text(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), f"{value:g}", fill=_INK, anchor="mm", font_size=12)
    return np.asarray(image, np.uint8)


def _target(
    game: TargetGame, scene: Scene, chosen: NDArray[Any] | None, caption: str, width: int, height: int
) -> NDArray[np.uint8]:
    """A number line from −2 to 2 with the target, and below it the agents' numbers as bars, end to end: their sum."""
    image, pen = _canvas(caption, width, height)

    def place(number: float) -> float:
        return width / 2 + float(np.clip(number, -2, 2)) * (width - 16) / 4

    middle = height / 2
    pen.line([(place(-2), middle), (place(2), middle)], fill=_INK)
    pen.line([(place(scene.state), middle - 24), (place(scene.state), middle + 24)], fill=_CHOSEN, width=3)
    reached = 0.0
    if chosen is not None:
        parts = [(agent, float(x)) for agent, n in enumerate(game.dimensions) for x in chosen[agent, :n]]
        for level, (agent, amount) in enumerate(parts):
            ends = sorted((place(reached), place(reached + amount)))
            pen.rectangle((ends[0], middle + 8 * level + 2, ends[1], middle + 8 * level + 8), fill=_AGENTS[agent])
            reached += amount
    return np.asarray(image, np.uint8)
