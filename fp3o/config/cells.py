"""A cell: one entry of a results table, task × sharing × algorithm (× variant of the algorithm)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from fp3o import registry
from fp3o.config.catalogue import algorithms, catalogue, domains, tasks, variant_settings, variants
from fp3o.config.sharings import SHARINGS
from fp3o.config.tasks_schema import UNMEASURED, Measured
from fp3o.errors import UserError, unknown


class Row(NamedTuple):
    """One row of a results table; its cells differ in the algorithm."""

    domain: str
    task: str
    sharing: str

    def __str__(self) -> str:
        return "/".join(self)


def algorithm_title(label: str) -> str:
    """A label for readers: mappo-10-epochs → MAPPO (10 epochs), fp3o-3-2 → FP3O (3 + 2 epochs)."""
    algorithm, _, variant = label.partition("-")
    entry = registry.algorithms().get(algorithm)
    title = entry.title if entry else algorithm.upper()
    if re.fullmatch(r"\d+-\d+", variant):
        return f"{title} ({variant.replace('-', ' + ')} epochs)"
    return f"{title} ({variant.replace('-', ' ')})" if variant else title


def algorithm_colour(label: str) -> str:
    """The colour of the label's algorithm in every figure; its variants have the same.

    The package's are Okabe and Ito's, which colour-blind readers can tell apart.
    """
    entry = registry.algorithms().get(label.partition("-")[0])
    return entry.colour if entry else "#555555"


@dataclass(frozen=True, order=True)
class Cell:
    """One entry of a results table. Parts are those of the id, `mamujoco/ant-2x4/partial/fp3o-double-clip`."""

    domain: str
    task: str
    sharing: str
    algorithm: str
    variant: str = ""

    @property
    def id(self) -> str:
        """`<domain>/<task>/<sharing>/<algorithm>[-<variant>]`; also the name of the cell's folder."""
        return f"{self.domain}/{self.task}/{self.sharing}/{self.label}"

    @property
    def label(self) -> str:
        """`<algorithm>[-<variant>]`."""
        return f"{self.algorithm}-{self.variant}" if self.variant else self.algorithm

    @property
    def title(self) -> str:
        """The label for readers."""
        return algorithm_title(self.label)

    @property
    def row(self) -> Row:
        """Domain, task and sharing."""
        return Row(self.domain, self.task, self.sharing)

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Domain, task, sharing, label: the first columns of most CSV files."""
        return (*self.row, self.label)

    @staticmethod
    def parse(text: str) -> Cell:
        """The cell with this id; UserError unless every part is known now (see `check`)."""
        cell = Cell.of(text.strip("/"))
        cell.check()
        return cell

    @staticmethod
    @cache
    def of(text: str) -> Cell:
        """The cell with this id, unchecked: finished runs and published tables may name parts that no longer exist."""
        parts = text.split("/")
        if len(parts) != 4:
            raise UserError(f"cell {text!r} should read <domain>/<task>/<sharing>/<algorithm>[-<variant>]")
        domain, task, sharing, label = parts
        algorithm, _, variant = label.partition("-")
        return Cell(domain, task, sharing, algorithm, variant)

    def check(self) -> None:
        """UserError unless every part is known: to tasks.yaml, or as a kind of sharing."""
        if self.domain not in domains():
            raise unknown("domain", self.domain, domains(), self.id)
        if catalogue()["domains"][self.domain].get("free_tasks", False):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.task):
                raise UserError(f"task {self.task!r} in {self.id} may hold letters, digits, '.', '_' and '-' only")
        elif self.task not in tasks(self.domain):
            raise unknown("task", self.task, tasks(self.domain), self.id)
        if self.sharing not in SHARINGS:
            raise unknown("sharing", self.sharing, SHARINGS, self.id)
        if self.algorithm not in algorithms():
            raise unknown("algorithm", self.algorithm, (*algorithms(), "those of a plug-in (--import)"), self.id)
        if self.variant and variant_settings(self.algorithm, self.variant) is None:
            allowed = [*variants(self.algorithm), *["<epochs>-<epochs>"] * (self.algorithm == "fp3o")]
            allowed.append("<setting>-<value>")
            raise unknown(f"variant of {self.algorithm}", self.variant, allowed, self.id)


def measured(cell: Cell, what: Measured) -> int:
    """What training takes, by tasks.yaml, on the cell's task or else in its domain. For schedulers alone."""
    domain = catalogue()["domains"][cell.domain]
    task = (domain["tasks"] or {}).get(cell.task) or {}
    return int(task.get(what, domain.get(what, UNMEASURED[what])))


def step_seconds(cell: Cell) -> float:
    """Processor time (s) of an environment step of one seed: of the task, times what the algorithm or variant takes."""
    algorithm = catalogue()["algorithms"].get(cell.algorithm) or {}
    variant = (catalogue()["variants"].get(cell.algorithm) or {}).get(cell.variant) or {}
    percent = variant.get("work_percent", algorithm.get("work_percent", 100))
    return float(measured(cell, "step_us") * percent / 1e8)
