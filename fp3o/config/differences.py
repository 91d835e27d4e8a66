"""What differs between two configurations, field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fp3o.config.cells import Cell
from fp3o.config.domains import DOMAINS, OPTIONS
from fp3o.config.settings import settings_of
from fp3o.errors import UserError
from fp3o.fields import declared, shown

WHOLE = 10_000  # Most characters of a value in run.json's deviations: in effect, never cut.


@dataclass(frozen=True, order=True)
class Change:
    """One field with another value: `epochs 5 → 10 (variant mappo-10-epochs)`. In run.json, a deviation."""

    name: str
    old: str
    new: str
    source: str = ""
    """Where the new value is from: `variant <label>`, `suite <name>`, `--set`, `follows <setting>`; "": not known."""

    def __str__(self) -> str:
        return f"{self.name} {self.old} → {self.new}" + (f" ({self.source})" if self.source else "")

    @property
    def to_the_papers(self) -> bool:
        """Whether the new value is the paper's and the default is not: its simulator, which not everybody has."""
        return self.name == "backend" and self.new in {domain.real_backend for domain in DOMAINS.values()}

    @staticmethod
    def read(text: str) -> Change:
        """The inverse of `str`, for the `deviations` of a run.json."""
        match = re.fullmatch(r"(\S+) (.*) → (.*?)(?: \(([^()]*)\))?", text)
        if match is None:
            raise UserError(f"deviation {shown(text)} not understood; it should read: name old → new (source)")
        return Change(match[1], match[2], match[3], match[4] or "")


def changes(old: Mapping[str, Any], new: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> list[Change]:
    """Fields in which two configurations (`Plan.configuration()` or run.json documents) differ.

    sources: by field name, where the new value is from.

    An `AddedLater` field that a configuration lacks counts with its earlier behaviour's value; any other field that one
    side lacks is shown as absent there.
    """
    differences = [
        Change(name, _text(old.get(name)), _text(new.get(name)))
        for name in ("cell", "protocol", "revision")
        if old.get(name) != new.get(name)
    ]
    sides = [side.get("plugins", {}) for side in (old, new)]
    for part in sorted({*sides[0], *sides[1]}):
        was, now = (side.get(part) for side in sides)
        if was != now:
            differences.append(Change(f"{part}-source", _text(was), _text(now)))
    cell = Cell.of(new["cell"])
    for part, kind in (("settings", settings_of(cell.algorithm)), ("options", OPTIONS[cell.domain])):
        later = {name: field.added_later.value for name, field in declared(kind).items() if field.added_later}
        before, after = ({**later, **side[part]} for side in (old, new))
        names = [*(name for name in declared(kind) if name in before or name in after)]
        names += sorted((set(before) | set(after)) - set(names))
        fields = declared(kind)
        names = [n for n in names if n not in fields or (fields[n].is_read(before) and fields[n].is_read(after))]
        for name in names:
            if name not in before or name not in after or before[name] != after[name]:
                source = (sources or {}).get(name, "")
                differences.append(Change(name, _text(before.get(name)), _text(after.get(name)), source))
    return differences


def _text(value: object) -> str:
    return "absent" if value is None else shown(value, WHOLE)
