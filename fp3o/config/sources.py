"""Where the data stands (benchmarks/, in a checkout or in the package) and the reading of its YAML files."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fp3o.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
# setup.py puts benchmarks/ and workflow/schemas/ here; the other files of a checkout are not installed.
PACKAGED = PACKAGE / "data"
MARKS = ("benchmarks/tasks.yaml", "workflow/schemas/suite.schema.yaml")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is eight times as fast


def data_root() -> Path:
    """The folder whose benchmarks/ and workflow/schemas/ count: the checkout, or the copy in the installed package."""
    return checkout() or PACKAGED


def repository() -> Path:
    """The checkout, for commands that work on one."""
    found = checkout()
    if found is None:
        raise UserError(f"this command works on a checkout of the repository, and {os.getcwd()} lies in none")
    return found


def checkout() -> Path | None:
    """The checkout the current folder lies in, else the one this package is run from; None for an installed copy."""
    return _checkout(os.getcwd())


@cache
def _checkout(current: str) -> Path | None:
    for folder in (Path(current), *Path(current).parents, PACKAGE.parent):
        if all((folder / name).is_file() for name in MARKS):
            return folder
    return None


@cache
def read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a mapping at the top")
    return content


def catalogue() -> dict[str, Any]:
    """benchmarks/tasks.yaml."""
    return read_yaml(data_root() / "benchmarks" / "tasks.yaml")


def domains() -> tuple[str, ...]:
    """Names of the domains, as they appear in cells."""
    return tuple(catalogue()["domains"])


def tasks(domain: str) -> tuple[str, ...]:
    """Known tasks of a domain; empty where the task name is free."""
    return tuple(catalogue()["domains"][domain]["tasks"])


def algorithms() -> tuple[str, ...]:
    """The six algorithms."""
    return tuple(catalogue()["algorithms"])


def variants(algorithm: str) -> dict[str, str]:
    """Variants of an algorithm with a line on each."""
    return {name: entry["about"] for name, entry in catalogue()["variants"].get(algorithm, {}).items()}
