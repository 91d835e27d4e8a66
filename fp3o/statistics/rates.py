"""How long a cell takes, from the runs that were made: seconds per environment step, kept apart by kind of machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from fp3o import machine
from fp3o.config import Cell
from fp3o.errors import UserError
from fp3o.grouping import grouped
from fp3o.runs import records


@dataclass(frozen=True)
class Rate:
    """What one process needed for a cell, all its seeds side by side."""

    cell: str
    device: str
    host: str
    seconds_per_step: float
    """Per environment step of one seed."""


def measured(results: Path) -> list[Rate]:
    """Of every cell under results/*/runs, by its first seed. Runs that changed machines are left out."""
    found = []
    for path in sorted(results.glob(f"*/runs/*/*/*/*/*/seed-0/{records.RUN}")):
        rate = rate_of(json.loads(path.read_text()))
        if rate is not None:
            found.append(rate)
    return found


def rate_of(document: Mapping[str, Any]) -> Rate | None:
    volatile, steps = document["volatile"], document["settings"]["total_steps"]
    moved = any("path changed" in note for note in volatile.get("notes", ()))
    if moved or document["status"] != "finished":
        return None
    seconds = sum(volatile["seconds"].get(part, 0.0) for part in ("rollout", "update", "evaluation"))
    return Rate(document["cell"], document["path"]["device"], volatile["host"], seconds / steps)


@dataclass(frozen=True)
class Rates:
    """Rates of one device: of this machine where it has any, else of all machines that have such a device."""

    rates: tuple[Rate, ...]
    device: str

    @staticmethod
    def on(rates: Iterable[Rate], device: str, host: str = "") -> Rates:
        every = tuple(rates)
        there = tuple(rate for rate in every if rate.device == device)
        if not there:
            known = ", ".join(sorted({rate.device for rate in every})) or "none: pull or train runs first"
            raise UserError(f"no run was timed on {device!r}; measured: {known}")
        own = tuple(rate for rate in there if rate.host == (host or machine.host()))
        return Rates(own or there, device)

    @property
    def hosts(self) -> list[str]:
        return sorted({rate.host for rate in self.rates})

    @cached_property
    def _by_part(self) -> dict[tuple[str, ...], float]:
        """Medians by ever fewer parts of a cell's name."""
        groups = grouped((key, rate.seconds_per_step) for rate in self.rates for key in _keys(Cell.of(rate.cell)))
        return {key: median(values) for key, values in groups.items()}

    def minutes(self, cell: str, steps: int) -> float | None:
        """Of a cell with all its seeds; from the likest cells that were timed. None if nothing of its domain was."""
        known = (self._by_part.get(key) for key in _keys(Cell.of(cell)))
        return next((steps * rate / 60 for rate in known if rate is not None), None)


def _keys(cell: Cell) -> list[tuple[str, ...]]:
    """From the cell itself to its domain."""
    return [
        (cell.domain, cell.task, cell.sharing, cell.label),
        (cell.domain, cell.task, "", cell.label),
        (cell.domain, cell.task, "", cell.algorithm),
        (cell.domain, cell.task),
        (cell.domain,),
    ]
