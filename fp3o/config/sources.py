"""Where the data stands (benchmarks/) and the reading of its YAML files."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fp3o.errors import UserError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is eight times as fast


def repository() -> Path:
    """The checkout whose benchmarks/ count: the current folder if it is one, else the one this package lies in."""
    return _repository(os.getcwd())


@cache
def _repository(current: str) -> Path:
    for folder in (Path(current), Path(__file__).resolve().parents[2]):
        if (folder / "benchmarks" / "tasks.yaml").is_file():
            return folder
    raise UserError("benchmarks/tasks.yaml not found: run this in the repository's root folder")


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
    return read_yaml(repository() / "benchmarks" / "tasks.yaml")


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
