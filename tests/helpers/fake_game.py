"""A stand-in for the smac package and StarCraft II: recordings are replayed (tests/data/fake_smac)."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fp3o.envs.smac.check.recording import Recording
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.envs.smac.terrain import ground
from fp3o.envs.smac.units import KINDS

DATA = Path(__file__).parents[1] / "data"


def use_fake_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DATA / "fake_smac"))
    for name in ("smac", "smac.env"):
        monkeypatch.delitem(sys.modules, name, raising=False)


class Thread(threading.Thread):
    """Serves a game in this process, over a real pipe: a process takes seconds to start."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> None:
        pipe, *others = args
        kept = Connection(os.dup(pipe.fileno()))  # the caller closes its own copy

        def serve() -> None:
            with kept:
                target(kept, *others)

        super().__init__(target=serve, daemon=daemon)


def use_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games are threads, not processes."""
    context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=Thread)
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)


def install_game(folder: Path, maps: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation of the game with empty maps."""
    (folder / "Maps").mkdir(parents=True)
    for name in maps:
        (folder / "Maps" / f"{name}.SC2Map").touch()
    monkeypatch.setenv("SC2PATH", str(folder))


def game_file(recording: Recording, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the games play these battles: the one of seed n battle n, again and again."""
    scenario, agents = SCENARIOS[recording.map], recording.agents
    rows = [(t, n) for n in range(len(recording.lengths)) for t in range(recording.lengths[n] + 1)]
    t, n = np.array(rows).T
    last = t == recording.lengths[n]
    kinds = np.array([KINDS.index(kind) for kind in scenario.ally_kinds + scenario.enemy_kinds])
    columns = {"x": "x", "y": "y", "hp": "health", "shield": "shield", "cooldown": "cooldown"}
    units: dict[str, Any] = {}
    for side, part in (("ally", slice(agents)), ("enemy", slice(agents, None))):
        units[f"{side}_type"] = np.broadcast_to(kinds[part], (len(rows), len(kinds[part])))
        for name, field in columns.items():
            units[f"{side}_{name}"] = getattr(recording.units, field)[t, n, part]
    np.savez(
        path,
        map_name=recording.map,
        type_names=np.array(KINDS),
        pathing_grid=np.stack([ground(scenario.terrain, 4.0).pathing] * len(recording.lengths)),
        instance=n,
        t=t,
        actions=recording.actions[np.maximum(t - 1, 0), n],
        reward=np.where(last, recording.returns[n], 0.0),
        terminated=last,
        end=np.where(last, recording.outcomes[n], 0),
        n_agents=agents,
        n_enemies=scenario.opponents,
        **units,
    )
    monkeypatch.setenv("FAKE_SMAC_RECORDING", str(path))
