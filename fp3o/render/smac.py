"""Pictures of a battle from above: terrain, units with health and shield, whom they attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import BatchEnv
from fp3o.errors import UserError

PICTURES_PER_STEP = 4  # A step is a third of a second of play: positions in between are interpolated.
_GROUND, _CLIFF, _INK = (222, 216, 200), (120, 112, 100), (30, 30, 30)
_SIDES = ((40, 90, 200), (200, 50, 40))
_HEALTH, _SHIELD, _SHOT = (60, 170, 60), (90, 190, 230), (250, 170, 30)
_MARGIN = 1.0  # Shown around the walkable ground, in cells of the map.
_SMOOTH = 2  # Drawn this many times larger and scaled down, for smooth edges.


class Scene(NamedTuple):
    """One battle at one step. Arrays [U]: all units, allies first; target: the unit attacked or followed, -1: none."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    health: NDArray[np.float32]
    shield: NDArray[np.float32]
    alive: NDArray[np.bool_]
    target: NDArray[np.int16]
    step: int


def observe(env: BatchEnv, slot: int, actions: object) -> Scene:
    """The battle of a slot."""
    if not env.spec.exact_resume:
        raise UserError("cannot draw a run on the real StarCraft II, which shows itself; allowed backend: embedded")
    state: dict[str, NDArray[Any]] = env.state_dict()
    return Scene(*(state[name][slot] for name in Scene._fields))


def steps_per_second(task: str, options: SmacOptions) -> float:
    """Pictures per second of play at the game's usual speed "faster": 22.4 game loops a second, 8 loops a step."""
    return PICTURES_PER_STEP * 22.4 / 8


def frames(
    task: str, options: SmacOptions, scenes: Sequence[Scene], width: int = 320, height: int = 240
) -> Iterator[NDArray[np.uint8]]:
    """Pictures [height, width, 3], PICTURES_PER_STEP for each scene."""
    from fp3o.envs.smac.scenarios import SCENARIOS
    from fp3o.envs.smac.terrain import ground

    scenario = SCENARIOS[task]
    stage = _Stage(
        ground(scenario.terrain, options.choke_width).walkable[0],
        scenario.ally_kinds + scenario.enemy_kinds,
        scenario.agents,
        options.profile,
        width,
        height,
    )
    for i, scene in enumerate(scenes):
        after = scenes[min(i + 1, len(scenes) - 1)]
        # A unit that is suddenly far away has been placed anew, for the next battle: it is not interpolated.
        follows = np.hypot(after.x - scene.x, after.y - scene.y) < 4 * (after.step - scene.step)
        for part in range(PICTURES_PER_STEP):
            share = np.where(follows, part / PICTURES_PER_STEP, 0)
            yield stage.draw(
                scene._replace(
                    x=scene.x + share * (after.x - scene.x),
                    y=scene.y + share * (after.y - scene.y),
                    health=scene.health + share * (after.health - scene.health),
                    shield=scene.shield + share * (after.shield - scene.shield),
                ),
                f"{task}  step {scene.step}",
            )


class _Stage:
    """Draws scenes on the terrain, which is drawn once; converts map coordinates to pixels."""

    def __init__(
        self, walkable: NDArray[np.bool_], kinds: tuple[str, ...], agents: int, profile: str, width: int, height: int
    ) -> None:
        from PIL import Image, ImageDraw

        from fp3o.envs.smac.units import PROFILES

        self.units = [PROFILES[profile][kind] for kind in kinds]
        self.agents = agents
        self.width, self.height = width, height
        cells = np.argwhere(walkable) / 2
        low, high = cells.min(axis=0) - _MARGIN, cells.max(axis=0) + 0.5 + _MARGIN
        self.scale = _SMOOTH * float(min(width / (high[0] - low[0]), height / (high[1] - low[1])))
        self.centre = (low + high) / 2
        self.base = Image.new("RGB", (_SMOOTH * width, _SMOOTH * height), _CLIFF)
        pen = ImageDraw.Draw(self.base)
        for x, y in cells:
            left, bottom = self.place(x, y)
            right, top = self.place(x + 0.5, y + 0.5)
            pen.rectangle((left, top, right, bottom), fill=_GROUND)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Map coordinates to pixels; y points up on the map."""
        return (
            _SMOOTH * self.width / 2 + self.scale * float(x - self.centre[0]),
            _SMOOTH * self.height / 2 - self.scale * float(y - self.centre[1]),
        )

    def draw(self, scene: Scene, caption: str) -> NDArray[np.uint8]:
        from PIL import Image, ImageDraw

        picture = self.base.copy()
        pen = ImageDraw.Draw(picture)
        living = np.nonzero(scene.alive)[0].tolist()
        for u in living:
            t = int(scene.target[u])
            if t >= 0 and scene.alive[t]:
                ends = [self.place(scene.x[u], scene.y[u]), self.place(scene.x[t], scene.y[t])]
                pen.line(ends, fill=_SHOT, width=_SMOOTH)
        for u in living:
            self._unit(pen, u, scene)
        allies = sum(u < self.agents for u in living)
        pen.text((4, 2), f"{caption}   {allies} : {len(living) - allies}", fill=_INK, font_size=9 * _SMOOTH)
        small = picture.resize((self.width, self.height), Image.Resampling.LANCZOS)
        return np.asarray(small, np.uint8)

    def _unit(self, pen: Any, u: int, scene: Scene) -> None:
        """A disc with the type's initials, bars for health and shield above it."""
        unit = self.units[u]
        x, y = self.place(scene.x[u], scene.y[u])
        radius = unit.separation * self.scale
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_SIDES[u >= self.agents], outline=_INK)
        pen.text((x, y), unit.name[:2], fill="white", anchor="mm", font_size=max(1.1 * radius, 6))
        bars = [(scene.health[u] / unit.health, _HEALTH)]
        if unit.shield:
            bars.append((scene.shield[u] / unit.shield, _SHIELD))
        for i, (share, colour) in enumerate(bars):
            top = y - radius - (i + 1) * 0.18 * self.scale
            pen.rectangle((x - radius, top, x + radius, top + 0.12 * self.scale), fill=_INK)
            filled = 2 * radius * float(np.clip(share, 0, 1))
            pen.rectangle((x - radius, top, x - radius + filled, top + 0.12 * self.scale), fill=colour)
