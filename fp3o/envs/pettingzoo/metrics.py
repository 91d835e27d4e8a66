"""From the rewards and infos of an episode's steps to its metrics. Runs in the worker, beside the environment."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp3o.config.metrics import RETURN, RETURN_OF_EACH, EpisodeMetric, parse_metrics
from fp3o.config.options import PettingzooOptions
from fp3o.envs.pettingzoo.spaces import Description, Unfit, type_name
from fp3o.grouping import grouped
from fp3o.registry import METRICS

OVER_STEPS: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda seen: math.fsum(seen) / len(seen),
    "last": lambda seen: seen[-1],
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class Column:
    """One metric of the team, of an agent or of a type."""

    label: str
    """`caught`, `energy/walker_0`, `return/scout`: as in evaluations.csv."""
    name: str
    over_steps: str
    """Empty: a plug-in's function."""
    agents: tuple[str, ...]


def requested(options: PettingzooOptions) -> tuple[EpisodeMetric, ...]:
    """What the options ask for; also the return of each agent, where each is trained on its own rewards."""
    metrics = parse_metrics(options.metrics)
    own = options.reward == "own" and not any(m.name == RETURN and m.owner == "agent" for m in metrics)
    return (*metrics, *((RETURN_OF_EACH,) if own else ()))


def columns_of(metrics: Sequence[EpisodeMetric], description: Description) -> tuple[Column, ...]:
    """The columns of these metrics for these agents; Unfit if two would have the same name."""
    agents = description.agents
    types = grouped(zip(description.types, agents, strict=True))
    stems = [type_name(members[0]) for members in types.values()]
    groups: dict[str, dict[str, tuple[str, ...]]] = {
        "agent": {_field(agent): (agent,) for agent in agents},
        "type": {
            _field(stem if stems.count(stem) == 1 else f"{stem}-{number}"): tuple(members)
            for stem, (number, members) in zip(stems, types.items(), strict=True)
        },
    }
    if len(groups["agent"]) < len(agents) or len(groups["type"]) < len(types):
        raise Unfit(f"agents' names do not differ in letters and digits, so metrics cannot: {', '.join(agents)}")
    found = []
    for metric in metrics:
        if metric.owner == "team":
            found.append(Column(metric.name, metric.name, metric.over_steps, agents))
            continue
        for owner, members in groups[metric.owner].items():
            found.append(Column(f"{metric.name}/{owner}", metric.name, metric.over_steps, members))
    if len({column.label for column in found}) < len(found):
        raise Unfit("a metric is asked for by agent and by type, and a type has the name of an agent; choose one")
    return tuple(found)


def _field(name: object) -> str:
    """A name as part of a CSV header."""
    return re.sub(r"[^\w.+-]", "_", str(name))


class EpisodeNumbers:
    """Gathers the metrics of one environment's current episode."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self.begin()

    def begin(self) -> None:
        self._seen: list[list[float]] = [[] for _ in self._columns]
        # Of every step, for the functions of plug-ins.
        agents = [agent for column in self._columns if not column.over_steps for agent in column.agents]
        self._rewards: dict[str, list[float]] = {agent: [] for agent in agents}
        self._infos: dict[str, list[dict[str, Any]]] = {agent: [] for agent in agents}

    def add(self, rewards: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        """The numbers of one step; agents that do not report one are left out."""
        for agent in self._rewards:
            self._rewards[agent].append(float(rewards.get(agent, 0.0)))
            self._infos[agent].append(dict(infos.get(agent) or {}))
        for column, seen in zip(self._columns, self._seen, strict=True):
            if column.name == RETURN:
                numbers = [float(rewards.get(agent, 0.0)) for agent in column.agents]
            else:
                told = ((agent, infos.get(agent)) for agent in column.agents)
                numbers = [
                    _number(f"infos of {agent}: {column.name}", info[column.name])
                    for agent, info in told
                    if isinstance(info, Mapping) and column.name in info
                ]
            if numbers:
                seen.append(sum(numbers) / len(numbers))

    def values(self) -> list[float]:
        """A number per column; NaN where no step of the episode reported one."""
        pairs = zip(self._columns, self._seen, strict=True)
        return [
            self._computed(column)
            if not column.over_steps
            else OVER_STEPS[column.over_steps](seen)
            if seen
            else math.nan
            for column, seen in pairs
        ]

    def _computed(self, column: Column) -> float:
        rewards = {agent: self._rewards[agent] for agent in column.agents}
        infos = {agent: self._infos[agent] for agent in column.agents}
        try:
            value = METRICS[column.name].function(rewards, infos)
        except Exception as error:
            raise Unfit(f"metric {column.label} fails: {type(error).__name__}: {error}") from error
        return math.nan if value is None else _number(f"metric {column.label}", value)


def _number(where: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Unfit(f"{where} = {value!r} is no number, and is recorded as a metric") from None
    if not math.isfinite(number):
        raise Unfit(f"{where} is NaN or infinite, and is recorded as a metric")
    return number
