"""The part of smac's StarCraft2Env that we use, replaying one recording instead of a game.

FAKE_SMAC_RECORDING names the file, the seed chooses the instance in it. FAKE_SMAC_CRASH and FAKE_SMAC_RESTART name a
file each; while it does not exist, the second step creates it and kills the process, or restarts the game as smac does
when it has lost the connection.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

FIRST_ALLIED_ID = 1900
STOCK_IDS = {"baneling": 9, "colossus": 4, "hydralisk": 107, "marine": 48, "stalker": 74, "zealot": 73, "zergling": 105}


class StarCraft2Env:
    def __init__(self, map_name: str, seed: int) -> None:
        with np.load(os.environ["FAKE_SMAC_RECORDING"], allow_pickle=False) as data:
            self.data = {key: data[key] for key in data.files}
        assert map_name == str(self.data["map_name"])
        self.names = [str(name) for name in self.data["type_names"]]
        for i, name in enumerate(self.names):
            setattr(self, f"{name}_id", FIRST_ALLIED_ID + i if (self.data["ally_type"] == i).any() else 0)
        self.pathing_grid = self.data["pathing_grid"][seed].astype(bool)
        self.rows = np.nonzero(self.data["instance"] == seed)[0].tolist()
        self.at = -1
        self.force_restarts = 0
        self.agents: dict[int, Any] = {}
        self.enemies: dict[int, Any] = {}

    def reset(self) -> None:
        starts = [i for i, row in enumerate(self.rows) if self.data["t"][row] == 0]
        later = [i for i in starts if i > self.at]
        self.at = later[0] if later else 0
        self._list_units()

    def step(self, actions: list[int]) -> tuple[float, bool, dict[str, Any]]:
        if self._once("FAKE_SMAC_CRASH"):
            os._exit(3)
        if self._once("FAKE_SMAC_RESTART"):
            self.at = -1
            self.force_restarts += 1
            return 0, True, {}
        self.at += 1
        row = self.rows[self.at]
        assert actions == self.data["actions"][row].tolist()
        self._list_units()
        return (
            float(self.data["reward"][row]),
            bool(self.data["terminated"][row]),
            {"battle_won": self.data["end"][row] == 1},
        )

    def close(self) -> None:
        pass

    def _once(self, variable: str) -> bool:
        """Whether this is the step at which what the variable stands for happens."""
        mark = os.environ.get(variable)
        if not mark or self.data["t"][self.rows[self.at]] != 1 or Path(mark).exists():
            return False
        Path(mark).touch()
        return True

    def _list_units(self) -> None:
        row = self.rows[self.at]
        self.agents = {i: self._unit("ally", row, i) for i in range(int(self.data["n_agents"]))}
        self.enemies = {j: self._unit("enemy", row, j) for j in range(int(self.data["n_enemies"]))}

    def _unit(self, side: str, row: int, i: int) -> SimpleNamespace:
        name = self.names[int(self.data[f"{side}_type"][row, i])]
        return SimpleNamespace(
            unit_type=getattr(self, f"{name}_id") if side == "ally" else STOCK_IDS[name],
            pos=SimpleNamespace(x=float(self.data[f"{side}_x"][row, i]), y=float(self.data[f"{side}_y"][row, i])),
            health=float(self.data[f"{side}_hp"][row, i]),
            shield=float(self.data[f"{side}_shield"][row, i]),
            weapon_cooldown=float(self.data[f"{side}_cooldown"][row, i]),
        )
