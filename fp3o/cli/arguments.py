"""What several commands have in common: help texts, checks of arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from tyro.conf import UseAppendAction, arg

from fp3o import config
from fp3o.config.settings import Settings
from fp3o.envs.domains import OPTIONS
from fp3o.errors import UserError
from fp3o.fields import declared, meanings, shown
from fp3o.plugins.loading import load_file
from fp3o.plugins.registry import ADDED

CELL_HELP = "<domain>/<task>/<sharing>/<algorithm>[-<variant>], for example mamujoco/ant-2x4/partial/fp3o."


IMPORT = "--import"
Imports: TypeAlias = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="import",
        metavar="FILE",
        help="Load a plug-in: a file with algorithms or environments of yours.",
    ),
]


def load_imports(arguments: Sequence[str]) -> None:
    """Load the plug-ins that a command line names, before it is parsed: its help and its names depend on them."""
    for place, word in enumerate(arguments):
        name, equals, file = word.partition("=")
        if name == IMPORT and (equals or place + 1 < len(arguments)):
            load_file(file if equals else arguments[place + 1], IMPORT)


def settings_help() -> str:
    """Every name `--set` knows, with its meaning: settings of the learner, then options of each domain."""
    lines = ["Override one value; every departure from the paper is recorded. Settings:"]
    texts = meanings(Settings)
    for name, field in declared(Settings).items():
        only = f" Only {', '.join(field.readers)}." if field.readers else ""
        lines.append(f"• {name} ({field.allowed}): {texts[name]}{only}")
    for name, added in ADDED.algorithms.items():
        if added.meanings:
            lines.append(f"Settings of {name}:")
        fields = declared(added.settings)
        lines += [
            f"• {key} ({fields[key].allowed}; default {shown_default(fields[key].default)}): {text}"
            for key, text in added.meanings.items()
        ]
    for domain, kind in OPTIONS.items():
        texts = meanings(kind)
        if texts:
            lines.append(f"Options of {domain} environments:")
        for name, field in declared(kind).items():
            lines.append(f"• {name} ({field.allowed}; default {shown_default(field.default)}): {texts[name]}")
    return "\n".join(lines)


def shown_default(default: object) -> str:
    return "(none)" if default == "" else shown(default)


def check_number(name: str, value: int, least: int, greatest: int) -> None:
    """UserError for a number of the command line that is out of bounds."""
    if not least <= value <= greatest:
        raise UserError(f"--{name} {shown(value)} is not allowed; allowed: {least} … {greatest}")


def parse_overrides(pairs: Sequence[str]) -> dict[str, config.Scalar]:
    """The values of --set, from texts `name=value`; UserError if a name is given twice."""
    overrides: dict[str, config.Scalar] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError(f"--set {pair!r} not understood; allowed: name=value")
        if name in overrides:
            raise UserError(f"--set {name} is given twice: {overrides[name]} and {value}")
        overrides[name] = value
    return overrides


def find_local_modules() -> None:
    """Make modules in the current folder importable, for a user's `module:factory`; installed ones come first."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
