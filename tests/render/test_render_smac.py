"""Films of battles: what is drawn follows the battle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from fp3o.config.options import SmacOptions
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.render import animation, smac


def battle(task: str, steps: int) -> list[smac.Scene]:
    env = make("smac", task, 1, auto_reset=False)
    env.reset(slot_seeds(0, "film", 1))
    generator = np.random.default_rng(0)
    scenes = []
    for _ in range(steps):
        scenes.append(smac.observe(env, 0, None))
        available = env.snapshot().available
        assert available is not None
        env.step((generator.random(available.shape) * available).argmax(-1)[..., None])
    return scenes


@pytest.mark.parametrize("task", ["3s5z", "corridor"])
def test_pictures_change_with_the_battle(task: str) -> None:
    pictures = list(smac.frames(task, SmacOptions(), battle(task, 4), 320, 240))
    assert len(pictures) == 4 * smac.PICTURES_PER_STEP
    assert all(picture.shape == (240, 320, 3) for picture in pictures)
    assert (pictures[0] != pictures[-1]).any()
    red, _, blue = np.moveaxis(pictures[0].astype(int), -1, 0)
    assert ((blue > 170) & (red < 80)).any()
    assert ((red > 170) & (blue < 80)).any()


def test_the_dead_are_not_drawn() -> None:
    scene = battle("3m", 1)[0]
    gone = scene._replace(alive=np.array([True] * 3 + [False] * 3))
    with_enemies, without = (next(smac.frames("3m", SmacOptions(), [s])) for s in (scene, gone))
    changed = np.argwhere((with_enemies != without).any(axis=2))
    assert changed[:, 1].max() > 320 * 0.6  # the enemies' side, on the right


def picture(scene: smac.Scene) -> np.ndarray:
    return next(smac.frames("3m", SmacOptions(), [scene])).astype(int)


def shots(scene: smac.Scene) -> int:
    """Pixels of the shots' orange, thinned by the scaling: nothing else has much red and green, and little blue."""
    red, green, blue = np.moveaxis(picture(scene), 2, 0)
    return int(((red - blue > 70) & (green - blue > 40) & (red > green)).sum())


def test_health_bars_shrink_with_health() -> None:
    scene = battle("3m", 1)[0]

    def green(share: float, who: slice = slice(None)) -> int:
        health = scene.health.copy()
        health[who] *= share
        colour = picture(scene._replace(health=health)) - np.array(smac._HEALTH)
        return int((np.abs(colour).max(axis=2) < 30).sum())

    full = green(1.0)
    assert full > 30
    assert 0.3 < green(0.5) / full < 0.7
    assert green(0.0) == 0
    for side in (slice(0, 3), slice(3, 6)):  # both sides have them
        assert 0.6 < green(0.5, side) / full < 0.9


@pytest.mark.parametrize(("shooter", "victim"), [(0, 5), (5, 0)])
def test_a_line_joins_a_living_unit_and_its_living_target_alone(shooter: int, victim: int) -> None:
    scene = battle("3m", 1)[0]
    target = np.full(6, -1, np.int16)
    assert shots(scene._replace(target=target)) == 0
    target[shooter] = victim
    aims = scene._replace(target=target)
    assert shots(aims) > 60
    for dead in (shooter, victim):
        assert shots(aims._replace(alive=np.arange(6) != dead)) == 0
    bystander = next(u for u in range(6) if u not in (shooter, victim))
    assert shots(aims._replace(alive=np.arange(6) != bystander)) > 60


def test_a_film_is_written(tmp_path: Path) -> None:
    pictures = smac.frames("3m", SmacOptions(), battle("3m", 6), 160, 120)
    assert animation.write(tmp_path / "battle.gif", pictures, smac.steps_per_second("3m", SmacOptions())) == 24
    with Image.open(tmp_path / "battle.gif") as film:
        assert ImageSequence.Iterator(film)[5].size == (160, 120)
        assert film.size == (160, 120)
