"""The text under each field of a dataclass, for `--help`: said once, in the code, and shown to users from there."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints


class FieldDoc(NamedTuple):
    """One field as a user sees it."""

    name: str
    allowed: str
    """`whole number`, `true | false`, `agents | one` …"""
    default: str
    text: str


def field_docs(kind: type[Any]) -> list[FieldDoc]:
    """Every field of a dataclass in its order, with the string that stands below it."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, follower in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(follower, ast.Expr)
            and isinstance(follower.value, ast.Constant)
        ):
            texts[statement.target.id] = " ".join(str(follower.value.value).split())
    hints = get_type_hints(kind)
    return [
        FieldDoc(field.name, _allowed(hints[field.name]), _shown(field.default), texts.get(field.name, ""))
        for field in fields(kind)
    ]


def _allowed(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(str(choice) for choice in get_args(hint))
    return {bool: "true | false", int: "whole number", float: "number", str: "text"}.get(hint, str(hint))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "(none)" if value == "" else str(value)
