"""What differs between two configurations, field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fp3o.config.cells import Cell
from fp3o.config.settings import Settings
from fp3o.envs.domains import OPTIONS
from fp3o.errors import UserError
from fp3o.fields import declared, shown

WHOLE = 10_000  # Characters of a value in run.json's sentences: never cut.


@dataclass(frozen=True, order=True)
class Change:
    """One field that has another value: `epochs 5 → 10 (variant mappo-10-epochs)`."""

    name: str
    old: str
    new: str
    source: str = ""
    """Who asked for it: `variant <label>`, `suite <name>`, `--set`, `follows <setting>`, "" where nobody is known."""

    def __str__(self) -> str:
        return f"{self.name} {self.old} → {self.new}" + (f" ({self.source})" if self.source else "")

    @staticmethod
    def read(text: str) -> Change:
        """Back from the text above, as `deviations` in run.json hold it."""
        match = re.fullmatch(r"(\S+) (.*) → (.*?)(?: \(([^()]*)\))?", text)
        if match is None:
            raise UserError(f"deviation {shown(text)} not understood; it should read: name old → new (source)")
        return Change(match[1], match[2], match[3], match[4] or "")


def changes(old: Mapping[str, Any], new: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> list[Change]:
    """Fields in which two configurations of a cell differ: run.json documents or `Plan.configuration()`.

    A field that was added later and is not there counts with the value that reproduces the older behaviour, and one
    that is nowhere declared any more is shown as absent.
    """
    found = [
        Change(name, _text(old.get(name)), _text(new.get(name)))
        for name in ("cell", "protocol", "revision")
        if old.get(name) != new.get(name)
    ]
    domain = Cell.of(new["cell"]).domain
    for part, kind in (("settings", Settings), ("options", OPTIONS[domain])):
        later = {name: field.added_later.value for name, field in declared(kind).items() if field.added_later}
        before, after = ({**later, **side[part]} for side in (old, new))
        names = [*(name for name in declared(kind) if name in before or name in after)]
        names += sorted((set(before) | set(after)) - set(names))
        for name in names:
            if name not in before or name not in after or before[name] != after[name]:
                source = (sources or {}).get(name, "")
                found.append(Change(name, _text(before.get(name)), _text(after.get(name)), source))
    return found


def _text(value: object) -> str:
    return "absent" if value is None else shown(value, WHOLE)
