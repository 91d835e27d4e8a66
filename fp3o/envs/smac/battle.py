"""The arrays of the embedded engine: the state of battles, the constants of a scenario, and where units start."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from fp3o.envs.smac.layouts import Array, max_reward
from fp3o.envs.smac.scenarios import Group, Scenario
from fp3o.envs.smac.terrain import Ground
from fp3o.envs.smac.units import (
    COOLDOWN_NOISE,
    KINDS,
    LOOPS_PER_SECOND,
    RANGE_SLOP,
    SCAN_RANGE,
    UnitType,
    table,
)

DIRECT, MISSILE, BEAM, BLAST = range(4)
_BLOWS = {"direct": DIRECT, "missile": MISSILE, "beam": BEAM, "blast": BLAST}
SPAWN_GAP = 0.1  # assumed: free space (cells) between units at the start
SPAWN_JITTER = 0.05  # assumed: random offset (cells) at the start; at most half the gap, so that no units overlap
EVERYWHERE = 1000.0  # a scan range (cells) that covers the map
SINCE_REVISION_3 = ("post_x", "post_y", "chase", "call_wait")
"""Fields of `Battles` that revision 2 neither uses nor saves."""


SLOT, AGENT, UNIT = "slot", "agent", "unit"  # what has an entry: arrays [N], [N, A] or [N, U]


class Battles(NamedTuple):
    """The state of N battles of U units (allies first). What is saved and restored."""

    x: Array  # of units, float32, like all that say nothing else
    y: Array
    health: Array
    shield: Array
    cooldown: Array  # game loops until the weapon is ready
    windup: Array  # game loops until the attack in progress strikes; 0: none
    flight: Array  # game loops until the next of `strikes` lands
    aim_x: Array  # direction of a beam
    aim_y: Array
    velocity_x: Array  # per game loop, as last steered
    velocity_y: Array
    lost: Array  # sum of health and shield lost to hits …
    regained: Array  # … and of both recovered: for tests of conservation
    spot_x: Array  # if has_spot: the place, relative to its target, that a melee unit walks to
    spot_y: Array
    quiet: Annotated[Array, UNIT, np.int32]  # game loops since the last damage
    target: Annotated[Array, UNIT, np.int16]  # the unit it attacks or follows; -1: none
    victim: Annotated[Array, UNIT, np.int16]  # the unit that hits in progress are aimed at
    strikes: Annotated[Array, UNIT, np.int8]  # hits in progress that have not landed yet
    side: Annotated[Array, UNIT, np.int8]  # the side on which the unit last went around others
    has_spot: Annotated[Array, UNIT, np.bool_]
    fighting: Annotated[Array, UNIT, np.bool_]  # in range of its target
    alive: Annotated[Array, UNIT, np.bool_]
    post_x: Array  # where a unit that chases an attacker was when it began to; this and the next three: revision 3
    post_y: Array
    chase: Annotated[Array, UNIT, np.int8]  # FREE, CHASING or RETURNING
    call_wait: Annotated[Array, UNIT, np.int32]  # game loops until a unit that is hit may call for help again
    last_action: Annotated[Array, AGENT, np.int64]  # -1 after a reset
    goal_x: Annotated[Array, AGENT, np.float32]  # of a move order
    goal_y: Annotated[Array, AGENT, np.float32]
    moving: Annotated[Array, AGENT, np.bool_]  # whether the last order was a move
    seed: Annotated[Array, SLOT, np.uint64]
    episode: Annotated[Array, SLOT, np.int64]
    tick: Annotated[Array, SLOT, np.int64]  # game loops since the start of the episode
    step: Annotated[Array, SLOT, np.int64]
    running: Annotated[Array, SLOT, np.bool_]  # false for frozen slots
    total: Annotated[Array, SLOT, np.float64]  # return so far


class Rules(NamedTuple):
    """The constants of a scenario. Arrays are [U], one entry per unit; lengths in cells, times in game loops."""

    agents: int
    limit: int
    """Steps per episode."""
    best: float
    """The return of a flawless win before scaling (smac's max_reward)."""
    kind: Array
    """Index of the unit's type in `KINDS`."""
    scripted: Array
    """Bool: follows the attack-move order instead of actions."""
    spawn_x: Array
    spawn_y: Array
    jitter: np.float32
    order_x: Array
    order_y: Array
    max_health: Array
    max_shield: Array
    armour: Array
    regeneration: Array
    raw: Array
    """[U, U] damage of one hit before shield and armour, by attacker and target."""
    hits: Array
    period: Array
    noise_low: np.float32
    noise_span: np.float32
    damage_point: Array
    reach: Array
    scan: Array
    slop: Array
    blow: Array
    delay: Array
    missile_speed: Array
    area: Array
    area_margin: Array
    speed: Array
    radius: Array
    separation: Array
    layer: Array
    melee: Array
    """Bool: has to stand beside its target."""
    calls: bool
    """Whether units that are hit call for help and chase attackers: revision 3."""
    help_radius: np.float32
    help_period: int
    leash: np.float32
    leash_reset: np.float32
    redirects: int
    """NEVER, NEARER or ALWAYS."""
    scan_period: int


@dataclass(frozen=True)
class Response:
    """How scripted units find targets and answer attacks. Lengths in cells."""

    help_radius: float = 4.0
    """A unit that is hit calls friends whose edge is within this distance of its centre. Catalogue:
    CGame.CallForHelpRadius; that it reaches to a friend's edge, as areas of effect do, is assumed."""
    help_period: float = 2.0
    """Seconds between two calls of one unit (catalogue: CGame.CallForHelpPeriod)."""
    leash: float = 21.0
    """A unit chases an attacker out of its scan range until it is this far from where it began to (catalogue:
    CGame.AcquireLeashRadius); then it goes back, …"""
    leash_reset: float = 5.0
    """… and answers no calls until it is this near to that place again (catalogue: CGame.AcquireLeashResetRadius). That
    it goes on scanning on its way, and answers hits on itself, is assumed."""
    redirects: Literal["never", "nearer", "always"] = "nearer"
    """Whether a call turns a unit away from a target that it walks to but cannot hit yet; nearer: if the attacker is
    nearer, the rule of scanning. Assumed; the catalogue does not say. A unit that is hitting a target stays with it in
    any case, as players know it."""
    scan_period: int = 4
    """Game loops after which a unit that walks to a target looks for a nearer one: 1, 2, 4 or 8, so that every step
    begins with a look. Assumed."""


@dataclass(frozen=True)
class Steering:
    """How units walk around each other. The game does not publish this: calibrated, the same for all maps.

    A heading is rated by the cosine of its angle to the straight line, minus the cost of units in its way.
    """

    look_ahead: float = 0.35
    """Distance (cells) ahead at which a heading is tested."""
    attacker_load: float = 1.2
    """Cost of a heading that runs into a friend that is fighting or into a wall, …"""
    enemy_load: float = 1.0
    """… into an enemy, …"""
    friend_load: float = 0.35
    """… into a friend that is walking."""
    side_bonus: float = 0.8
    """Added for going around on the same side as last time."""
    detour: float = 0.5
    """Cost, relative to a straight cell, of a cell around the target for a melee unit looking for a free place."""
    occupied: float = 0.75
    """A place is taken if a unit is nearer to it than this fraction of the two units' separation."""
    no_place: float = 1.5
    """Cells by which a target without a free place counts as further away."""
    push: float = 0.7
    """Fraction of an overlap that one pass of separation removes."""


def steering_numbers(steering: Steering) -> Steering:
    """In single precision, as the kernels compute."""
    numbers: dict[str, Any] = {name: np.float32(value) for name, value in asdict(steering).items()}
    return Steering(**numbers)


def make_rules(
    scenario: Scenario,
    ground: Ground,
    profile: str = "liberty",
    *,
    engine_revision: int = 3,
    response: Response | None = None,
    scripted_allies: bool = False,
    noise: bool = True,
) -> Rules:
    """The constants of a scenario. `scripted_allies` and `noise` are for experiments."""
    response = response or Response()
    rows: dict[str, UnitType] = {row.name: row for row in table(profile, engine_revision)}
    kinds = scenario.ally_kinds + scenario.enemy_kinds
    units = [rows[kind] for kind in kinds]
    agents = scenario.agents
    loops = float(LOOPS_PER_SECOND)

    def column(name: str, factor: float = 1) -> Array:
        return np.array([getattr(unit, name) * factor for unit in units], np.float32)

    spawn_x, spawn_y = _spawn(scenario, rows, ground)
    ally_order = [(scenario.enemies[0].x, scenario.enemies[0].y)] * agents
    enemy_order = [scenario.order or (scenario.allies[0].x, scenario.allies[0].y)] * scenario.opponents
    orders = np.array(ally_order + enemy_order, np.float32)
    raw = [
        [a.damage + (a.bonus if a.bonus_against and a.bonus_against == b.attribute else 0) for b in units]
        for a in units
    ]
    low, high = COOLDOWN_NOISE if noise else (0.0, 0.0)
    hunting = scenario.order is None
    return Rules(
        agents=agents,
        limit=scenario.limit,
        best=max_reward(scenario, profile),
        kind=np.array([KINDS.index(kind) for kind in kinds]),
        scripted=np.array([scripted_allies] * agents + [True] * scenario.opponents),
        spawn_x=spawn_x,
        spawn_y=spawn_y,
        jitter=np.float32(SPAWN_JITTER),
        order_x=orders[:, 0].copy(),
        order_y=orders[:, 1].copy(),
        max_health=column("health"),
        max_shield=column("shield"),
        raw=np.array(raw, np.float32),
        hits=np.array([unit.hits for unit in units], np.int8),
        noise_low=np.float32(low * loops),
        noise_span=np.float32((high - low) * loops),
        scan=np.array([EVERYWHERE if hunting else max(SCAN_RANGE, unit.reach) for unit in units], np.float32),
        slop=np.array([0.0 if unit.name == "colossus" else RANGE_SLOP for unit in units], np.float32),
        blow=np.array([_BLOWS[unit.blow] for unit in units], np.int8),
        layer=np.array([int(unit.walks_cliffs) for unit in units], np.uint8),
        melee=np.array([unit.reach < 1 for unit in units]),
        calls=engine_revision > 2,
        help_radius=np.float32(response.help_radius),
        help_period=round(response.help_period * loops),
        leash=np.float32(response.leash),
        leash_reset=np.float32(response.leash_reset),
        redirects=("never", "nearer", "always").index(response.redirects),
        scan_period=response.scan_period,
        **{name: column(name) for name in ("armour", "reach", "area", "area_margin", "radius", "separation")},
        **{name: column(name, loops) for name in ("period", "damage_point", "delay")},
        **{name: column(name, 1 / loops) for name in ("speed", "missile_speed", "regeneration")},
    )


def _spawn(scenario: Scenario, rows: dict[str, UnitType], ground: Ground) -> tuple[Array, Array]:
    """Start positions: each unit at the free place nearest to its group's point; enemies mirror the allies' pattern."""
    fine = np.arange(-8, 8.01, 0.125)
    offset_x, offset_y = (grid.ravel() for grid in np.meshgrid(fine, fine, indexing="ij"))
    order = np.lexsort((np.arctan2(offset_y, offset_x), np.round(np.hypot(offset_x, offset_y), 6)))
    offset_x, offset_y = offset_x[order], offset_y[order]
    placed: list[tuple[float, float, float]] = []

    def place(group: Group, sign: float) -> None:
        separation = rows[group.kind].separation
        x, y = group.x + sign * offset_x, group.y + sign * offset_y
        free = ground.walkable[0, np.clip(2 * x, 0, 63).astype(int), np.clip(2 * y, 0, 63).astype(int)].copy()
        for other_x, other_y, other in placed:
            free &= np.hypot(x - other_x, y - other_y) >= separation + other + SPAWN_GAP
        for _ in range(group.count):
            spot = int(np.argmax(free))
            placed.append((x[spot], y[spot], separation))
            free &= np.hypot(x - x[spot], y - y[spot]) >= 2 * separation + SPAWN_GAP

    for group in scenario.allies:
        place(group, 1.0)
    for group in scenario.enemies:
        place(group, -1.0)
    spots = np.array(placed, np.float32)
    return spots[:, 0].copy(), spots[:, 1].copy()
