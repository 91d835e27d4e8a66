"""From a cell to its plan: the value of every setting and option (merged from layers, checked) and their digest.

A run's folder is named by the digest of everything that decides its numbers. So runs with a changed setting get a new
folder, and reverting the setting finds the old runs again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isqrt
from typing import Any, NamedTuple, Protocol

from fp3o import registry
from fp3o.config.catalogue import catalogue, variant_settings
from fp3o.config.cells import Cell
from fp3o.config.differences import Change, changes
from fp3o.config.domains import DOMAINS, OPTIONS, revision
from fp3o.config.metrics import parse_metrics
from fp3o.config.options import PettingzooOptions
from fp3o.config.settings import Settings, settings_of
from fp3o.errors import UserError, unknown
from fp3o.fields import LONGEST_SHOWN, Scalar, declared, hashed

# Protocol version of the training code; part of every digest. To be raised when the same settings and seed give other
# results than before. (The engines' counterpart is `Domain.revision`.)
PROTOCOL = 1

RUN = r"(?:[A-Za-z0-9][\w.-]{0,99}/){4}[0-9a-f]{10}/seed-\d{1,12}"
"""A run as the setting `start_from` names it; what `RunId.path` gives."""

_SCHEDULE = ("total_steps", "rollout_length", "rollout_threads", "evaluation_interval")


@dataclass(frozen=True)
class Plan:
    """A resolved cell: everything that decides a run's numbers, except the seed."""

    cell: Cell
    settings: Settings
    options: Any
    """Options of the cell's domain: a dataclass of fp3o.config.options."""
    protocol: int
    """Version of the training code's numbers (`PROTOCOL`)."""
    revision: int
    """Version of the engine's numbers (`Domain.revision`)."""
    digest: str
    """First 10 hexadecimal digits of the sha256 over `configuration()` as canonical JSON."""
    deviations: tuple[Change, ...] = ()
    """Differences from the paper's values for the cell without its variant."""

    @property
    def iterations(self) -> int:
        """Number of iterations: as many whole ones as fit into total_steps."""
        return self.settings.total_steps // (self.settings.rollout_length * self.settings.rollout_threads)

    def evaluates_after(self, iteration: int) -> bool:
        """Whether the policy is evaluated after this iteration, counted from 0.

        Every `evaluation_interval` iterations, and after the last one unless final.csv scores the final policy. Not
        after the last one on the paper's own schedule: the release does not either, and scores must be comparable.
        """
        settings = self.settings
        if iteration % settings.evaluation_interval == 0:
            return True
        scored = settings.final_episodes > settings.evaluation_episodes
        return iteration == self.iterations - 1 and not scored and not self.on_the_papers_schedule

    @property
    def on_the_papers_schedule(self) -> bool:
        """Whether the number of steps and the times of evaluation are the paper's."""
        plain = _build(self.cell, _layers(self.cell))[0]
        same = all(getattr(self.settings, name) == getattr(plain, name) for name in _SCHEDULE)
        return same and DOMAINS[self.cell.domain].published

    def configuration(self) -> dict[str, Any]:
        """What the digest is computed from and run.json contains; without settings that the algorithm does not read."""
        return _configuration(self.cell, self.settings, self.options, self.protocol, self.revision)


@dataclass(frozen=True)
class _Layer:
    """Values from one source; `label` names it in messages and deviations, "" for the paper's own values."""

    label: str
    values: Mapping[str, Scalar]
    place: tuple[str, ...] = ()
    """Of the values in tasks.yaml, from the top; empty for other sources."""


def setting_names(cell: Cell) -> tuple[str, ...]:
    """Settings the cell's algorithm reads, in the order of the dataclass."""
    return tuple(declared(settings_of(cell.algorithm)))


def option_names(domain: str) -> tuple[str, ...]:
    """Options of the domain's environments."""
    return tuple(declared(OPTIONS[domain]))


def _configuration(cell: Cell, settings: Settings, options: Any, protocol: int, revision: int) -> dict[str, Any]:
    read = {name: getattr(settings, name) for name in setting_names(cell)}
    configuration = {
        "protocol": protocol,
        "revision": revision,
        "cell": cell.id,
        "settings": hashed(read, settings_of(cell.algorithm)),
        "options": hashed(asdict(options), type(options)),
    }
    environment = options.env or cell.task if isinstance(options, PettingzooOptions) else ""
    measured = parse_metrics(options.metrics) if isinstance(options, PettingzooOptions) else ()
    functions = [metric.name for metric in measured if not metric.over_steps]
    plugins = registry.digests(cell.algorithm, environment, settings.network, functions)
    return {**configuration, "plugins": plugins} if plugins else configuration


def canonical_json(value: object) -> str:
    """JSON text that is equal for equal values: sorted keys, no spaces, shortest exact numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _at(tree: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """tree[name][name]… of tasks.yaml; empty where a part is missing."""
    for name in names:
        tree = tree.get(name) or {}
    return tree


def digest_of(configuration: Mapping[str, Any]) -> str:
    """The digest of a `Plan.configuration()`; names the folder of its runs."""
    return hashlib.sha256(canonical_json(configuration).encode()).hexdigest()[:10]


def _layers(cell: Cell) -> list[_Layer]:
    """The paper's values for the cell, general to specific (later layers win), then those of its variant."""
    data = catalogue()
    task = ("domains", cell.domain, "tasks", cell.task)
    algorithm = ("algorithms", cell.algorithm)
    there = (*algorithm, "domains", cell.domain)
    places: list[tuple[str, ...]] = [
        ("domains", cell.domain, "settings"),
        ("domains", cell.domain, "options"),
        (*task, "settings"),
        (*task, "options"),
        (*task, "sharing", cell.sharing),
        (*algorithm, "settings"),
        (*there, "settings"),
        (*there, "sharing", cell.sharing),
        (*there, "tasks", cell.task),
    ]
    layers = [_Layer("", _at(data, *place), place) for place in places]
    if cell.variant:
        layers.append(_Layer(f"variant {cell.label}", variant_settings(cell.algorithm, cell.variant) or {}))
    return layers


def _merge(cell: Cell, layers: Iterable[_Layer]) -> tuple[dict[str, Scalar], dict[str, str]]:
    """The layers' values by name (later layers win), and the label of the layer each came from."""
    settings, options = declared(settings_of(cell.algorithm)), declared(OPTIONS[cell.domain])
    values: dict[str, Scalar] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            field = settings.get(key) or options.get(key)
            where = f"{cell.id} ({layer.label or 'tasks.yaml'})"
            if field is None:
                readers = registry.readers(key)
                if readers and not layer.label:
                    continue  # tasks.yaml gives settings per task for all algorithms; each takes those it reads.
                if readers:
                    allowed = ", ".join((*settings, *options))
                    raise UserError(f"{where}: {key} is read only by {', '.join(readers)}; allowed: {allowed}")
                raise unknown("setting", key, (*settings, *options), where)
            values[key] = field.parse(value, where)
            sources[key] = layer.label
    return values, sources


def _follow(cell: Cell, values: dict[str, Scalar], sources: dict[str, str]) -> None:
    """Add the derived defaults (`Follows`) of settings that no layer gives."""
    fields = declared(settings_of(cell.algorithm))
    for key, field in fields.items():
        follows = field.follows
        if follows is not None and key not in values:
            led = values.get(follows.leader, fields[follows.leader].default)
            if not isinstance(led, (int, float)):
                why = f"{key} follows {follows.leader}, which is {led!r}"
                raise UserError(f"{cell.id}: {why}; allowed: a value for {key} as well")
            values[key] = field.type(led * follows.share)
            sources[key] = f"follows {follows.leader}"


def _check(cell: Cell, settings: Settings, options: Any) -> None:
    """UserError for numbers out of bounds and for combinations that cannot be trained."""

    def refuse(message: str) -> UserError:
        return UserError(f"{cell.id}: {message}")

    for key in setting_names(cell):  # Derived defaults were computed, not parsed.
        value = getattr(settings, key)
        if isinstance(value, (int, float)):
            declared(settings_of(cell.algorithm))[key].check(value, cell.id)
    samples = settings.rollout_length * settings.rollout_threads
    if settings.total_steps < samples:
        raise refuse(f"total_steps = {settings.total_steps} is less than one rollout; allowed: at least {samples}")
    pieces, what = samples, "samples"
    if settings.recurrent:
        episode = DOMAINS[cell.domain].episode
        starts_an_episode = episode > 0 and settings.rollout_length % episode == 0
        length = samples if starts_an_episode else settings.rollout_length
        if length % settings.chunk_length:
            raise refuse(
                f"chunk_length = {settings.chunk_length} does not divide "
                f"{'the rollout' if starts_an_episode else 'rollout_length'} = {length}; "
                f"allowed: {_divisors(length, settings.chunk_length)}"
            )
        pieces, what = samples // settings.chunk_length, "chunks"
    if pieces % settings.minibatches:
        raise refuse(
            f"minibatches = {settings.minibatches} does not divide the {pieces} {what} of a rollout; "
            f"allowed: {_divisors(pieces, settings.minibatches)}"
        )
    if settings.start_from and not re.fullmatch(RUN, settings.start_from):
        seen = repr(settings.start_from[:LONGEST_SHOWN])
        raise refuse(f"start_from = {seen} is not allowed; allowed: <cell>/<digest>/seed-<k>, or --start-from FOLDER")
    if settings.network not in registry.networks():
        raise unknown("network", settings.network[:LONGEST_SHOWN], registry.networks(), cell.id)
    _check_algorithm(cell, settings)
    # A user-supplied environment needs its import path; for those known by name the task's name is enough.
    known = not isinstance(options, PettingzooOptions) or (options.env or cell.task) in registry.ENVIRONMENTS
    if not known and not re.fullmatch(r"[\w.]+:[\w.]+", options.env):
        names = ", ".join(registry.ENVIRONMENTS)
        hint = "module:factory of a ParallelEnv, an environment of a plug-in (--import)"
        raise refuse(f"env = {options.env!r} is not allowed; allowed: {hint}, {names}")


def check_agents(plan: Plan, agents: int) -> None:
    """UserError for settings that do not fit the number of agents, which only the environment knows."""
    _check_algorithm(plan.cell, plan.settings, agents)


def _check_algorithm(cell: Cell, settings: Settings, agents: int = 0) -> None:
    check = registry.algorithms()[cell.algorithm].check
    if check is not None and (message := check(settings, cell.sharing, agents)):
        raise UserError(f"{cell.id}: {message}")


MOST_DIVISORS = 12


def _divisors(number: int, near: int) -> str:
    """For messages: the divisors of `number` nearest to `near`, in ascending order."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    every = sorted({*small, *(number // d for d in small)}, key=lambda d: (abs(d - near), d))
    return ", ".join(str(d) for d in sorted(every[:MOST_DIVISORS]))


class Overriding(Protocol):
    """What resolving asks of a suite."""

    @property
    def name(self) -> str: ...

    def overrides_of(self, cell: Cell) -> Sequence[Mapping[str, Scalar]]:
        """Values for this cell; later ones win."""


def resolve(cell: Cell, overrides: Mapping[str, Scalar] | None = None, suite: Overriding | None = None) -> Plan:
    """The plan of a cell: the paper's values, changed by its variant, the suite, then `overrides` (of --set)."""
    cell.check()
    base = _layers(cell)
    extra = base + _changed(cell, overrides, suite)
    settings, options, sources = _build(cell, extra)
    _check(cell, settings, options)
    engine = revision(cell.domain, options)
    configuration = _configuration(cell, settings, options, PROTOCOL, engine)
    digest = digest_of(configuration)
    plain = _configuration(cell, *_build(cell, [layer for layer in base if not layer.label])[:2], PROTOCOL, engine)
    deviations = tuple(changes(plain, configuration, sources))
    return Plan(cell, settings, options, PROTOCOL, engine, digest, deviations)


def _changed(cell: Cell, overrides: Mapping[str, Scalar] | None, suite: Overriding | None) -> list[_Layer]:
    """What a suite, then --set change."""
    layers = [_Layer(f"suite {suite.name}", values) for values in suite.overrides_of(cell)] if suite else []
    return [*layers, _Layer("--set", overrides)] if overrides else layers


class Origin(NamedTuple):
    """Where a value is from."""

    label: str
    """`variant …`, `suite …`, `--set`, `follows …`; "" for tasks.yaml and defaults."""
    place: tuple[str, ...]
    """Of the value in tasks.yaml, from the top; empty where it is from elsewhere."""


def origins(
    cell: Cell, overrides: Mapping[str, Scalar] | None = None, suite: Overriding | None = None
) -> dict[str, Origin]:
    """Where the values of `resolve` with the same arguments are from, by name; without those that are defaults."""
    layers = _layers(cell) + _changed(cell, overrides, suite)
    places = {key: (*layer.place, key) if layer.place else () for layer in layers for key in layer.values}
    _, _, labels = _build(cell, layers)
    return {key: Origin(label, () if label else places[key]) for key, label in labels.items()}


def _build(cell: Cell, layers: Iterable[_Layer]) -> tuple[Settings, Any, dict[str, str]]:
    """Settings, options and, by name, where each value came from."""
    values, sources = _merge(cell, layers)
    _follow(cell, values, sources)
    names = option_names(cell.domain)
    options = OPTIONS[cell.domain](**{key: value for key, value in values.items() if key in names})
    kind = settings_of(cell.algorithm)
    settings = kind(**{key: value for key, value in values.items() if key not in names})  # type: ignore[arg-type]
    return settings, options, sources
