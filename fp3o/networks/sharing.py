"""Which agent uses which parameters, as two owner vectors; fp3o/config/sharings.py names the kinds of sharing."""

from __future__ import annotations

from dataclasses import dataclass

from fp3o.config.sharings import SHARINGS
from fp3o.errors import UserError, unknown


@dataclass(frozen=True)
class Sharing:
    """trunk[a] and head[a] are the parameter rows (owners) that agent a uses. A critic has the owner of the trunk."""

    trunk: tuple[int, ...]
    head: tuple[int, ...]

    def __post_init__(self) -> None:
        for owners in (self.trunk, self.head):
            if sorted(set(owners)) != list(range(max(owners) + 1)):
                raise UserError(f"owner vector {owners} must name every row from 0 to its largest")
        if len(set(zip(self.head, self.trunk, strict=True))) != self.heads:
            raise UserError(f"a head must belong to one trunk: heads {self.head}, trunks {self.trunk}")

    @property
    def agents(self) -> int:
        return len(self.trunk)

    @property
    def trunks(self) -> int:
        return max(self.trunk) + 1

    @property
    def heads(self) -> int:
        return max(self.head) + 1

    @property
    def trunk_of_head(self) -> tuple[int, ...]:
        owner = dict(zip(self.head, self.trunk, strict=True))
        return tuple(owner[h] for h in range(self.heads))


def sharing(name: str, agent_types: tuple[int, ...]) -> Sharing:
    """The owner vectors of a named kind of sharing for agents of these types."""
    if name not in SHARINGS:
        raise unknown("sharing", name, SHARINGS)
    return Sharing(*SHARINGS[name].owners(agent_types))
