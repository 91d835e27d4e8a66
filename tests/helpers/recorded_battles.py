"""Battles of scripts in the embedded engine, recorded."""

from __future__ import annotations

from typing import Any

from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.check.playing import ScriptPlayer
from fp3o.envs.smac.check.recorder import record
from fp3o.envs.smac.check.recording import Recording
from fp3o.envs.smac.check.scripts import SCRIPTS
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS


def recorded(map_name: str, script: str, battles: int, seed: int = 0, **settings: Any) -> Recording:
    """settings: of the engine."""
    env = EmbeddedBattles(SCENARIOS[map_name], battles, auto_reset=False, **settings)
    return record(env, ScriptPlayer(SCRIPTS[script], seed), slot_seeds(seed, "recorded", battles), script)
