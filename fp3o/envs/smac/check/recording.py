"""Recorded battles: one .npz file per batch, of either backend, without pickled objects.

What is in a file, T being the steps of the longest battle, N the battles, U the units (allies first), A the agents:

    format    text              FORMAT
    map       text              SMAC's name of the map
    backend   text              embedded or starcraft2
    player    text              who chose the actions: a script, or a run
    identity  text              JSON: the environment's identity(): engine, revision, versions, options, steering …
    x, y      float32 [T+1,N,U] cells, before the first step and after every step
    health, shield, cooldown    likewise; cooldown in game loops; 0 for enemies in the game, which does not report it
    alive     bool    [T+1,N,U]
    actions   int16   [T,N,A]   SMAC's numbers, chosen on what row t shows; -1 once the battle has ended
    lengths   int32   [N]       steps of each battle; later rows repeat its end
    outcomes  int8    [N]       0 time limit, 1 won, 2 lost, 3 nobody left
    returns   float64 [N]
    checksum  text              SHA-256 of all else
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fp3o.envs.smac.battlefield import UnitStates
from fp3o.envs.smac.layouts import MAP_SIZE, Array, outcome
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.errors import UserError
from fp3o.runs.atomic import write_atomically

FORMAT = "fp3o smac recording 1"
_TEXTS = ("format", "map", "backend", "player", "identity", "checksum")
UNIT_TYPES = {name: np.bool_ if name == "alive" else np.float32 for name in UnitStates._fields}
PER_BATTLE = {"lengths": np.int32, "outcomes": np.int8, "returns": np.float64}
_TYPES = {**UNIT_TYPES, "actions": np.int16, **PER_BATTLE}


class Recording(NamedTuple):
    """N battles from start to end; the module's docstring explains the arrays."""

    map: str
    backend: str
    player: str
    identity: Mapping[str, Any]
    units: UnitStates  # of arrays [T + 1, N, U]
    actions: Array
    lengths: Array
    outcomes: Array
    returns: Array

    @property
    def agents(self) -> int:
        return SCENARIOS[self.map].agents


def as_the_game_tells(recording: Recording) -> Recording:
    """An engine's recording with only what the game reports: without the cooldowns of enemies."""
    cooldown = recording.units.cooldown.copy()
    cooldown[..., recording.agents :] = 0
    return recording._replace(backend="starcraft2", units=recording.units._replace(cooldown=cooldown))


def outcomes_of(alive: Array, agents: int) -> Array:
    """alive: units at the end [N, U]."""
    return np.array([outcome(agents, battle) for battle in alive], np.int8)


def write(path: Path, recording: Recording) -> None:
    members = _members(recording)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, checksum=_checksum(members), **members)
    write_atomically(path, file.getvalue())


def _members(recording: Recording) -> dict[str, Array]:
    texts = {"format": FORMAT, "map": recording.map, "backend": recording.backend, "player": recording.player}
    texts["identity"] = json.dumps(recording.identity, sort_keys=True)
    arrays = recording.units._asdict() | {name: getattr(recording, name) for name in ("actions", *PER_BATTLE)}
    return {name: np.array(text) for name, text in texts.items()} | {
        name: np.ascontiguousarray(array, _TYPES[name]) for name, array in arrays.items()
    }


def _checksum(members: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(members):
        array = members[name]
        value = str(array).encode() if name in _TEXTS else array.tobytes()
        digest.update(f"{name} {array.shape} {len(value)} ".encode() + value)
    return digest.hexdigest()


def read(path: Path) -> Recording:
    """A recording, checked; UserError for a file that is not one or was altered."""
    try:
        with np.load(path, allow_pickle=False) as data:
            members = {name: data[name] for name in data.files}
    except FileNotFoundError:
        raise UserError(f"there is no recording {path}") from None
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        # Of a file that is no .npz at all np.load says that it is pickled, or returns something else.
        what = f"{path} is not a recording of battles, or only a part of one"
        raise UserError(f"{what} ({type(error).__name__})") from None
    fault = _fault(members)
    if fault:
        raise UserError(f"{path} is not a recording of battles that can be used: {fault}")
    return Recording(
        map=str(members["map"]),
        backend=str(members["backend"]),
        player=str(members["player"]),
        identity=json.loads(str(members["identity"])),
        units=UnitStates(*(members[name] for name in UnitStates._fields)),
        **{name: members[name] for name in ("actions", *PER_BATTLE)},
    )


def _fault(members: Mapping[str, Array]) -> str:
    """What is wrong with the contents of a file; "" if nothing is."""
    if missing := [name for name in (*_TEXTS, *_TYPES) if name not in members]:
        return f"it has no {missing[0]}"
    for name in _TEXTS:
        if members[name].shape != () or members[name].dtype.kind != "U":
            return f"{name} is not a text"
    if str(members["format"]) != FORMAT:
        return f"its format is {str(members['format'])!r}; allowed: {FORMAT!r}"
    if (name := str(members["map"])) not in SCENARIOS:
        return f"unknown map {name!r}"
    scenario = SCENARIOS[name]
    for name, kind in _TYPES.items():
        if members[name].dtype != kind:
            return f"{name} is of type {members[name].dtype}; allowed: {np.dtype(kind)}"
    if members["actions"].ndim != 3 or 0 in members["actions"].shape:
        return f"actions have shape {members['actions'].shape}; allowed: steps, battles, agents"
    steps, battles, _ = members["actions"].shape
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        UnitStates._fields, (steps + 1, battles, scenario.agents + scenario.opponents)
    )
    shapes |= {"actions": (steps, battles, scenario.agents)}
    shapes |= dict.fromkeys(PER_BATTLE, (battles,))
    for name, shape in shapes.items():
        if members[name].shape != shape:
            return f"{name} has shape {members[name].shape}; allowed: {shape}"
    others = {name: array for name, array in members.items() if name != "checksum"}
    if _checksum(others) != str(members["checksum"]):
        return "its contents do not fit its checksum: it was altered"
    return _implausible(members, scenario.agents, scenario.actions)


def _implausible(members: Mapping[str, Array], agents: int, choices: int) -> str:
    """What is wrong with the values of a file of the right form; "" if nothing is."""
    try:
        identity = json.loads(str(members["identity"]))
    except json.JSONDecodeError:
        return "its identity is not JSON"
    if not isinstance(identity, dict) or identity.get("engine") != str(members["backend"]):
        return "its identity is not that of its backend"
    if not isinstance(identity.get("options"), dict):
        return "its identity has no options"
    for name in ("x", "y", "health", "shield", "cooldown", "returns"):
        if not np.isfinite(members[name]).all():
            return f"{name} is not finite"
    for name in ("x", "y"):
        # A cell more on either side: the game may push a unit a little over the edge.
        if not ((members[name] >= -1) & (members[name] <= MAP_SIZE + 1))[members["alive"]].all():
            return f"{name} leads out of the map; allowed: 0 … {MAP_SIZE}"
    steps, lengths, actions = len(members["actions"]), members["lengths"], members["actions"]
    if lengths.min() < 1 or lengths.max() != steps:
        return f"lengths are {lengths.min()} … {lengths.max()} of {steps} steps"
    fought = np.arange(steps)[:, None] < lengths
    if not (((actions >= 0) & (actions < choices)).all(2) == fought).all() or not (actions[~fought] == -1).all():
        return f"actions are not 0 … {choices - 1} in a battle and -1 after it"
    if not (members["outcomes"] == outcomes_of(members["alive"][-1], agents)).all():
        return "outcomes do not fit who is alive at the end"
    return ""
