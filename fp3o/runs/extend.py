"""A finished run's plan with a longer budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fp3o.config import Cell, Plan, Scalar, resolve
from fp3o.config.settings import schedules_of
from fp3o.errors import UserError


class Plans(NamedTuple):
    """The plan of a finished run (old), and the same with more steps (new)."""

    old: Plan
    new: Plan


def extend(document: Mapping[str, Any], total_steps: int) -> Plans:
    """The plan of a run.json, and the same for `total_steps` environment steps per seed.

    UserError if this version of fp3o resolves the run's settings to another digest, or if the budget is not longer.
    """
    cell = Cell.parse(document["cell"])
    values: dict[str, Scalar] = {**document["settings"], **document["options"]}
    old = resolve(cell, values)
    if old.digest != document["digest"]:
        raise UserError(
            f"{cell.id} {document['digest']} was made by another version of fp3o, its environments or its plug-ins, "
            "and can only go on with those"
        )
    if varying := schedules_of(old.settings):
        names = ", ".join(varying)
        raise UserError(f"{cell.id} cannot go on: its {names} would have changed more slowly in a longer run")
    least = (old.iterations + 1) * old.settings.rollout_length * old.settings.rollout_threads
    if total_steps < least:
        done = f"{old.settings.total_steps:,} steps are done"
        raise UserError(f"--total-steps {total_steps} is not allowed: {done}; allowed: {least} or more")
    return Plans(old, _plainly(cell, values | {"total_steps": total_steps}))


def _plainly(cell: Cell, values: dict[str, Scalar]) -> Plan:
    """The plan with these values and as few overrides as possible, as a user would have given them by --set.

    A value is dropped if the plan's digest stays the same without it. From the last to the first, because a setting
    may take its default from one before it.
    """
    plan = resolve(cell, values)
    for name in reversed(list(values)):
        fewer = {key: value for key, value in values.items() if key != name}
        try:
            without = resolve(cell, fewer)
        except UserError:
            continue
        if without.digest == plan.digest:
            plan, values = without, fewer
    return plan
