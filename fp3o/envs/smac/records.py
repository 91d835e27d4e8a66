"""The memory of the battle engine as its compiled functions see it: arrays of records.

A record is one pointer to the compiler. A tuple of arrays is a pointer, sizes and strides per array, which are loaded
again at every use: with sixty arrays in tuples, compiling took four times as long.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from fp3o.envs.native.intrinsics import LANES
from fp3o.envs.native.ranges import empty_records, records
from fp3o.envs.smac.battle import AGENT, SLOT, UNIT, Battles, Rules, Steering, steering_numbers
from fp3o.envs.smac.constants import NEIGHBOUR_MARGIN, NOWHERE, ONE, ROUNDING, TWO
from fp3o.envs.smac.layouts import Array, Encoding
from fp3o.envs.smac.terrain import Ground

_REAL = np.float32
_FIELDS: dict[str, tuple[str, Any]] = {
    name: getattr(hint, "__metadata__", (UNIT, _REAL))
    for name, hint in get_type_hints(Battles, include_extras=True).items()
}
"""Of `Battles`: what has an entry, and of which type."""


class State(NamedTuple):
    """The state of N battles of U units. What is saved and restored."""

    slots: Array  # [N]
    units: Array  # [N, U]; what only agents have is unused for the others


def empty_state(slots: int, units: int) -> State:
    """All battles, before the first reset."""
    per_slot = {name: kind for name, (what, kind) in _FIELDS.items() if what == SLOT}
    per_unit = {name: kind for name, (what, kind) in _FIELDS.items() if what != SLOT}
    return State(empty_records((slots,), **per_slot), empty_records((slots, units), **per_unit))


def by_name(state: State, agents: int) -> Battles:
    """Views of a state, an array per field."""

    def view(name: str, what: str) -> Array:
        if what == SLOT:
            return state.slots[name]
        return state.units[name][:, :agents] if what == AGENT else state.units[name]

    return Battles(*(view(name, what) for name, (what, _) in _FIELDS.items()))


class Limits(NamedTuple):
    """Squared distances [G, L] from units of a group to each unit, below which the two …; −1, never, on different
    layers and for what fills up the `LANES`."""

    near: Array  # overlap
    close: Array  # are neighbours
    ahead: Array  # can touch each other by their look-ahead
    taken: Array  # one takes the other's place beside a target


class Tables(NamedTuple):
    """The constants of a scenario: the numbers and columns of `Rules`, and what follows from them."""

    game: Array  # [1]
    rules: Array  # [U]
    raw: Array  # [U, U] as in `Rules`
    limits: Limits
    fresh: Array  # [U] the state of units at the start of an episode, but for positions and sides


def tables_of(rules: Rules, steering: Steering, auto_reset: bool) -> Tables:
    steering = steering_numbers(steering)
    units = len(rules.kind)
    numbers = {name: value for name, value in rules._asdict().items() if np.ndim(value) == 0}
    columns = {name: value for name, value in rules._asdict().items() if np.ndim(value) == 1}
    both = rules.separation[:, None] + rules.separation
    place = steering.occupied * both
    reaches = np.stack([both, both + NEIGHBOUR_MARGIN, both + steering.look_ahead + ROUNDING, place], 1)
    squares = np.where(rules.layer[:, None, None] == rules.layer, reaches * reaches, -ONE)
    # Units of one type have the same distances: few rows, so that they stay in the fastest cache.
    rows, group = np.unique(squares, axis=0, return_inverse=True)
    rows = np.pad(rows, ((0, 0), (0, 0), (0, lanes(units) - units)), constant_values=-ONE)
    fresh = empty_state(1, units).units[0]
    start = {"health": rules.max_health, "shield": rules.max_shield, "alive": True}
    for name, value in (start | dict.fromkeys(("target", "victim", "last_action"), -1)).items():
        fresh[name] = value
    return Tables(
        records((1,), **numbers, **asdict(steering), auto_reset=auto_reset),
        # spread: cells around a place beside a target within which another unit can take it. group: row of `Limits`.
        records((units,), **columns, spread=np.minimum(place + ROUNDING, TWO).max(axis=1), group=group.ravel()),
        rules.raw,
        Limits(*np.ascontiguousarray(rows.swapaxes(0, 1))),
        fresh,
    )


def lanes(units: int) -> int:
    """L: the least number of whole `LANES` that units fit into."""
    return -(-units // LANES) * LANES


class Points(NamedTuple):
    """Positions of units [L], as `within` reads them; those of nobody are NOWHERE."""

    x: Array
    y: Array


def nowhere(*shape: int) -> Points:
    return Points(np.full(shape, NOWHERE), np.full(shape, NOWHERE))


class Blocks(NamedTuple):
    """A list of units in the way [L + LANES], relative to the point of interest; behind its end is one NOWHERE."""

    x: Array
    y: Array
    square: Array  # squared distance at which a unit is in the way
    load: Array  # what it costs


class Work(NamedTuple):
    """Working memory of P threads; one battle after another uses it."""

    bodies: Array  # [P, U]
    here: Points  # [P, L] where the living are …
    there: Points  # [P, L] … and where they move to
    places: Points  # [P, 2, L] where a unit stands, or is about to, in the eyes of allies (0) and of enemies (1)
    blocks: Blocks  # [P, …]
    pairs: Array  # [P, U (U − 1) / 2] a list of neighbours u < v, in ascending order …
    overlapping: Array  # [P, U (U − 1) / 2 + 1] … and the places in it of those that overlap


def empty_work(threads: int, units: int) -> Work:
    size, pairs = lanes(units), units * (units - 1) // 2
    return Work(
        bodies=empty_records(
            (threads, units),
            order=np.uint16,  # the unit whose turn it is to choose a target
            vitality=np.float64,  # health plus shield before the step
            alive_before=np.bool_,
            mode=np.int8,
            mobility=_REAL,
            push_x=_REAL,
            push_y=_REAL,
            dying=np.bool_,
        ),
        here=nowhere(threads, size),
        there=nowhere(threads, size),
        places=nowhere(threads, 2, size),
        blocks=Blocks(*np.zeros((4, threads, size + LANES), _REAL)),
        pairs=empty_records((threads, pairs), u=np.uint16, v=np.uint16, near=_REAL),
        overlapping=np.zeros((threads, pairs + 1), np.uint16),
    )


class Shown(NamedTuple):
    """What agents and critics see, for all slots."""

    observation: Array  # [N, A, O]
    state: Array  # [N, A, S]
    available: Array  # [N, A, D]


def empty_shown(slots: int, agents: int, observation_size: int, state_size: int, actions: int) -> Shown:
    return Shown(
        np.zeros((slots, agents, observation_size), np.float32),
        np.zeros((slots, agents, state_size), np.float32),
        np.zeros((slots, agents, actions), bool),
    )


class Result(NamedTuple):
    """The result of a step."""

    reward: Array  # [N, A]
    slots: Array  # [N] total (return of the episode), length (its steps), won: valid where it ended with this step
    alive: Array  # [N, A] likewise: agents alive at its end


def empty_result(slots: int, agents: int) -> Result:
    return Result(
        reward=np.zeros((slots, agents)),
        slots=empty_records(
            (slots,), total=np.float64, length=np.int64, terminated=np.bool_, truncated=np.bool_, won=np.bool_
        ),
        alive=np.zeros((slots, agents), bool),
    )


class Scene(NamedTuple):
    """All that the kernel reads and writes."""

    tables: Tables
    ground: Ground
    encoding: Encoding
    state: State
    work: Work
    actions: Array  # [N, A]
    shown: Shown
    final: Shown
    """The same at the end of an episode."""
    result: Result
