"""The option `metrics` of an environment: one number per episode, from its `infos` or its agents' rewards.

`caught:sum,energy:last:agent,return:sum:type`: a name, how its numbers are combined over the steps of an episode, and
whose they are. Each becomes columns of evaluations.csv: caught, energy/<agent> …, return/<type> ….
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fp3o.errors import UserError

OVER_STEPS = ("sum", "mean", "last", "max", "min")
OWNERS = ("team", "agent", "type")
RETURN = "return"
PLACES = ("env_steps", "iteration", "episode")
"""Columns of evaluations.csv that say where an episode stands, not how it went …"""
TAKEN = (*PLACES, "return_per_agent", "won", "length")
"""… and, with `return`, all that every run has."""
ALLOWED = f"name:how or name:how:whose, how = {', '.join(OVER_STEPS)}, whose = {', '.join(OWNERS)}"


@dataclass(frozen=True)
class EpisodeMetric:
    """A number per episode, of the team or of each agent or type."""

    name: str
    """A key of the infos; `return`: the rewards."""
    over_steps: str
    """sum, mean, last, max or min of the steps that report it."""
    owner: str = "team"
    """team or type: the mean over its agents that report it at a step (rewards: over all of them)."""

    def __str__(self) -> str:
        return ":".join((self.name, self.over_steps, *([] if self.owner == "team" else [self.owner])))


RETURN_OF_EACH = EpisodeMetric(RETURN, "sum", "agent")


def parse_metrics(text: str) -> tuple[EpisodeMetric, ...]:
    """The metrics that the option asks for; UserError if it is not understood."""
    found: dict[tuple[str, str], EpisodeMetric] = {}
    for item in text.split(",") if text.strip() else ():
        parts = [part.strip() for part in item.split(":")]
        if len(parts) not in (2, 3) or not re.fullmatch(r"[A-Za-z_][\w.-]*", parts[0]):
            raise UserError(f"metrics: {item.strip()!r} is not understood; allowed: {ALLOWED}")
        metric = EpisodeMetric(*parts)
        if metric.over_steps not in OVER_STEPS or metric.owner not in OWNERS:
            raise UserError(f"metrics: {item.strip()!r} is not allowed; allowed: {ALLOWED}")
        if metric.name in TAKEN or (metric.name == RETURN and metric.owner == "team"):
            raise UserError(f"metrics: {metric.name!r} is recorded in any case; allowed: another name")
        if (metric.name, metric.owner) in found:
            raise UserError(f"metrics: {metric.name!r} is asked for twice; allowed: once by {metric.owner}")
        found[metric.name, metric.owner] = metric
    return tuple(found.values())


def written(metrics: Iterable[EpisodeMetric]) -> str:
    """The option's text."""
    return ",".join(map(str, metrics))


def declared_metrics(given: Mapping[str, str]) -> str:
    """The option's text for `@fp3o.environment(metrics={"caught": "sum", "energy": "last:agent"})`."""
    return written(parse_metrics(",".join(f"{name}:{how}" for name, how in given.items())))
