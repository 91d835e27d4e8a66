"""Who owns which parameters: two owner vectors, the only place where a kind of sharing has a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fp3o.errors import UserError, unknown


@dataclass(frozen=True)
class Sharing:
    """trunk[a], head[a]: the parameter row agent a uses. Critics are owned as trunks are."""

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


def _rank(types: tuple[int, ...]) -> tuple[int, ...]:
    names = sorted(set(types))
    return tuple(names.index(t) for t in types)


SHARINGS: dict[str, Callable[[tuple[int, ...]], Sharing]] = {
    "full": lambda types: Sharing((0,) * len(types), (0,) * len(types)),
    "partial": lambda types: Sharing((0,) * len(types), tuple(range(len(types)))),
    "none": lambda types: Sharing(tuple(range(len(types))), tuple(range(len(types)))),
    "by-type": lambda types: Sharing(_rank(types), _rank(types)),
}


def sharing(name: str, agent_types: tuple[int, ...]) -> Sharing:
    """The owner vectors of a named kind of sharing for agents of these types."""
    if name not in SHARINGS:
        raise unknown("sharing", name, SHARINGS)
    return SHARINGS[name](agent_types)
