"""What plug-ins have declared, as data. Imports nothing of fp3o, so that every module can import it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AddedAlgorithm:
    """An algorithm of a plug-in, without its code: its generator of turns is in fp3o.algorithms.ALGORITHMS."""

    title: str
    colour: str
    values: Mapping[str, Any]
    """Values of settings that others have too; a setting that only some algorithms read is read by this one then."""
    settings: type[Any]
    """`Settings`, or a subclass of it with the algorithm's own settings …"""
    meanings: Mapping[str, str]
    """… and what those are, by name."""
    file: str
    """The file that declares it, or "a notebook"."""
    digest: str
    """Digest of its source, 16 hexadecimal digits; part of the digest of its runs."""


@dataclass(frozen=True)
class AddedEnvironment:
    """An environment of a plug-in: a task of the domain pettingzoo."""

    location: str
    """`<file>.py:<factory>` or, in a package, `<module>:<factory>`: from where worker processes import it."""
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    file: str
    digest: str
    """`file` and `digest` are as in AddedAlgorithm."""


@dataclass
class Registry:
    """The declared algorithms and environments, by name."""

    algorithms: dict[str, AddedAlgorithm] = field(default_factory=dict)
    environments: dict[str, AddedEnvironment] = field(default_factory=dict)


ADDED = Registry()


def digests(algorithm: str, environment: str) -> dict[str, str]:
    """Source digests of the plug-ins that a run uses, under "algorithm" and "environment"; empty if it uses none."""
    used = {"algorithm": ADDED.algorithms.get(algorithm), "environment": ADDED.environments.get(environment)}
    return {kind: one.digest for kind, one in used.items() if one is not None}
