"""Cells, their resolved settings, digests and paths; suites. Imports neither torch nor snakemake.

    cell = Cell.parse("mamujoco/ant-2x4/partial/fp3o-double-clip")
    plan = resolve(cell, {"epochs": "3"})
    run_directory(Path("results/paper/runs"), plan, seed=0)

The data stands in benchmarks/tasks.yaml (hyper-parameters) and benchmarks/<suite>.yaml (which cells). A run's folder
carries a digest of everything that decides its numbers, so a changed setting is a folder that does not exist yet and a
reverted one finds its old runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import yaml

from fp3o.envs.options import KNOWN_ENVIRONMENTS, OPTIONS, revision
from fp3o.errors import UserError, unknown
from fp3o.settings import Settings

# Version of the training code's numbers. Bump when the same settings and seed give other results than before.
PROTOCOL = 1

Scalar: TypeAlias = str | int | float | bool

SHARINGS = ("full", "partial", "none", "by-type")

# Settings that only some algorithms read. They are refused elsewhere and left out of other algorithms' digests.
READERS: dict[str, tuple[str, ...]] = {
    "epochs_dependent": ("fp3o",),
    "advantage_split": ("fp3o",),
    "critic_in_dependent": ("fp3o",),
    "double_clip": ("fp3o",),
    "intermediate": ("fp3o",),
    "matching_degree": ("fp3o",),
    "clip_others": ("fp3o", "coppo", "a2po"),
    "agent_order": ("happo", "a2po"),
    "blocks": ("a2po",),
    "cumulative_blocks": ("a2po",),
    "adaptive_clip": ("a2po",),
    "two_stage": ("a2po",),
    "corrected_targets": ("a2po",),
    "trace": ("a2po",),
    "joint_gradient": ("coppo",),
    "happo_before": ("happo",),
}

# Numbers outside these bounds (least, greatest) are mistakes; None = unbounded.
BOUNDS: dict[str, tuple[float, float | None]] = {
    "total_steps": (1, None),
    "rollout_length": (1, None),
    "rollout_threads": (1, None),
    "epochs": (1, None),
    "epochs_dependent": (0, None),
    "minibatches": (1, None),
    "clip": (1e-6, 1),
    "clip_others": (1e-6, 1),
    "gamma": (0, 1),
    "gae_lambda": (0, 1),
    "actor_lr": (0, None),
    "critic_lr": (0, None),
    "adam_eps": (1e-12, None),
    "entropy_coef": (0, None),
    "gradient_clip": (1e-6, None),
    "huber_delta": (1e-6, None),
    "hidden_size": (1, None),
    "chunk_length": (1, None),
    "blocks": (0, None),
    "evaluation_interval": (1, None),
    "evaluation_episodes": (1, None),
    "final_episodes": (1, None),
    "slice_rows": (0, None),
}

SETTING_TYPES: dict[str, Any] = get_type_hints(Settings)
OPTION_TYPES: dict[str, dict[str, Any]] = {domain: get_type_hints(kind) for domain, kind in OPTIONS.items()}

MPE_EPISODE = 25  # Steps of every MPE episode, so a rollout of a multiple of 25 steps starts and ends with one.

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is eight times as fast


# --- Where the data is ---------------------------------------------------------------------------------------------


def repository() -> Path:
    """The checkout whose benchmarks/ count: the current folder if it is one, else the one this package lies in."""
    return _repository(os.getcwd())


@cache
def _repository(current: str) -> Path:
    for folder in (Path(current), Path(__file__).resolve().parents[1]):
        if (folder / "benchmarks" / "tasks.yaml").is_file():
            return folder
    raise UserError("benchmarks/tasks.yaml not found: run this in the repository's root folder")


@cache
def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a mapping at the top")
    return content


def catalogue() -> dict[str, Any]:
    """benchmarks/tasks.yaml."""
    return _read_yaml(repository() / "benchmarks" / "tasks.yaml")


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


# --- Cells ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Cell:
    """One entry of a table: task × sharing × algorithm (× variant)."""

    domain: str
    task: str
    sharing: str
    algorithm: str
    variant: str = ""

    @property
    def id(self) -> str:
        """`<domain>/<task>/<sharing>/<algorithm>[-<variant>]`, also the cell's folder."""
        return f"{self.domain}/{self.task}/{self.sharing}/{self.label}"

    @property
    def label(self) -> str:
        """`<algorithm>[-<variant>]`."""
        return f"{self.algorithm}-{self.variant}" if self.variant else self.algorithm

    @staticmethod
    def parse(text: str) -> Cell:
        """Read a cell id; every part is checked against what exists."""
        parts = text.strip("/").split("/")
        if len(parts) != 4:
            raise UserError(f"cell {text!r} should read <domain>/<task>/<sharing>/<algorithm>[-<variant>]")
        domain, task, sharing, label = parts
        algorithm, _, variant = label.partition("-")
        cell = Cell(domain, task, sharing, algorithm, variant)
        cell.check()
        return cell

    def check(self) -> None:
        """Raise UserError unless every part is known."""
        if self.domain not in domains():
            raise unknown("domain", self.domain, domains(), self.id)
        if catalogue()["domains"][self.domain].get("free_tasks", False):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.task):
                raise UserError(f"task {self.task!r} in {self.id} may hold letters, digits, '.', '_' and '-' only")
        elif self.task not in tasks(self.domain):
            raise unknown("task", self.task, tasks(self.domain), self.id)
        if self.sharing not in SHARINGS:
            raise unknown("sharing", self.sharing, SHARINGS, self.id)
        if self.algorithm not in algorithms():
            raise unknown("algorithm", self.algorithm, algorithms(), self.id)
        if self.variant and self.variant not in variants(self.algorithm):
            allowed = variants(self.algorithm) or ["(none)"]
            raise unknown(f"variant of {self.algorithm}", self.variant, allowed, self.id)


# --- Resolution ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Everything that decides a run's numbers, except the seed."""

    cell: Cell
    settings: Settings
    options: Any
    """Options of the cell's domain: a dataclass of fp3o.envs.options."""
    protocol: int
    revision: int
    """Of the domain's engine."""
    digest: str
    """First 10 hexadecimal digits of the sha256 over `configuration()` as canonical JSON."""
    deviations: tuple[str, ...] = ()
    """Lines such as "epochs 5 → 10 (variant mappo-10-epochs)": where this plan leaves the plain cell."""

    @property
    def iterations(self) -> int:
        """Whole iterations in total_steps."""
        return self.settings.total_steps // (self.settings.rollout_length * self.settings.rollout_threads)

    def configuration(self) -> dict[str, Any]:
        """What is hashed, and what run.json shows: settings the algorithm does not read are left out."""
        return _configuration(self.cell, self.settings, self.options, self.protocol, self.revision)


@dataclass(frozen=True)
class _Layer:
    """Values of one source; `label` names it in messages and deviations, "" for the paper's own values."""

    label: str
    values: Mapping[str, Scalar]


def setting_names(cell: Cell) -> tuple[str, ...]:
    """Settings the cell's algorithm reads, in the order of the dataclass."""
    return tuple(f.name for f in fields(Settings) if cell.algorithm in READERS.get(f.name, (cell.algorithm,)))


def option_names(domain: str) -> tuple[str, ...]:
    """Options of the domain's environments."""
    return tuple(f.name for f in fields(OPTIONS[domain]))


def _configuration(cell: Cell, settings: Settings, options: Any, protocol: int, revision: int) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "revision": revision,
        "cell": cell.id,
        "settings": {name: getattr(settings, name) for name in setting_names(cell)},
        "options": asdict(options),
    }


def canonical_json(value: object) -> str:
    """One spelling per value: sorted keys, no spaces, shortest exact numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _parse(kind: Any, value: Scalar, key: str, cell: Cell) -> Scalar:
    """Read a value as the field's type; anything else is an error that names what is allowed."""

    def wrong(allowed: str) -> UserError:
        return UserError(f"{cell.id}: {key} = {value!r} is not allowed; allowed: {allowed}")

    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            raise wrong(", ".join(map(str, choices)))
        return value
    if kind is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise wrong("true, false")
    if kind is str:
        return str(value)
    if isinstance(value, bool):
        raise wrong("a number")
    try:
        number = float(value)
    except ValueError:
        raise wrong("a whole number" if kind is int else "a number") from None
    if not math.isfinite(number):
        raise wrong("a finite number")
    if kind is float:
        return number
    if not number.is_integer():
        raise wrong("a whole number")
    return int(value) if isinstance(value, int) or str(value).lstrip("+-").isdigit() else int(number)


def _layers(cell: Cell) -> list[_Layer]:
    """The paper's values for the plain cell, then the variant's."""
    data = catalogue()
    domain = data["domains"][cell.domain]
    task = domain["tasks"].get(cell.task) or {}
    algorithm = data["algorithms"][cell.algorithm]
    there = algorithm.get("domains", {}).get(cell.domain, {})
    paper: list[Mapping[str, Scalar]] = [
        domain.get("settings", {}),
        domain.get("options", {}),
        task.get("settings", {}),
        task.get("options", {}),
        task.get("sharing", {}).get(cell.sharing, {}),
        algorithm.get("settings", {}),
        there.get("settings", {}),
        there.get("sharing", {}).get(cell.sharing, {}),
        there.get("tasks", {}).get(cell.task, {}),
    ]
    layers = [_Layer("", values) for values in paper]
    if cell.variant:
        values = data["variants"][cell.algorithm][cell.variant]["settings"]
        layers.append(_Layer(f"variant {cell.label}", values))
    return layers


def _merge(cell: Cell, layers: Iterable[_Layer]) -> tuple[dict[str, Scalar], dict[str, str]]:
    """Values by name and the layer each came from."""
    setting_types, option_types = SETTING_TYPES, OPTION_TYPES[cell.domain]
    readable = setting_names(cell)
    values: dict[str, Scalar] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if key in setting_types:
                kind = setting_types[key]
                if key not in readable:
                    if not layer.label:
                        continue  # A task's table serves all algorithms; each takes what it reads.
                    raise UserError(
                        f"{cell.id}: {key} ({layer.label}) is read only by {', '.join(READERS[key])}; "
                        f"allowed: {', '.join((*readable, *option_types))}"
                    )
            elif key in option_types:
                kind = option_types[key]
            else:
                raise unknown("setting", key, (*readable, *option_types), f"{cell.id} ({layer.label or 'tasks.yaml'})")
            values[key] = _parse(kind, value, key, cell)
            sources[key] = layer.label
    return values, sources


def _follow(cell: Cell, values: dict[str, Scalar], sources: dict[str, str]) -> None:
    """Settings that follow another one unless a layer named them."""
    for key, leader, share in (("clip_others", "clip", 0.5), ("epochs_dependent", "epochs", 1)):
        if key in setting_names(cell) and key not in values:
            led = values.get(leader, getattr(Settings, leader))
            assert isinstance(led, (int, float))
            values[key] = led * share
            sources[key] = f"follows {leader}"


def _check(cell: Cell, settings: Settings, options: Any) -> None:
    """Refuse numbers out of bounds and combinations that cannot be trained."""

    def refuse(message: str) -> UserError:
        return UserError(f"{cell.id}: {message}")

    for key, (least, greatest) in BOUNDS.items():
        value = getattr(settings, key)
        if value < least or (greatest is not None and value > greatest):
            limit = f"{least:g} … {greatest:g}" if greatest is not None else f"at least {least:g}"
            raise refuse(f"{key} = {value:g} is not allowed; allowed: {limit}")
    samples = settings.rollout_length * settings.rollout_threads
    if settings.total_steps < samples:
        raise refuse(f"total_steps = {settings.total_steps} is less than one rollout; allowed: at least {samples}")
    pieces, what = samples, "samples"
    if settings.recurrent:
        starts_an_episode = cell.domain == "mpe" and settings.rollout_length % MPE_EPISODE == 0
        length = samples if starts_an_episode else settings.rollout_length
        if length % settings.chunk_length:
            raise refuse(
                f"chunk_length = {settings.chunk_length} does not divide "
                f"{'the rollout' if starts_an_episode else 'rollout_length'} = {length}; allowed: {_divisors(length)}"
            )
        pieces, what = samples // settings.chunk_length, "chunks"
    if pieces % settings.minibatches:
        raise refuse(
            f"minibatches = {settings.minibatches} does not divide the {pieces} {what} of a rollout; "
            f"allowed: {_divisors(pieces)}"
        )
    if cell.algorithm == "fp3o" and settings.epochs_dependent == 0:
        for key in ("double_clip", "matching_degree"):
            if getattr(settings, key):
                raise refuse(f"{key} = true needs the dependent step; allowed: epochs_dependent of 1 or more")
    if cell.algorithm == "fp3o" and settings.matching_degree and not settings.intermediate:
        raise refuse("matching_degree = true compares intermediate policies; allowed: intermediate = true")
    if settings.cumulative_blocks and cell.algorithm == "a2po" and cell.sharing != "full":
        raise refuse("cumulative_blocks = true needs one policy for all agents; allowed: sharing full")
    # A stranger's environment: where it is, or one of those known by name (then the task's name is enough).
    known = cell.domain != "pettingzoo" or (options.env or cell.task) in KNOWN_ENVIRONMENTS
    if not known and not re.fullmatch(r"[\w.]+:[\w.]+", options.env):
        names = ", ".join(KNOWN_ENVIRONMENTS)
        raise refuse(f"env = {options.env!r} is not allowed; allowed: module:factory of a ParallelEnv, {names}")


def _divisors(number: int) -> str:
    return ", ".join(str(d) for d in range(1, number + 1) if number % d == 0)


def resolve(cell: Cell, overrides: Mapping[str, Scalar] | None = None, suite: Suite | None = None) -> Plan:
    """The plan of a cell: the paper's values, then the variant, the suite's overrides and `--set` (`overrides`)."""
    cell.check()
    base = _layers(cell)
    extra = list(base)
    if suite is not None:
        extra += [_Layer(f"suite {suite.name}", values) for values in suite.overrides_of(cell)]
    if overrides:
        extra.append(_Layer("--set", overrides))
    settings, options, sources = _build(cell, extra)
    _check(cell, settings, options)
    engine = revision(cell.domain, options)
    configuration = _configuration(cell, settings, options, PROTOCOL, engine)
    digest = hashlib.sha256(canonical_json(configuration).encode()).hexdigest()[:10]
    plain = _configuration(cell, *_build(cell, [layer for layer in base if not layer.label])[:2], PROTOCOL, engine)
    deviations = tuple(
        f"{key} {_show(old)} → {_show(configuration[part][key])} ({sources.get(key, 'default')})"
        for part in ("settings", "options")
        for key, old in plain[part].items()
        if old != configuration[part][key]
    )
    return Plan(cell, settings, options, PROTOCOL, engine, digest, deviations)


def _build(cell: Cell, layers: Iterable[_Layer]) -> tuple[Settings, Any, dict[str, str]]:
    values, sources = _merge(cell, layers)
    _follow(cell, values, sources)
    names = option_names(cell.domain)
    options = OPTIONS[cell.domain](**{key: value for key, value in values.items() if key in names})
    settings = Settings(**{key: value for key, value in values.items() if key not in names})  # type: ignore[arg-type]
    return settings, options, sources


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if value == "" else str(value)


# --- Seeds and paths -----------------------------------------------------------------------------------------------

SEED_BLOCK = 5  # Seeds trained in one process; a sixth seed is a block of its own and leaves the first five alone.

RUN_FILES = ("evaluations.csv", "iterations.csv", "checkpoint.safetensors", "run.json")


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-4`, `3`, `0-4,7`: sorted, without repetition."""
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"seeds {text!r} not understood; allowed: 3, 0-4 or 0-4,7")
        seeds.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(seeds))


def seeds_text(seeds: Sequence[int]) -> str:
    """The shortest text parse_seeds reads back."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def seed_blocks(seeds: Iterable[int], size: int = SEED_BLOCK) -> list[tuple[int, ...]]:
    """Seeds by fixed block (seed // size), so that adding a seed never changes a block that is complete."""
    blocks: dict[int, list[int]] = {}
    for seed in sorted(set(seeds)):
        blocks.setdefault(seed // size, []).append(seed)
    return [tuple(block) for block in blocks.values()]


def run_directory(root: Path, plan: Plan, seed: int) -> Path:
    """Where a finished run lies; `root` is results/<suite>/runs or the folder of `--out`."""
    return root / plan.cell.id / plan.digest / f"seed-{seed}"


def scratch_directory(scratch_root: Path, plan: Plan, seeds: Sequence[int]) -> Path:
    """Where a run in progress keeps its state; never a declared output."""
    return scratch_root / plan.cell.id / plan.digest / f"seeds-{seeds_text(seeds)}"


def suite_root(name: str) -> Path:
    """results/<suite> of the repository: every suite has its own, so that none touches another's tables.

    Relative where it can be, because the workflow names its files so.
    """
    root = Path("results") / name
    return root if repository() == Path.cwd() else repository() / root


# --- Suites --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Artefact:
    """A table or figure and the cells it needs."""

    name: str
    kind: Literal["table", "figure", "cost"]
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    caption: str = ""
    paper: str = ""
    """LaTeX label in the paper; "" for what is ours."""


@dataclass(frozen=True)
class Suite:
    """benchmarks/<name>.yaml: which cells, which seeds, and where it leaves the paper's values."""

    name: str
    seed_block: int
    overrides: tuple[tuple[str, Mapping[str, Scalar]], ...]
    artefacts: tuple[Artefact, ...]
    raw: Mapping[str, Any]

    def overrides_of(self, cell: Cell) -> list[Mapping[str, Scalar]]:
        """Overrides whose pattern fits the cell, in the file's order."""
        return [values for pattern, values in self.overrides if fnmatchcase(cell.id, pattern)]

    def runs(self) -> list[tuple[Plan, tuple[int, ...]]]:
        """Every cell once, with the union of the seeds its artefacts ask for, in the order of first mention."""
        return list(self._runs.values())

    def run(self, cell_id: str) -> tuple[Plan, tuple[int, ...]]:
        """Plan and seeds of one of its cells."""
        if cell_id not in self._runs:
            raise UserError(f"{cell_id} is not in suite {self.name}; allowed: the cells of benchmarks/{self.name}.yaml")
        return self._runs[cell_id]

    @cached_property
    def _runs(self) -> dict[str, tuple[Plan, tuple[int, ...]]]:
        seeds: dict[Cell, set[int]] = {}
        for artefact in self.artefacts:
            if artefact.kind != "cost":
                for cell in artefact.cells:
                    seeds.setdefault(cell, set()).update(artefact.seeds)
        return {cell.id: (resolve(cell, suite=self), tuple(sorted(s))) for cell, s in seeds.items()}

    def artefact(self, name: str, kind: str = "") -> Artefact:
        """An artefact by name, of a given kind where it matters."""
        allowed = {a.name: a for a in self.artefacts if kind in ("", a.kind)}
        if name not in allowed:
            raise unknown(kind or "artefact", name, allowed, f"suite {self.name}")
        return allowed[name]


def suite_names() -> tuple[str, ...]:
    """Suites in benchmarks/."""
    return tuple(sorted(p.stem for p in (repository() / "benchmarks").glob("*.yaml") if p.stem != "tasks"))


def load_suite(name: str) -> Suite:
    """Read and check benchmarks/<name>.yaml: unknown keys, cells, patterns without a match are errors."""
    path = repository() / "benchmarks" / f"{name}.yaml"
    if name == "tasks" or not path.is_file():
        raise unknown("suite", name, suite_names())
    return _suite(path)


@cache
def _suite(path: Path) -> Suite:
    raw = _read_yaml(path)
    _validate(raw, path)
    default_seeds = parse_seeds(str(raw["seeds"]))
    artefacts = []
    for name, entry in raw["artefacts"].items():
        cells: dict[Cell, None] = {}
        for group in entry["cells"]:
            for cell in _expand(group):
                cells[cell] = None
        seeds = parse_seeds(str(entry["seeds"])) if "seeds" in entry else default_seeds
        artefacts.append(
            Artefact(name, entry["kind"], tuple(cells), seeds, entry.get("caption", ""), entry.get("paper", ""))
        )
    overrides = tuple((entry["cells"], entry["set"]) for entry in raw.get("overrides", []))
    suite = Suite(path.stem, raw.get("seed_block", SEED_BLOCK), overrides, tuple(artefacts), raw)
    ids = [cell.id for artefact in artefacts for cell in artefact.cells]
    for pattern, _ in overrides:
        if not any(fnmatchcase(i, pattern) for i in ids):
            raise UserError(f"suite {suite.name}: override for {pattern!r} fits none of its cells")
    if any(values.get("backend") == "auto" for _, values in overrides):
        # What is installed would decide which runs count as missing.
        raise UserError(
            f"suite {suite.name}: backend auto is for runs by hand; allowed in a suite: embedded, starcraft2"
        )
    return suite


def _expand(group: Mapping[str, Any] | str) -> list[Cell]:
    """A cell id, or lists of tasks, sharings and algorithms to be multiplied (tasks outermost)."""
    if isinstance(group, str):
        return [Cell.parse(group)]
    return [
        Cell.parse(f"{group['domain']}/{task}/{sharing}/{label}")
        for task in group["tasks"]
        for sharing in group["sharing"]
        for label in group["algorithms"]
    ]


def _validate(raw: Mapping[str, Any], path: Path) -> None:
    """Check a suite against workflow/schemas/suite.schema.yaml; the first fault as one line."""
    import jsonschema  # Slow to import and needed only where a suite is read.

    schema = _read_yaml(path.parents[1] / "workflow" / "schemas" / "suite.schema.yaml")
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(raw))
    if error is not None:
        place = "/".join(str(p) for p in error.absolute_path) or "top level"
        raise UserError(f"suite {path.stem}, {place}: {error.message}")
