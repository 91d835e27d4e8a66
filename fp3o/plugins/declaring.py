"""`@fp3o.algorithm` and `@fp3o.environment`: register a user's function under a name that cells may then use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fp3o.config.catalogue import catalogue
from fp3o.config.options import KNOWN_ENVIRONMENTS, KnownEnvironment, PettingzooOptions
from fp3o.config.settings import Settings
from fp3o.errors import UserError
from fp3o.fields import Bounds, Scalar, declared
from fp3o.plugins.loading import source_digest, source_file, text_digest
from fp3o.plugins.registry import ADDED, AddedAlgorithm, AddedEnvironment

if TYPE_CHECKING:
    from fp3o.algorithms.turns import Context, Turn

    Turns = Callable[[Context], Iterator[Turn]]

T = TypeVar("T", bound=Callable[..., Any])

# For algorithms declared without a colour; none is the colour of an algorithm of the paper.
COLOURS = ("#882255", "#332288", "#117733", "#999933", "#AA4499", "#6699CC", "#661100")


@dataclass(frozen=True)
class Setting:
    """A setting that an algorithm brings along: read as `context.settings.<name>`, set by --set, part of the digest."""

    default: Scalar
    """A number, true or false, or a text; whole numbers stay whole."""
    meaning: str = ""
    """For --help and `fp3o list settings`."""
    least: float = -1e38
    greatest: float = 1e38


def algorithm(
    name: str,
    *,
    title: str = "",
    colour: str = "",
    settings: Mapping[str, Scalar | Setting] | None = None,
    critic_input: Literal["state", "observation"] = "state",
) -> Callable[[Turns], Turns]:
    """Make a generator of turns an algorithm: `@fp3o.algorithm("shy")` above `def shy(context): yield fp3o.Turn(5)`.

    name: as in cells; small letters, digits and '_'. title, colour (#rrggbb): in tables and figures. settings: values
    of settings that exist, and new ones of its own (`fp3o.Setting`). critic_input: what each agent's critic sees.
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
        _check_free(where, name, catalogue()["algorithms"], ADDED.algorithms, file)
        values, kind, meanings = _settings(name, settings or {})
        from fp3o.algorithms import ALGORITHMS
        from fp3o.algorithms.turns import Algorithm
        from fp3o.plugins.turns import checked

        known = ADDED.algorithms.get(name)
        chosen = colour or (known.colour if known else COLOURS[len(ADDED.algorithms) % len(COLOURS)])
        ADDED.algorithms[name] = AddedAlgorithm(title or name.upper(), chosen, values, kind, meanings, file, digest)
        ALGORITHMS[name] = Algorithm(checked(name, turns), critic_input)
        return turns

    return declare


def environment(name: str, *, settings: Mapping[str, Scalar] | None = None) -> Callable[[T], T]:
    """Make a function or class that returns a PettingZoo ParallelEnv a task: `pettingzoo/<name>/full/mappo`.

    name: letters, digits, '.', '_' and '-'. settings: values of settings and options it is trained with, where
    they differ from the domain's.
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
        if "<locals>" in factory.__qualname__:
            raise UserError(f"{where}: {factory.__qualname__} must stand at the top of its file")
        path = source_file(factory)
        if path is None:  # Worker processes import it from its file; a notebook has none.
            raise UserError(f"{where} stands in no file; put it into one and import that")
        file, digest = _source(where, factory)
        others = {known for known in KNOWN_ENVIRONMENTS if known not in ADDED.environments}
        _check_free(where, name, others, ADDED.environments, file)
        fields, options = declared(Settings), declared(PettingzooOptions)
        parts: tuple[dict[str, Scalar], dict[str, Scalar]] = ({}, {})
        for key, value in (settings or {}).items():
            if key not in fields and key not in options:
                raise UserError(f"{where}: unknown setting {key!r}; allowed: {', '.join((*fields, *options))}")
            field, part = (fields[key], parts[0]) if key in fields else (options[key], parts[1])
            part[key] = field.parse(value, where)
        # A module of a package is imported by name, not by path, so that its relative imports work.
        module = factory.__module__ if "." in factory.__module__ else path
        location = f"{module}:{factory.__qualname__}"
        ADDED.environments[name] = AddedEnvironment(location, *parts, file, digest)
        KNOWN_ENVIRONMENTS[name] = KnownEnvironment(location, "")
        return factory

    return declare


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
    """The file that defines a function or class ("a notebook" if none does), and the digest of its source."""
    file = source_file(thing)
    if file is not None:
        return str(file), source_digest(file)
    try:
        return "a notebook", text_digest(inspect.getsource(thing))
    except (OSError, TypeError):
        raise UserError(f"{where}: its source cannot be read, and it is part of every run's name") from None


def _check_free(where: str, name: str, ours: Any, added: Mapping[str, Any], file: str) -> None:
    """UserError if fp3o itself (`ours`) or another file (`added`) has the name; the same file may declare it again."""
    if name in added:
        if added[name].file != file:
            raise UserError(f"{where} of {file} is taken already, by {added[name].file}; allowed: another name")
    elif name in ours:
        raise UserError(f"{where} of {file} is a name of fp3o itself; allowed: another name")


def _settings(name: str, given: Mapping[str, Scalar | Setting]) -> tuple[dict[str, Scalar], type[Any], dict[str, str]]:
    """Split what was given: values of existing settings, a Settings class with the new ones, the new ones' meanings."""
    where = f"algorithm {name!r}"
    known, options = declared(Settings), declared(PettingzooOptions)
    values: dict[str, Scalar] = {}
    new: list[tuple[str, Any, Any]] = []
    meanings: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(value, Setting):
            if key not in known:
                new_one = f"fp3o.Setting({value!r}) for a new one"
                raise UserError(f"{where}: unknown setting {key!r}; allowed: {new_one}, {', '.join(known)}")
            values[key] = known[key].parse(value, where)
            continue
        kind = type(value.default)
        if key in known or key in options or not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            raise UserError(f"{where}: {key!r} cannot be a new setting; allowed: small letters, digits, '_', not taken")
        if kind not in (bool, int, float, str):
            raise UserError(f"{where}: {key} = {value.default!r} is not allowed; allowed: number, true, false, text")
        bounds = (Bounds(value.least, value.greatest),) if kind in (int, float) else ()
        new.append((key, Annotated[(kind, *bounds)] if bounds else kind, value.default))
        meanings[key] = " ".join(value.meaning.split()) or f"Of {name}."
    if not new:
        return values, Settings, {}
    settings = make_dataclass(f"SettingsOf_{name}", new, bases=(Settings,), frozen=True)
    for key, _, default in new:
        declared(settings)[key].parse(default, where)
    return values, settings, meanings
