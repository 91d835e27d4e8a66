"""Declared fields: a setting or an option is declared once, as an annotated field of a dataclass.

    epochs: Annotated[int, Bounds(1, 10_000)] = 5
    "Passes over the rollout per turn (paper: ppo epochs)."

The annotation holds the type or the choices, the bounds, the setting its default derives from and whether older digests
contain it; the string below is its meaning and source. Parsing, checks, digests,
`--help` and `fp3o list settings` are derived from the declaration.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from fp3o.errors import UserError
from fp3o.schedules import FORMS, Schedule

Scalar: TypeAlias = str | int | float | bool
T = TypeVar("T")

LONGEST_SHOWN = 60  # Characters of a refused value that a message repeats.


# --- What `Annotated[type, …]` may hold ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """Smallest and largest number allowed, both inclusive."""

    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.least:g} … {self.greatest:g}"


@dataclass(frozen=True)
class Follows:
    """Derived default: `share` times the value of the setting `leader`, unless some layer sets a value."""

    leader: str
    share: float


@dataclass(frozen=True)
class AddedLater:
    """A field that was added after runs had been made. `value` gives the behaviour of those runs, so a field with this
    value is left out of the digest: old digests stay valid."""

    value: Scalar


@dataclass(frozen=True)
class ReadWith:
    """A field that is read only where another field of the same dataclass has this value. Elsewhere it is no part of
    the digest, and two values of it are no difference."""

    field: str
    value: Scalar


@dataclass(frozen=True)
class MayVary:
    """A number that may change during training: its value is then a schedule (fp3o/schedules.py), as text."""


# --- Declarations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Declared:
    """One field of a dataclass, its annotations taken apart."""

    name: str
    hint: Any
    """Its annotation."""
    type: Any
    """int, float, bool or str."""
    default: Any
    choices: tuple[str, ...] = ()
    bounds: Bounds | None = None
    follows: Follows | None = None
    added_later: AddedLater | None = None
    read_with: ReadWith | None = None
    may_vary: MayVary | None = None

    def is_read(self, values: Mapping[str, Any]) -> bool:
        """Whether it is read, given the values of all fields."""
        return self.read_with is None or values.get(self.read_with.field) == self.read_with.value

    @property
    def allowed(self) -> str:
        """The allowed values for readers: `whole number, 1 … 10000`, `true | false`, `agents | one` …"""
        if self.choices:
            return " | ".join(self.choices)
        kind = {bool: "true | false", int: "whole number", float: "number", str: "text"}[self.type]
        kind = f"{kind}, {self.bounds}" if self.bounds else kind
        return f"{kind}, or {FORMS}" if self.may_vary else kind

    def parse(self, value: object, where: str) -> Scalar:
        """The value (from YAML, or text from the command line) converted to the field's type, within its bounds.

        Anything else is a UserError that names the field and the allowed values; `where` says where the value stood.
        """

        def wrong(allowed: str) -> UserError:
            seen = repr(value[:LONGEST_SHOWN]) if isinstance(value, str) else shown(value)
            return UserError(f"{where}: {self.name} = {seen} is not allowed; allowed: {allowed}")

        if self.choices:
            if not isinstance(value, str) or value not in self.choices:
                raise wrong(", ".join(self.choices))
            return value
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in ("true", "false"):
                return value.lower() == "true"
            raise wrong("true, false")
        if self.type is str:
            if not isinstance(value, str):
                raise wrong("text")
            return value
        if self.may_vary and isinstance(value, str):
            value = value.strip().removeprefix("constant ")
            try:
                schedule = Schedule.parse(value)
            except ValueError:
                raise wrong(f"a number, {FORMS}") from None
            if schedule is not None:
                self.check(schedule.first, where)
                self.check(schedule.last, where)
                return str(schedule)
        whole = self.type is int
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise wrong("a whole number" if whole else "a number")
        try:
            number = float(value)
        except ValueError:
            allowed = f"a number, {FORMS}" if self.may_vary else "a number"
            raise wrong("a whole number" if whole else allowed) from None
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise wrong(f"a finite number, {self.bounds}" if self.bounds else "a finite number")
        if whole and not number.is_integer():
            raise wrong("a whole number")
        self.check(number, where, value)
        if not whole:
            return number
        # Digits are read as they stand: a float would round those beyond 2⁵³.
        return int(value) if isinstance(value, int) or str(value).strip().lstrip("+-").isdigit() else int(number)

    def check(self, number: float, where: str, value: object = None) -> None:
        """UserError if the number is out of bounds; `value`: the number as the user wrote it."""
        if self.bounds and not self.bounds.least <= number <= self.bounds.greatest:
            seen = shown(number if value is None else value)
            raise UserError(f"{where}: {self.name} = {seen} is not allowed; allowed: {self.bounds}")


_DECLARED: dict[type[Any], Mapping[str, Declared]] = {}


def declared(kind: type[Any]) -> Mapping[str, Declared]:
    """The declarations of a dataclass's fields, by name and in their order."""
    if kind not in _DECLARED:
        found: dict[str, Declared] = {}
        for base in reversed(kind.__bases__):
            found |= declared(base) if is_dataclass(base) else {}
        hints = inspect.get_annotations(kind, eval_str=True)
        own = (_declared(f.name, hints[f.name], f.default) for f in fields(kind) if f.name in hints)
        _DECLARED[kind] = found | {field.name: field for field in own}
    return _DECLARED[kind]


_PARTS = {Bounds: "bounds", Follows: "follows", AddedLater: "added_later", ReadWith: "read_with", MayVary: "may_vary"}


def _declared(name: str, hint: Any, default: object) -> Declared:
    annotations = getattr(hint, "__metadata__", ())
    plain = get_args(hint)[0] if annotations else hint
    choices = get_args(plain) if get_origin(plain) is Literal else ()
    parts = {_PARTS[type(annotation)]: annotation for annotation in annotations}
    return Declared(name, hint, str if choices else plain, default, choices, **parts)


def meanings(kind: type[Any]) -> Mapping[str, str]:
    """By field name, the string below the field in the source: its meaning and where its value comes from."""
    texts: dict[str, str] = {}
    for parent in reversed([c for c in kind.__mro__ if c not in (object, tuple)]):
        definition = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0]
        assert isinstance(definition, ast.ClassDef)
        for statement, follower in zip(definition.body, definition.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(follower, ast.Expr)
                and isinstance(follower.value, ast.Constant)
            ):
                texts[statement.target.id] = " ".join(str(follower.value.value).split())
    return texts


def explained(kind: type[T]) -> type[T]:
    """A named tuple whose fields have these strings for documentation: `help` shows them."""
    for name, text in meanings(kind).items():
        getattr(kind, name).__doc__ = text
    return kind


# --- Values ---------------------------------------------------------------------------------------------------------


def hashed(values: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """The values that enter a digest: all but those of `AddedLater` fields that still behave as before, and of fields
    that are not read with the others (`ReadWith`)."""
    fields = declared(kind)
    added = {name: field.added_later for name, field in fields.items()}
    changed = {name: v for name, v in values.items() if (later := added[name]) is None or v != later.value}
    return {name: v for name, v in changed.items() if fields[name].is_read(values)}


def restored(values: Mapping[str, Any], kind: type[T]) -> T:
    """The dataclass from the values in a run.json; `AddedLater` fields it lacks get the value that reproduces it."""
    later = {name: field.added_later.value for name, field in declared(kind).items() if field.added_later}
    unknown = sorted(set(values) - set(declared(kind)))
    if unknown:
        raise UserError(f"unknown {kind.__name__} {', '.join(unknown)}: the run was made by another version of fp3o")
    return kind(**{**later, **values})


def checked(values: T, where: str) -> T:
    """The given dataclass, after checking every field's value; UserError for the first that is not allowed."""
    for name, field in declared(type(values)).items():
        field.parse(getattr(values, name), where)
    return values


def shown(value: object, longest: int = LONGEST_SHOWN) -> str:
    """A value for a message: as users write it, on one line, at most `longest` characters."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 3 * LONGEST_SHOWN:
        return f"about {'-' if value < 0 else ''}10^{int(math.log10(2) * value.bit_length())}"
    if value is None or isinstance(value, (list, dict)):
        return {type(None): "nothing", list: "a list", dict: "a mapping"}[type(value)]
    text = str(value) or repr(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= longest else f"{text[:longest]}…"
