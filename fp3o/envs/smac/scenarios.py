"""The scenarios: units of both sides, start points, terrain, time limit. Coordinates are from SMAC's map files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TerrainName = Literal["band", "arena", "octagon", "corridor", "plateau"]


@dataclass(frozen=True)
class Group:
    """Units that start at one point; they are placed at the free places nearest to it."""

    kind: str
    count: int
    x: float
    y: float


@dataclass(frozen=True)
class Scenario:
    """One map. Nothing but these fields differs between maps."""

    name: str
    allies: tuple[Group, ...]
    """In the order of smac's unit type ids, which is the order of agents."""
    enemies: tuple[Group, ...]
    """In the order of creation, which is the order of enemy indices."""
    order: tuple[float, float] | None
    """Where enemies attack-move to; None: they are ordered to attack the allied units themselves."""
    terrain: TerrainName
    limit: int

    @property
    def ally_kinds(self) -> tuple[str, ...]:
        return tuple(group.kind for group in self.allies for _ in range(group.count))

    @property
    def enemy_kinds(self) -> tuple[str, ...]:
        return tuple(group.kind for group in self.enemies for _ in range(group.count))

    @property
    def agents(self) -> int:
        return len(self.ally_kinds)

    @property
    def opponents(self) -> int:
        return len(self.enemy_kinds)

    @property
    def actions(self) -> int:
        """Number of actions: no-op, stop, four moves, one attack per enemy."""
        return 6 + self.opponents

    @property
    def type_bits(self) -> int:
        """Length of the one-hot unit type; 0 where each side has a single type."""
        kinds = len(set(self.ally_kinds) | set(self.enemy_kinds))
        return kinds if len(set(self.ally_kinds)) > 1 else 0

    @property
    def ally_bits(self) -> dict[str, int]:
        """Index of each type in allies' one-hot. Allies have the map's own type ids, numbered alphabetically."""
        return {kind: bit for bit, kind in enumerate(sorted(set(self.ally_kinds)))}

    @property
    def enemy_bits(self) -> dict[str, int]:
        """Likewise for enemies, by the game's type ids: zealot before stalker, baneling before zergling."""
        stock_id = {"baneling": 9, "marine": 48, "zealot": 73, "stalker": 74, "zergling": 105}
        kinds = sorted(set(self.enemy_kinds), key=lambda kind: stock_id.get(kind, 0))
        return {kind: bit for bit, kind in enumerate(kinds)}


def _face_to_face(name: str, limit: int, allies: dict[str, int], enemies: dict[str, int]) -> Scenario:
    """The common kind of map: two armies 14 cells apart in a full-width band."""
    return Scenario(
        name,
        tuple(Group(kind, count, 9, 16) for kind, count in allies.items()),
        tuple(Group(kind, count, 23, 16) for kind, count in enemies.items()),
        (9, 16),
        "band",
        limit,
    )


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "bane_vs_bane",
            (Group("baneling", 4, 16, 8), Group("zergling", 20, 16, 11)),
            (Group("baneling", 4, 16, 24), Group("zergling", 20, 16, 21)),
            (16, 8),
            "octagon",
            200,
        ),
        Scenario("2c_vs_64zg", (Group("colossus", 2, 16, 16),), (Group("zergling", 64, 16, 9),), None, "plateau", 400),
        _face_to_face("3s5z", 150, {"stalker": 3, "zealot": 5}, {"stalker": 3, "zealot": 5}),
        _face_to_face("5m_vs_6m", 70, {"marine": 5}, {"marine": 6}),
        Scenario(
            "corridor",
            (Group("zealot", 6, 19.04, 19.12),),
            (Group("zergling", 24, 27.91, 28.24),),
            (4.47, 4.33),
            "corridor",
            400,
        ),
        Scenario(
            "6h_vs_8z",
            (Group("hydralisk", 6, 14.60, 9.49),),
            (Group("zealot", 8, 14.41, 16.76),),
            (14.60, 9.49),
            "arena",
            150,
        ),
        _face_to_face("10m_vs_11m", 150, {"marine": 10}, {"marine": 11}),
        _face_to_face("3s5z_vs_3s6z", 170, {"stalker": 3, "zealot": 5}, {"stalker": 3, "zealot": 6}),
        # Not in the paper: for tests and tutorials.
        _face_to_face("3m", 60, {"marine": 3}, {"marine": 3}),
        _face_to_face("8m", 120, {"marine": 8}, {"marine": 8}),
        _face_to_face("2s3z", 120, {"stalker": 2, "zealot": 3}, {"stalker": 2, "zealot": 3}),
    )
}
