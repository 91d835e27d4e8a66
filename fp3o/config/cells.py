"""A cell: one entry of a table, task × sharing × algorithm (× variant)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fp3o.config.sharings import SHARINGS
from fp3o.config.sources import algorithms, catalogue, domains, tasks, variants
from fp3o.errors import UserError, unknown


@dataclass(frozen=True, order=True)
class Cell:
    """One entry of a table: task × sharing × algorithm (× variant)."""

    domain: str
    task: str
    sharing: str
    algorithm: str
    variant: str = ""

    @property
    def id(self) -> str:
        """`<domain>/<task>/<sharing>/<algorithm>[-<variant>]`, also the cell's folder."""
        return f"{self.domain}/{self.task}/{self.sharing}/{self.label}"

    @property
    def label(self) -> str:
        """`<algorithm>[-<variant>]`."""
        return f"{self.algorithm}-{self.variant}" if self.variant else self.algorithm

    @staticmethod
    def parse(text: str) -> Cell:
        """Read a cell id; every part is checked against what exists."""
        parts = text.strip("/").split("/")
        if len(parts) != 4:
            raise UserError(f"cell {text!r} should read <domain>/<task>/<sharing>/<algorithm>[-<variant>]")
        domain, task, sharing, label = parts
        algorithm, _, variant = label.partition("-")
        cell = Cell(domain, task, sharing, algorithm, variant)
        cell.check()
        return cell

    def check(self) -> None:
        """Raise UserError unless every part is known."""
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
            raise unknown("algorithm", self.algorithm, algorithms(), self.id)
        if self.variant and self.variant not in variants(self.algorithm):
            allowed = variants(self.algorithm) or ["(none)"]
            raise unknown(f"variant of {self.algorithm}", self.variant, allowed, self.id)
