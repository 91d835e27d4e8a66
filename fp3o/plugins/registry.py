"""What plug-ins have added, as data. Imports nothing of this package: everything may look here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AddedAlgorithm:
    """An algorithm of a plug-in, as cells, tables and figures know it. Its turns are in fp3o.algorithms.ALGORITHMS."""

    title: str
    colour: str
    values: Mapping[str, Any]
    """Values of settings that others have too; a setting that only some algorithms read is read by this one then."""
    settings: type[Any]
    """`Settings`, or a subclass of it with the algorithm's own settings …"""
    meanings: Mapping[str, str]
    """… and what those are, by name."""
    file: str
    """Where it stands, for messages."""
    digest: str
    """Of its source: 16 hexadecimal digits."""


@dataclass(frozen=True)
class AddedEnvironment:
    """An environment of a plug-in: a task of the domain pettingzoo."""

    location: str
    """`<file>.py:<factory>` or, in a package, `<module>:<factory>`: for the processes that build it."""
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    file: str
    digest: str
    """As of an algorithm."""


@dataclass
class Registry:
    """By name."""

    algorithms: dict[str, AddedAlgorithm] = field(default_factory=dict)
    environments: dict[str, AddedEnvironment] = field(default_factory=dict)


ADDED = Registry()


def digests(algorithm: str, environment: str) -> dict[str, str]:
    """The digests of the plug-ins that a run with this algorithm in this environment uses; empty where it uses none."""
    used = {"algorithm": ADDED.algorithms.get(algorithm), "environment": ADDED.environments.get(environment)}
    return {kind: one.digest for kind, one in used.items() if one is not None}
