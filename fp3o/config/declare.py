"""`@fp3o.algorithm`, `@fp3o.environment`, `@fp3o.network`, `@fp3o.metric`: put a function or class into the registry,
under a name that cells, settings and options may then use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fp3o.config.metrics import NAME, RETURN, TAKEN, declared_metrics
from fp3o.config.options import PettingzooOptions
from fp3o.config.settings import Settings, every_field
from fp3o.errors import UserError
from fp3o.fields import Bounds, Scalar, declared
from fp3o.registry import (
    ALGORITHMS,
    ENVIRONMENTS,
    METRICS,
    NETWORKS,
    STANDARD,
    Algorithm,
    Environment,
    Metric,
    Network,
    Setting,
    algorithms,
    readers,
)
from fp3o.source_files import source_digest, source_file, text_digest

Turns: TypeAlias = Callable[[Any], Iterator[Any]]
T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])

# For algorithms declared without a colour; none is the colour of an algorithm of the paper.
COLOURS = ("#882255", "#332288", "#117733", "#999933", "#AA4499", "#6699CC", "#661100")


def algorithm(
    name: str,
    *,
    title: str = "",
    colour: str = "",
    settings: Mapping[str, Scalar | Setting] | type[Any] | None = None,
    critic_input: Literal["state", "observation"] = "state",
    state: Mapping[str, Any] | None = None,
    check: Callable[[Any, str, int], str] | None = None,
) -> Callable[[Turns], Turns]:
    """Make a generator of turns an algorithm: `@fp3o.algorithm("shy")` above `def shy(context): yield fp3o.Turn(5)`.

    name: as in cells; small letters, digits and '_'. title, colour (#rrggbb): in tables and figures. settings: values
    of settings that exist, and new ones of its own (`fp3o.Setting`); or a dataclass of those (see fp3o/fields.py).
    critic_input: what each agent's critic sees. state: what `context.state` holds before training, for every seed:
    numbers, lists, or functions of the number of agents that return one.
    check: a function of settings, sharing and number of agents (0: not known yet) that says why they do not fit, or "".
    """

    def declare(turns: Turns) -> Turns:
        where = f"algorithm {name!r}"
        if not re.fullmatch(r"[a-z0-9_]{1,40}", str(name)):  # In a cell, "-" separates algorithm and variant.
            raise UserError(f"{where}: a name may hold small letters, digits and '_' only, at most 40")
        if colour and not re.fullmatch(r"#[0-9A-Fa-f]{6}", colour):
            raise UserError(f"{where}: colour {colour!r} is not allowed; allowed: #rrggbb")
        if critic_input not in ("state", "observation"):
            raise UserError(f"{where}: critic_input {critic_input!r} is not allowed; allowed: state, observation")
        _check_turns(where, turns)
        file, digest = _source(where, turns)
        known = (algorithms() if file else ALGORITHMS).get(name)
        _check_free(where, name, known, file)
        values, own, meanings = _settings(name, settings or {})
        plugins = sum(bool(one.file) for one in ALGORITHMS.values())
        chosen = colour or (known.colour if known else COLOURS[plugins % len(COLOURS)])
        ALGORITHMS[name] = Algorithm(
            turns, title or name.upper(), chosen, values, own, meanings, critic_input, state or {}, check, file, digest
        )
        return turns

    return declare


def environment(
    name: str, *, settings: Mapping[str, Scalar] | None = None, metrics: Mapping[str, str] | None = None
) -> Callable[[T], T]:
    """Make a function or class that returns a PettingZoo ParallelEnv a task: `pettingzoo/<name>/full/mappo`.

    name: letters, digits, '.', '_' and '-'. settings: values of settings and options it is trained with, where
    they differ from the domain's. metrics: numbers of its infos that evaluations record, and how they are combined
    over steps: `{"caught": "sum", "energy": "last:agent", "return": "sum:type"}` (the option `metrics`); of a metric of
    a plug-in, whose it is: `{"fairness": "team"}`.
    """

    def declare(factory: T) -> T:
        where = f"environment {name!r}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", str(name)):
            raise UserError(f"{where}: a name may hold letters, digits, '.', '_' and '-' only, at most 80")
        if not callable(factory):
            raise UserError(f"{where}: {factory!r} is no function that returns a ParallelEnv")
        try:
            inspect.signature(factory).bind()
        except TypeError as error:
            raise UserError(f"{where}: {factory.__name__} must be callable without arguments: {error}") from None
        module = _module(where, factory)
        file, digest = _source(where, factory)
        _check_free(where, name, ENVIRONMENTS.get(name), file)
        fields, options = declared(Settings), declared(PettingzooOptions)
        parts: tuple[dict[str, Scalar], dict[str, Scalar]] = ({}, {})
        measured = {} if metrics is None else {"metrics": declared_metrics(metrics)}
        for key, value in {**(settings or {}), **measured}.items():
            if key not in fields and key not in options:
                raise UserError(f"{where}: unknown setting {key!r}; allowed: {', '.join((*fields, *options))}")
            field, part = (fields[key], parts[0]) if key in fields else (options[key], parts[1])
            part[key] = field.parse(value, where)
        location = f"{module}:{factory.__qualname__}"
        ENVIRONMENTS[name] = Environment(location, settings=parts[0], options=parts[1], file=file, digest=digest)
        return factory

    return declare


def network(name: str, *, critic: type[Any] | None = None) -> Callable[[C], C]:
    """Make a class of torch.nn.Module a network, which the setting `network` then chooses: `--set network=<name>`.

    The class is built with `fp3o.Inputs` and the settings, and called with observations [B, size], legal choices
    [B, choices] or None, and memory [B, memory] or None; it returns features [B, any number], and with a memory also
    the memory after the step. critic: the class of critics, which see states and no choices; None: the same.
    """

    def declare(actor: C) -> C:
        where = f"network {name!r}"
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", str(name)) or name == STANDARD:
            raise UserError(f"{where}: a name may hold small letters, digits and '_' only, at most 40, not {STANDARD}")
        for module in (actor, critic or actor):
            if not isinstance(module, type) or not hasattr(module, "forward"):
                raise UserError(f"{where}: {getattr(module, '__name__', module)!r} is no class of torch.nn.Module")
        file, digest = _source(where, actor)
        _check_free(where, name, NETWORKS.get(name), file)
        NETWORKS[name] = Network(actor, critic or actor, file, digest)
        return actor

    return declare


def metric(name: str) -> Callable[[T], T]:
    """Make a function a number per episode, which the option `metrics` then records: `--set metrics=<name>`.

    It is called after an episode with the rewards and the infos of its steps, two dictionaries by agent of lists:
    `rewards["walker_0"][3]`, `infos["walker_0"][3].get("energy")`; an agent that is gone has 0 and {}. They hold all
    agents, or with `metrics=<name>:agent` and `metrics=<name>:type` those of one agent or type at a time. It returns a
    number, or None where the episode has none.
    """

    def declare(function: T) -> T:
        where = f"metric {name!r}"
        if not re.fullmatch(NAME, str(name)) or name in (*TAKEN, RETURN):
            raise UserError(f"{where}: a name may hold letters, digits, '_', '.' and '-', and be no column of all runs")
        try:
            inspect.signature(function).bind({}, {})
        except TypeError as error:
            raise UserError(f"{where}: allowed: a function of rewards and infos: {error}") from None
        module = _module(where, function)
        file, digest = _source(where, function)
        _check_free(where, name, METRICS.get(name), file)
        METRICS[name] = Metric(function, module, file, digest)
        return function

    return declare


def _module(where: str, thing: Any) -> str:
    """From where worker processes import a function or class: a module of a package by its name, so that its relative
    imports work, others by the path of their file."""
    if "<locals>" in thing.__qualname__:
        raise UserError(f"{where}: {thing.__qualname__} must stand at the top of its file")
    path = source_file(thing)
    if path is None:  # a notebook
        raise UserError(f"{where} stands in no file; put it into one and import that")
    return thing.__module__ if "." in thing.__module__ else str(path)


def _check_turns(where: str, turns: Any) -> None:
    """UserError unless `turns` is a generator function that takes one argument, the context."""
    shape = "allowed: def name(context) with a `yield fp3o.Turn(…)` in it"
    if not inspect.isgeneratorfunction(turns):
        raise UserError(f"{where}: {getattr(turns, '__name__', turns)!r} is no generator of turns; {shape}")
    try:
        inspect.signature(turns).bind(None)
    except TypeError as error:
        raise UserError(f"{where}: {turns.__name__} must take the context alone: {error}; {shape}") from None


def _source(where: str, thing: Any) -> tuple[str, str]:
    """The file that defines a function or class ("a notebook" if none does) and the digest of its source.

    Both empty for the package's own: `PROTOCOL` stands for its source.
    """
    if thing.__module__.partition(".")[0] == "fp3o":
        return "", ""
    file = source_file(thing)
    if file is not None:
        return str(file), source_digest(file)
    try:
        return "a notebook", text_digest(inspect.getsource(thing))
    except (OSError, TypeError):
        raise UserError(f"{where}: its source cannot be read, and it is part of every run's name") from None


def _check_free(where: str, name: str, known: Algorithm | Environment | Network | Metric | None, file: str) -> None:
    """UserError if fp3o itself or another file has the name; the same file may declare it again."""
    if known is not None and known.file != file:
        if not known.file:
            raise UserError(f"{where} of {file} is a name of fp3o itself; allowed: another name")
        raise UserError(f"{where} of {file} is taken already, by {known.file}; allowed: another name")


def _settings(
    name: str, given: Mapping[str, Scalar | Setting] | type[Any]
) -> tuple[dict[str, Scalar], type[Any] | None, dict[str, str]]:
    """Split what was given: values of existing settings, a dataclass of the algorithm's own, and their meanings.

    Giving a value to a setting that only some algorithms of fp3o read makes it one of this algorithm's own, too.
    """
    if isinstance(given, type):
        return {}, given, {}
    where = f"algorithm {name!r}"
    known, options = every_field(), declared(PettingzooOptions)
    values: dict[str, Scalar] = {}
    own: list[tuple[str, Any, Any]] = []
    meanings: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(value, Setting):
            if key not in known:
                allowed = ", ".join((f"fp3o.Setting({value!r}) for a new one", *known))
                raise UserError(f"{where}: unknown setting {key!r}; allowed: {allowed}")
            values[key] = known[key].parse(value, where)
            if key not in declared(Settings):
                own.append((key, known[key].hint, known[key].default))
                meanings[key] = f"As of {', '.join(readers(key))}."
            continue
        kind = type(value.default)
        if key in known or key in options or not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            raise UserError(f"{where}: {key!r} cannot be a new setting; allowed: small letters, digits, '_', not taken")
        if kind not in (bool, int, float, str):
            raise UserError(f"{where}: {key} = {value.default!r} is not allowed; allowed: number, true, false, text")
        hint: Any = Annotated[kind, Bounds(value.least, value.greatest)] if kind in (int, float) else kind
        own.append((key, hint, value.default))
        meanings[key] = " ".join(value.meaning.split()) or f"Of {name}."
    if not own:
        return values, None, {}
    made = make_dataclass(f"SettingsOf_{name}", own, frozen=True)
    for field in declared(made).values():
        field.parse(field.default, where)
    return values, made, meanings
