"""The option `metrics` of an environment: one number per episode, from its `infos` or its agents' rewards.

`caught:sum,energy:last:agent,return:sum:type`: a name, how its numbers are combined over the steps of an episode, and
whose they are; `fairness,fairness:type`: a function of a plug-in's (`@fp3o.metric`), and whose steps it is given. Each
becomes columns of evaluations.csv: caught, energy/<agent> …, return/<type> ….
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fp3o.errors import UserError, unknown
from fp3o.registry import metrics as functions

OVER_STEPS = ("sum", "mean", "last", "max", "min")
OWNERS = ("team", "agent", "type")
RETURN = "return"
PLACES = ("env_steps", "iteration", "episode")
"""Columns of evaluations.csv that say where an episode stands, not how it went …"""
TAKEN = (*PLACES, "return_per_agent", "won", "length")
"""… and, with `return`, all that every run has."""
NAME = r"[A-Za-z_][\w.-]*"
ALLOWED = (
    f"name:how or name:how:whose, how = {', '.join(OVER_STEPS)}, whose = {', '.join(OWNERS)}; or name or name:whose, "
    "name = a metric of an imported plug-in"
)


@dataclass(frozen=True)
class EpisodeMetric:
    """A number per episode, of the team or of each agent or type."""

    name: str
    """A key of the infos; `return`: the rewards; of a plug-in's function: its own."""
    over_steps: str
    """sum, mean, last, max or min of the steps that report it; empty: a plug-in's function."""
    owner: str = "team"
    """team or type: the mean over its agents that report it at a step (rewards: over all of them)."""

    def __str__(self) -> str:
        return ":".join(filter(None, (self.name, self.over_steps, self.owner if self.owner != "team" else "")))


RETURN_OF_EACH = EpisodeMetric(RETURN, "sum", "agent")


def parse_metrics(text: str) -> tuple[EpisodeMetric, ...]:
    """The metrics that the option asks for; UserError if it is not understood."""
    found: dict[tuple[str, str], EpisodeMetric] = {}
    for item in text.split(",") if text.strip() else ():
        parts = [part.strip() for part in item.split(":")]
        if len(parts) > 3 or not re.fullmatch(NAME, parts[0]):
            raise UserError(f"metrics: {item.strip()!r} is not understood; allowed: {ALLOWED}")
        function = len(parts) == 1 or (len(parts) == 2 and parts[1] in OWNERS)
        if function and parts[0] not in functions():
            raise unknown("metric", parts[0], (*functions(), ALLOWED), "metrics")
        metric = EpisodeMetric(parts[0], "" if function else parts[1], *parts[1 if function else 2 :])
        if (metric.over_steps not in OVER_STEPS and not function) or metric.owner not in OWNERS:
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
    """The option's text for `@fp3o.environment(metrics={"caught": "sum", "energy": "last:agent", "own": "team"})`."""
    return written(parse_metrics(",".join(f"{name}:{how}" for name, how in given.items())))
