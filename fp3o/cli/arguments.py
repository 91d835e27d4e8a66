"""What several commands have in common: help texts, checks of arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from fp3o import config
from fp3o.config.settings import Settings
from fp3o.envs.domains import OPTIONS
from fp3o.errors import UserError
from fp3o.fields import declared, meanings, shown

CELL_HELP = "<domain>/<task>/<sharing>/<algorithm>[-<variant>], for example mamujoco/ant-2x4/partial/fp3o."


def settings_help() -> str:
    """Every name `--set` knows, with its meaning: settings of the learner, then options of each domain."""
    lines = ["Override one value; every departure from the paper is recorded. Settings:"]
    texts = meanings(Settings)
    for name, field in declared(Settings).items():
        only = f" Only {', '.join(field.readers)}." if field.readers else ""
        lines.append(f"• {name} ({field.allowed}): {texts[name]}{only}")
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
