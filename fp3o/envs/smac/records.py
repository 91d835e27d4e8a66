"""The memory of the battle engine as its compiled functions see it: arrays of records.

A record is one pointer to the compiler. A tuple of arrays is a pointer, sizes and strides per array, which are loaded
again at every use: with sixty arrays in tuples, compiling took four times as long.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from fp3o.envs.native.ranges import empty_records, records
from fp3o.envs.smac.battle import AGENT, SLOT, UNIT, Battles, Rules, Steering, steering_numbers
from fp3o.envs.smac.constants import NEIGHBOUR_MARGIN, ONE, ROUNDING, TWO
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


class Tables(NamedTuple):
    """The constants of a scenario: the numbers and columns of `Rules`, and what follows from them."""

    game: Array  # [1]
    rules: Array  # [U]
    between: Array  # [U, U] of pairs of units
    fresh: Array  # [U] the state of units at the start of an episode, but for positions and sides


def tables_of(rules: Rules, steering: Steering, auto_reset: bool) -> Tables:
    steering = steering_numbers(steering)
    units = len(rules.kind)
    numbers = {name: value for name, value in rules._asdict().items() if np.ndim(value) == 0}
    columns = {name: value for name, value in rules._asdict().items() if np.ndim(value) == 1}
    both = rules.separation[:, None] + rules.separation
    margin, place = both + NEIGHBOUR_MARGIN, steering.occupied * both
    together = rules.layer[:, None] == rules.layer
    fresh = empty_state(1, units).units[0]
    start = {"health": rules.max_health, "shield": rules.max_shield, "alive": True}
    for name, value in (start | dict.fromkeys(("target", "victim", "last_action"), -1)).items():
        fresh[name] = value
    return Tables(
        records((1,), **numbers, **asdict(steering), auto_reset=auto_reset),
        # spread: cells around a place beside a target within which another unit can take it.
        records((units,), **columns, spread=np.minimum(place + ROUNDING, TWO).max(axis=1)),
        records(
            (units, units),
            raw=rules.raw,
            near=both * both,  # squared distance below which two units overlap …
            close=np.where(together, margin * margin, -ONE),  # … are neighbours; −1, never, if on different layers
            taken=np.where(together, place * place, -ONE),  # … one takes the other's place beside a target; likewise
        ),
        fresh,
    )


class Work(NamedTuple):
    """Working memory of P threads; one battle after another uses it."""

    bodies: Array  # [P, U]
    places: Array  # [P, 2, U] where a unit stands, or is about to, in the eyes of allies (0) and of enemies (1)
    blocks: Array  # [P, U] a list of units in the way, relative to the point of interest
    pairs: Array  # [P, U (U − 1) / 2] a list of neighbours u < v, in ascending order
    neighbours: Array  # [P, U, U] of each unit a list of its neighbours, in ascending order


def empty_work(threads: int, units: int) -> Work:
    return Work(
        bodies=empty_records(
            (threads, units),
            order=np.int64,  # the unit whose turn it is to choose a target
            vitality=np.float64,  # health plus shield before the step
            alive_before=np.bool_,
            crowd=np.int32,  # number of neighbours
            mode=np.int8,
            mobility=_REAL,
            new_x=_REAL,
            new_y=_REAL,
            push_x=_REAL,
            push_y=_REAL,
            dying=np.bool_,
        ),
        places=empty_records((threads, 2, units), x=_REAL, y=_REAL),
        # square: squared distance at which a unit is in the way; load: what it costs.
        blocks=empty_records((threads, units), x=_REAL, y=_REAL, square=_REAL, load=_REAL),
        pairs=empty_records((threads, units * (units - 1) // 2), u=np.uint16, v=np.uint16, near=_REAL),
        neighbours=np.zeros((threads, units, units), np.uint16),
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
