"""The unit types: every number of the game's catalogue that the engine uses, with its source.

Times are in *normal* seconds, the catalogue's unit: 16 game loops. A "faster" second, which the game displays, has 1.4
times as many loops: numbers quoted per faster second (speed 3.15, cooldown 0.61 …) must not be used here.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Literal

from fp3o.errors import unknown

LOOPS_PER_SECOND = 16  # "normal" game speed
LOOPS_PER_STEP = 8  # smac package: step_mul

Attribute = Literal["light", "armoured"]
Race = Literal["terran", "protoss", "zerg"]
Blow = Literal["direct", "missile", "beam", "blast"]


@dataclass(frozen=True, kw_only=True)
class UnitType:
    """One row of the unit table. Lengths in map cells, times in normal seconds."""

    name: str
    race: Race
    attribute: Attribute | None = None
    health: float
    shield: float = 0
    armour: float = 0
    damage: float
    hits: int = 1
    """Hits per attack: zealots strike twice, the colossus has two beams."""
    bonus: float = 0
    """Extra damage per hit against `bonus_against`."""
    bonus_against: Attribute | None = None
    period: float
    """Time between two attacks, without the game's random delay."""
    damage_point: float = 0
    """Time from the start of an attack to its (first) hit; moving away before that cancels the attack."""
    reach: float
    """Weapon range, between the edges of the two units."""
    speed: float
    radius: float
    """Radius for weapon ranges and areas of effect."""
    separation: float
    """Radius for collisions."""
    blow: Blow
    delay: float = 0
    """direct: time from the first to the second hit, during which the unit stands still; a new order cancels the second
    hit (catalogue: the effect PsiBladesBurst is channeled). beam: time from firing to hitting. Otherwise unused."""
    missile_speed: float = 0
    """missile only."""
    area: float = 0
    """blast: radius of the damaged disc around the unit. beam: half the length of the damaged line."""
    area_margin: float = 0
    """beam: distance from the line up to which a unit's edge is hit."""
    regeneration: float = 0
    """Health per second."""
    walks_cliffs: bool = False
    """Whether neither cliffs nor ground units block it."""
    observed_cooldown: float
    """Game loops by which smac divides cooldowns in observations (stalker and colossus seem swapped there)."""


SHIELD_DELAY = 10.0  # catalogue: seconds without damage before shields recover
SHIELD_RATE = 2.0  # catalogue: shield points per second from then on
LEAST_DAMAGE = 0.5  # catalogue (CGame.DamageMinimum): the least damage of a hit, whatever the armour
COOLDOWN_NOISE = (-0.0625, 0.125)  # catalogue: uniform random delay of every cooldown, i.e. −1 … +2 game loops
SCAN_RANGE = 5.0  # catalogue: targets are acquired within max(5, weapon range), edge to edge
RANGE_SLOP = 1.0  # catalogue: how far a target may drift out of range during the wind-up (colossus: 0)

LIBERTY: dict[str, UnitType] = {
    unit.name: unit
    for unit in (
        UnitType(
            name="baneling", race="zerg", health=30, regeneration=0.2734, speed=2.5, radius=0.375, separation=0.375,
            blow="blast", damage=20, bonus=15, bonus_against="light", period=0.833, reach=0.25, area=2.2,
            observed_cooldown=1,
        ),
        UnitType(
            name="colossus", race="protoss", attribute="armoured", health=200, shield=150, armour=1, speed=2.25,
            radius=1.0, separation=0.75, walks_cliffs=True, blow="beam", damage=20, hits=2, period=2.2,
            damage_point=0.083, reach=6, delay=0.3125, area=1.25, area_margin=0.15, observed_cooldown=24,
        ),
        UnitType(
            name="hydralisk", race="zerg", attribute="light", health=80, regeneration=0.2734, speed=2.25, radius=0.625,
            separation=0.5, blow="missile", damage=12, period=0.83, damage_point=0.208, reach=5, missile_speed=40,
            observed_cooldown=10,
        ),
        UnitType(
            name="marine", race="terran", attribute="light", health=45, speed=2.25, radius=0.375, separation=0.375,
            blow="direct", damage=6, period=0.8608, damage_point=0.05, reach=5, observed_cooldown=15,
        ),
        UnitType(
            name="stalker", race="protoss", attribute="armoured", health=80, shield=80, armour=1, speed=2.9531,
            radius=0.625, separation=0.625, blow="missile", damage=10, bonus=4, bonus_against="armoured", period=1.44,
            damage_point=0.167, reach=6, missile_speed=18.75, observed_cooldown=35,
        ),
        UnitType(
            name="zealot", race="protoss", attribute="light", health=100, shield=50, armour=1, speed=2.25, radius=0.5,
            separation=0.375, blow="direct", damage=8, hits=2, period=1.2, reach=0.1, delay=0.28, observed_cooldown=22,
        ),
        UnitType(
            name="zergling", race="zerg", attribute="light", health=35, regeneration=0.2734, speed=2.9531, radius=0.375,
            separation=0.375, blow="direct", damage=5, period=0.696, damage_point=0.167, reach=0.1,
            observed_cooldown=11,
        ),
    )
}  # fmt: skip

# Where Legacy of the Void differs. SMAC's maps do not load it: this profile is for sensitivity analyses only.
LEGACY: dict[str, UnitType] = LIBERTY | {
    "stalker": replace(LIBERTY["stalker"], damage=13, bonus=5, period=1.87),
    "colossus": replace(LIBERTY["colossus"], damage=10, hits=2, bonus=5, bonus_against="light", period=1.5, reach=7),
    "hydralisk": replace(LIBERTY["hydralisk"], health=90),
}

PROFILES: dict[str, dict[str, UnitType]] = {"liberty": LIBERTY, "legacy": LEGACY}
KINDS: tuple[str, ...] = tuple(LIBERTY)
"""The unit types, alphabetically; the index of a type in arrays is its place here."""

_CATALOGUE = "game catalogue Liberty.SC2Mod, builds 5.0.10 to 5.0.14 (the maps' only dependency)"
_SMAC = "smac package, unit_max_cooldown"
_OVERRIDES: dict[tuple[str, str], str] = {
    ("baneling", "period"): "unused: a baneling attacks once",
    ("colossus", "delay"): "catalogue: the beams land .25 to .375 s after firing; their mean",
    ("hydralisk", "missile_speed"): "catalogue, liberty.sc2mod: NeedleSpinesWeapon, Speed and MaxSpeed",
    ("stalker", "missile_speed"): "catalogue, core.sc2mod: MissileDefault, MaxSpeed",
}
_LEGACY = "Legacy of the Void multiplayer balance"


def source(profile: str, unit: str, field: str) -> str:
    """The source of one number of the unit table."""
    if getattr(PROFILES[profile][unit], field) != getattr(LIBERTY[unit], field):
        return _LEGACY
    if field == "observed_cooldown":
        return _SMAC
    return _OVERRIDES.get((unit, field), _CATALOGUE)


def table(profile: str, revision: int = 3) -> tuple[UnitType, ...]:
    """The unit types of a profile in the order of KINDS, as this revision of the engine has them."""
    if profile not in PROFILES:
        raise unknown("unit profile", profile, PROFILES)
    units = tuple(PROFILES[profile][kind] for kind in KINDS)
    if revision > 2:
        return units
    return tuple(replace(unit, missile_speed=20) if unit.blow == "missile" else unit for unit in units)


def data_hash(profile: str, revision: int = 3) -> str:
    """Digest of the unit table, so that results with different tables are never mixed."""
    rows = [asdict(unit) for unit in table(profile, revision)]
    common = [SHIELD_DELAY, SHIELD_RATE, LEAST_DAMAGE, COOLDOWN_NOISE, SCAN_RANGE, RANGE_SLOP]
    return hashlib.sha256(json.dumps([rows, common], sort_keys=True).encode()).hexdigest()[:16]
