"""Where benchmarks/ is (in a checkout of the repository or in the installed package) and what tasks.yaml defines."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fp3o import registry
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import every_field, settings_of
from fp3o.config.tasks_schema import NAME, check_tasks
from fp3o.config.yaml_files import read_yaml
from fp3o.errors import UserError
from fp3o.fields import Scalar, declared

PACKAGE = Path(__file__).resolve().parents[1]
# setup.py copies benchmarks/ and workflow/schemas/ here; the other files of a checkout are not installed.
PACKAGED = PACKAGE / "data"
# Files by which a folder is recognised as a checkout.
CHECKOUT_FILES = ("benchmarks/tasks.yaml", "workflow/schemas/suite.schema.yaml")


def data_root() -> Path:
    """The folder whose benchmarks/ and workflow/schemas/ are used: the checkout, or the installed package's copy."""
    return checkout() or PACKAGED


def repository() -> Path:
    """The checkout; UserError where there is none, for commands that need one."""
    folder = checkout()
    if folder is None:
        raise UserError(f"this command works on a checkout of the repository, and {os.getcwd()} lies in none")
    return folder


def checkout() -> Path | None:
    """The checkout the current folder lies in, else the one this package is run from; None for an installed copy."""
    return _checkout(os.getcwd())


@cache
def _checkout(current: str) -> Path | None:
    for folder in (Path(current), *Path(current).parents, PACKAGE.parent):
        if all((folder / name).is_file() for name in CHECKOUT_FILES):
            return folder
    return None


def catalogue() -> dict[str, Any]:
    """benchmarks/tasks.yaml, checked (every key known, every value allowed), with what else the registry holds."""
    entries = registry.algorithms()
    content = _catalogue(data_root())
    known = content["algorithms"]
    if len(entries) == len(known) and len(registry.ENVIRONMENTS) == registry.SHIPPED_ENVIRONMENTS:
        return content
    algorithms = {name: {"settings": one.settings} for name, one in entries.items() if name not in known}
    tasks = {
        name: {"settings": one.settings, "options": one.options}
        for name, one in registry.ENVIRONMENTS.items()
        if one.file
    }
    free = content["domains"]["pettingzoo"]
    domains = {**content["domains"], "pettingzoo": {**free, "tasks": {**(free["tasks"] or {}), **tasks}}}
    return {**content, "domains": domains, "algorithms": {**known, **algorithms}}


@cache
def _catalogue(root: Path) -> dict[str, Any]:
    content = read_yaml(root / "benchmarks" / "tasks.yaml")
    check_tasks(content, "benchmarks/tasks.yaml")
    return content


def domains() -> tuple[str, ...]:
    """Names of the domains, as they appear in cells."""
    return tuple(catalogue()["domains"])


def tasks(domain: str) -> tuple[str, ...]:
    """Known tasks of a domain; empty where a task may have any name."""
    return tuple(catalogue()["domains"][domain]["tasks"] or ())


def algorithms() -> tuple[str, ...]:
    """Names of the algorithms."""
    return tuple(catalogue()["algorithms"])


def variants(algorithm: str) -> dict[str, str]:
    """Variants of an algorithm, with a line of text on each."""
    return {name: entry["about"] for name, entry in (catalogue()["variants"].get(algorithm) or {}).items()}


EPOCHS = re.compile(r"([1-9]\d{0,3})-([1-9]\d{0,3})")
"""Variants that need no entry, of algorithms with two kinds of epochs: `fp3o-8-7` makes 8 + 7."""


def variant_settings(algorithm: str, variant: str) -> Mapping[str, Scalar] | None:
    """What a variant changes; None where there is no such variant."""
    known = (catalogue()["variants"].get(algorithm) or {}).get(variant)
    if known is not None:
        return dict(known["settings"] or {})  # Empty in a file of the user's
    epochs = EPOCHS.fullmatch(variant)
    if epochs and "epochs_dependent" in declared(settings_of(algorithm)):
        return {"epochs": int(epochs[1]), "epochs_dependent": int(epochs[2])}
    for name in variants(algorithm):  # An entry, and what is spelt out behind it: mappo-10-epochs-clip-0.1.
        rest = _spelt(algorithm, variant.removeprefix(f"{name}-")) if variant.startswith(f"{name}-") else None
        if rest is not None:
            return {**(variant_settings(algorithm, name) or {}), **rest}
    return _spelt(algorithm, variant)


def _spelt(algorithm: str, variant: str) -> Mapping[str, Scalar] | None:
    """The settings that a variant's name spells out, `clip-0.1-epochs-5`; None where it does not. Such variants need no
    entry either: a suite's grids are made of them."""
    names = {*declared(settings_of(algorithm)), *every_field()}
    names |= {name for kind in OPTIONS.values() for name in declared(kind)}
    values: dict[str, Scalar] = {}
    name = ""
    for word in variant.split("-") if NAME.fullmatch(variant) else ():
        if word in names and word not in values and (not name or values[name]):
            name = word
            values[name] = ""
        elif word and name:
            values[name] = f"{values[name]}-{word}" if values[name] else word
        else:
            return None
    return values if name and values[name] else None
