"""Checks benchmarks/tasks.yaml: an unknown key or a bad value is a UserError naming its place and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from fp3o import registry
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import every_field
from fp3o.config.sharings import SHARINGS
from fp3o.errors import UserError, unknown
from fp3o.fields import Declared, declared, shown

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""Tasks and variants are parts of folder names."""
Measured = Literal["memory_mib", "gpu_mib", "step_us"]
UNMEASURED: dict[Measured, int] = {"memory_mib": 4000, "gpu_mib": 4000, "step_us": 100}
"""What a task, or all tasks of a domain, take, assumed where it was not measured: memory and GPU memory of five seeds,
processor time of one environment step of one seed, updates and evaluations included."""
WORK = "work_percent"
"""Of an algorithm or variant: processor time of a step, in percent of what the task's step takes; 100 if not named."""
MOST = 1 << 20
"""A tebibyte in MiB; a second in µs."""


def check_tasks(content: Mapping[str, Any], file: str) -> None:
    """UserError unless every key is known and every value is one that its setting allows; `file` is for messages."""
    _Check(file).whole(content)


class _Check:
    def __init__(self, file: str) -> None:
        self.file = file
        self.settings = every_field()

    def whole(self, content: Mapping[str, Any]) -> None:
        top = self.mapping(content, "", ("domains", "algorithms", "variants"), required=True)
        domains = self.mapping(top["domains"], "domains", OPTIONS)
        tasks = {name: self.domain(name, entry) for name, entry in domains.items()}
        if not tasks:
            raise self.error("domains", "is empty; allowed: one entry or more")
        algorithms = self.mapping(top["algorithms"], "algorithms", registry.algorithms())
        for name, entry in algorithms.items():
            self.algorithm(f"algorithms/{name}", entry, tasks)
        for name, entry in self.mapping(top["variants"], "variants", registry.algorithms()).items():
            self.variants(f"variants/{name}", entry)

    def domain(self, name: str, entry: object) -> Collection[str]:
        """The names of its tasks."""
        place = f"domains/{name}"
        own = self.mapping(entry, place, ("settings", "options", "tasks", "free_tasks", *UNMEASURED))
        if not isinstance(own.get("free_tasks", False), bool):
            raise self.error(f"{place}/free_tasks", f"is {shown(own['free_tasks'])}; allowed: true, false")
        self.measured(own, place)
        self.values(own.get("settings", {}), f"{place}/settings", self.settings)
        self.values(own.get("options", {}), f"{place}/options", declared(OPTIONS[name]))
        if "tasks" not in own:
            raise self.error(place, "has no key 'tasks'")
        tasks = self.mapping(own["tasks"], f"{place}/tasks")
        both = {**self.settings, **declared(OPTIONS[name])}
        for task, value in tasks.items():
            here = f"{place}/tasks/{task[:80]}"
            self.name(task, here)
            parts = self.mapping(value, here, ("settings", "options", "sharing", *UNMEASURED))
            self.measured(parts, here)
            self.values(parts.get("settings", {}), f"{here}/settings", self.settings)
            self.values(parts.get("options", {}), f"{here}/options", declared(OPTIONS[name]))
            self.by_name(parts.get("sharing", {}), f"{here}/sharing", SHARINGS, both)
        return tasks

    def algorithm(self, place: str, entry: object, tasks: Mapping[str, Collection[str]]) -> None:
        own = self.mapping(entry, place, ("settings", "domains", WORK))
        self.measured(own, place)
        self.values(own.get("settings", {}), f"{place}/settings", self.settings)
        for domain, value in self.mapping(own.get("domains", {}), f"{place}/domains", tasks).items():
            here = f"{place}/domains/{domain}"
            parts = self.mapping(value, here, ("settings", "sharing", "tasks"))
            both = {**self.settings, **declared(OPTIONS[domain])}
            self.values(parts.get("settings", {}), f"{here}/settings", both)
            self.by_name(parts.get("sharing", {}), f"{here}/sharing", SHARINGS, both)
            self.by_name(parts.get("tasks", {}), f"{here}/tasks", tasks[domain], both)

    def variants(self, place: str, entry: object) -> None:
        everything = dict(self.settings)
        for kind in OPTIONS.values():
            everything |= declared(kind)
        for variant, value in self.mapping(entry, place).items():
            here = f"{place}/{variant[:80]}"
            self.name(variant, here)
            parts = self.mapping(value, here, ("about", "settings"), required=True, optional=(WORK,))
            self.measured(parts, here)
            if not isinstance(parts["about"], str):
                raise self.error(f"{here}/about", f"is {shown(parts['about'])}; allowed: text")
            self.values(parts["settings"], f"{here}/settings", everything)

    # --- Pieces -----------------------------------------------------------------------------------------------------

    def measured(self, entry: Mapping[str, Any], place: str) -> None:
        for key in (*UNMEASURED, WORK):
            value = entry.get(key, 1)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise self.error(f"{place}/{key}", f"is {shown(value)}; allowed: 1 to {MOST}")

    def by_name(self, value: object, place: str, names: Collection[str], fields: Mapping[str, Declared]) -> None:
        for name, values in self.mapping(value, place, names).items():
            self.values(values, f"{place}/{name}", fields)

    def values(self, value: object, place: str, fields: Mapping[str, Declared]) -> None:
        for name, number in self.mapping(value, place, fields).items():
            fields[name].parse(number, f"{self.file}, {place}")

    def name(self, name: str, place: str) -> None:
        if not NAME.fullmatch(name):
            raise self.error(place, "may hold letters, digits, '.', '_' and '-' only, at most 80")

    def mapping(
        self,
        value: object,
        place: str,
        allowed: Collection[str] | None = None,
        required: bool = False,
        optional: Collection[str] = (),
    ) -> dict[str, Any]:
        """The value, checked to be a mapping with no keys but these (`required`: with all of them but the optional
        ones); None is empty."""
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            raise self.error(place, f"is {shown(value)}; allowed: a mapping")
        for key in value:
            if allowed is not None and key not in (*allowed, *optional):
                raise unknown("key", shown(key), (*allowed, *optional), f"{self.file}, {place}" if place else self.file)
        for key in allowed or () if required else ():
            if key not in value:
                raise self.error(place, f"has no key {key!r}")
        return value

    def error(self, place: str, message: str) -> UserError:
        return UserError(f"{self.file}, {place} {message}" if place else f"{self.file} {message}")
