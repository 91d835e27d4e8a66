"""The kinds of parameter sharing in one table: which agents use which networks, and each kind's title and colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Owners: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class SharingKind:
    """One kind of sharing."""

    title: str
    """In tables, as the paper writes it."""
    name: str
    """In captions."""
    colour: str
    """In figures."""
    owners: Callable[[Owners], tuple[Owners, Owners]]
    """From the agents' types to the numbers of each agent's trunk and head. Critics are shared like trunks."""


def _one(types: Owners) -> Owners:
    return (0,) * len(types)


def _each(types: Owners) -> Owners:
    return tuple(range(len(types)))


def _rank(types: Owners) -> Owners:
    names = sorted(set(types))
    return tuple(names.index(t) for t in types)


SHARINGS: dict[str, SharingKind] = {
    "full": SharingKind("Full Param. Sharing", "full sharing", "#0072B2", lambda types: (_one(types), _one(types))),
    "partial": SharingKind(
        "Partial Param. Sharing", "partial sharing", "#E69F00", lambda types: (_one(types), _each(types))
    ),
    "none": SharingKind("Non-Param. Sharing", "no sharing", "#009E73", lambda types: (_each(types), _each(types))),
    "by-type": SharingKind("Sharing By Type", "sharing by type", "#CC79A7", lambda types: (_rank(types), _rank(types))),
}
