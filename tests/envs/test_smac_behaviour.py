"""Fixed scripts on the maps: who must win, who must lose. The full table is benchmarks/fidelity/smac.py's."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fp3o.config.domains import REVISIONS
from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS


@pytest.fixture(scope="module")
def scripts() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "fidelity" / "smac.py"
    specification = importlib.util.spec_from_file_location("smac_fidelity", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["smac_fidelity"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["3m", "8m", "2s3z"])
def test_mirror_matches_are_even(scripts: ModuleType, name: str) -> None:
    assert scripts.measure(name, "mirror", 1024, scripted_allies=True).wins == pytest.approx(0.5, abs=0.06)


def test_focus_fire_beats_nearest_beats_random(scripts: ModuleType) -> None:
    random, nearest, focus = (scripts.measure("8m", script, 256) for script in ("random", "nearest", "focus"))
    assert focus.wins >= nearest.wins > random.wins + 0.2
    random, nearest, focus = (scripts.measure("10m_vs_11m", script, 256) for script in ("random", "nearest", "focus"))
    assert focus.mean_return >= nearest.mean_return > random.mean_return + 5


@pytest.mark.parametrize("name", ["5m_vs_6m", "6h_vs_8z", "3s5z_vs_3s6z"])
def test_naive_play_loses(scripts: ModuleType, name: str) -> None:
    for script in ("random", "nearest", "stand"):
        assert scripts.measure(name, script, 128).wins <= 0.05


def test_corridor_is_lost_in_the_open_and_won_at_the_choke(scripts: ModuleType) -> None:
    assert scripts.measure("corridor", "nearest", 256).wins <= 0.05
    assert scripts.measure("corridor", "hold choke", 128).wins >= 0.4


def test_colossi_must_not_stand_still(scripts: ModuleType) -> None:
    assert scripts.measure("2c_vs_64zg", "stand", 64).wins <= 0.05
    assert scripts.measure("2c_vs_64zg", "kite", 64).wins >= 0.4


PINNED = {2: "518f43dd7f0316b9", 3: "f81692e4d5aa5762"}


@pytest.mark.parametrize("engine_revision", PINNED)
def test_numbers_have_not_changed_without_a_new_revision(engine_revision: int) -> None:
    """If the newest fails on purpose, raise REVISIONS["smac"] and pin the new digest; older ones never change."""
    assert max(PINNED) == REVISIONS["smac"] == SmacOptions().engine_revision
    digest = hashlib.sha256()
    for name in sorted(SCENARIOS):
        env = EmbeddedBattles(SCENARIOS[name], 2, options=SmacOptions(engine_revision=engine_revision))
        env.reset(slot_seeds(7, "digest", 2))
        generator = np.random.default_rng(0)
        for _ in range(30):
            available = env.snapshot().available
            assert available is not None
            env.step((generator.random(available.shape) * available).argmax(-1)[..., None])
        for array in (env.battles.x, env.battles.y, env.battles.health, env.battles.shield, env.battles.cooldown):
            digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == PINNED[engine_revision]
