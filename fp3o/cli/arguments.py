"""What several commands have in common: arguments, help texts, checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tyro.conf import UseAppendAction, arg

from fp3o import config
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import Settings
from fp3o.errors import UserError, first_of
from fp3o.fields import declared, meanings, shown
from fp3o.registry import load_file, own_settings

CELL_HELP = "<domain>/<task>/<sharing>/<algorithm>[-<variant>], for example mamujoco/ant-2x4/partial/fp3o."
SEEDS_HELP = "Numbers of the seeds: 0-4 (five), 3 (the one numbered 3) or 0-4,7; all are trained side by side."
SUITE_HELP = "Suite whose overrides apply; its runs go to results/NAME/, other settings, seeds or cells to runs/."

# The settings that people change most, in the order of `fp3o train --help`.
FIRST = (
    "total_steps",
    "rollout_length",
    "rollout_threads",
    "epochs",
    "minibatches",
    "clip",
    "actor_lr",
    "critic_lr",
    "entropy_coef",
    "evaluation_interval",
)


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
    """Load the plug-ins given by --import before the command line is parsed: help and allowed names depend on them."""
    for place, word in enumerate(arguments):
        name, equals, file = word.partition("=")
        if name == IMPORT and (equals or place + 1 < len(arguments)):
            load_file(file if equals else arguments[place + 1], IMPORT)


def settings_help() -> str:
    """All names for `--set` with their meanings: the most used, the other settings, the options of each domain."""
    texts, fields = meanings(Settings), declared(Settings)
    lines = ["Another value; may be repeated, and every departure from the paper is recorded. Changed most often:"]
    for title, names in (("", FIRST), ("Other settings:", [name for name in fields if name not in FIRST])):
        lines += [title] if title else []
        lines += [f"• {name} ({fields[name].allowed}): {texts[name]}" for name in names]
    groups = {f"Settings of {name}:": [*own_settings(name).values()] for name in config.algorithms()}
    for domain, kind in OPTIONS.items():
        explained = zip(declared(kind).values(), meanings(kind).values(), strict=True)
        groups[f"Options of {domain} environments:"] = list(explained)
    for title, members in groups.items():
        lines += [title] if members else []
        lines += [
            f"• {one.name} ({one.allowed}; default {shown_default(one.default)}): {text}" for one, text in members
        ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Values:
    """What differs from the paper's values; `fp3o show CELL` lists them all, with their sources."""

    env_args: Annotated[
        str, arg(metavar="NAME=VALUE,…", help="What the environment's factory is called with: --set env_args=….")
    ] = ""
    set_: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help=settings_help())] = ()

    def overrides(self) -> dict[str, config.Scalar]:
        """By name; UserError if a name is given twice."""
        return parse_overrides([*self.set_, *([f"env_args={self.env_args}"] if self.env_args else [])])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per row, columns below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def shown_default(default: object) -> str:
    return "(none)" if default == "" else shown(default)


def check_number(name: str, value: int, least: int, greatest: int) -> None:
    """UserError if a number on the command line is out of bounds."""
    if not least <= value <= greatest:
        raise UserError(f"--{name} {shown(value)} is not allowed; allowed: {least} … {greatest}")


def check_folder_of(name: str, file: Path | None) -> None:
    """UserError if the folder of a file to be written does not exist."""
    if file is not None and not file.parent.is_dir():
        raise UserError(f"--{name} {file}: there is no folder {file.parent}")


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


def read_run(run: Path) -> dict[str, Any]:
    """run.json of a finished run; if there is none, a UserError that says where else a run of that name is."""
    from fp3o.runs import records

    if not (run / records.RUN).exists():
        raise UserError(f"there is no run in {run}: no {records.RUN} is there{_elsewhere(run)}")
    return records.read_run(run / records.RUN)


def _elsewhere(run: Path) -> str:
    """For messages: where a run that is not in this folder may be; "" where nothing is known."""
    from fp3o.runs import layout, records

    home = config.checkout()
    if home is not None and (home / run / records.RUN).is_file():
        return f"; there is one in {home}, and this is {os.getcwd()}: run this there"
    below = sorted(path.parent for depth in ("", "*/") for path in run.glob(f"{depth}seed-*/{records.RUN}"))
    if below:
        return f"; below it are {first_of(below)}"
    for suite in config.suite_names():
        folder = (layout.suite_root(suite) / "runs").absolute()
        if run.absolute().is_relative_to(folder):
            return _saved_in(suite, run.absolute().relative_to(folder))
    return ""


def _saved_in(suite: str, run: Path) -> str:
    """For messages: how to get a run (cell/digest/seed), or those of one cell, that were saved; "" if none were."""
    from fp3o.workflow.manifest import listed_runs

    cells = sorted({one.cell for one in listed_runs(suite) if Path(one.path).is_relative_to(run)})
    return f"; it was saved: `fp3o pull {cells[0]}` brings it" if len(cells) == 1 else ""


def allow_code(run: Path, document: Mapping[str, Any], trust: bool) -> None:
    """UserError if run.json names an environment outside fp3o (module:factory) and it is not trusted or not found."""
    from fp3o.runs import records, verify

    named = verify.foreign_code(document)
    if named and not trust:
        raise UserError(f"{run / records.RUN} wants to run code of yours or of a package, {named}; --trust allows it")
    find_local_modules()
    module = named.partition(":")[0]
    if named and find_spec(module.partition(".")[0]) is None:
        raise UserError(
            f"{run / records.RUN} plays {named}, and there is no module {module} in {os.getcwd()} or among the "
            f"installed packages; run this in the folder that has {module.replace('.', '/')}.py"
        )


def find_local_modules() -> None:
    """Make modules in the current folder importable, for a user's `module:factory`; installed ones take precedence."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
