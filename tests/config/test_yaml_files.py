"""Edited by people: a damaged tasks.yaml or suite is one line that names the place, never a traceback or a hang."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fp3o import config
from fp3o.config import Cell, load_suite, resolve
from fp3o.config.yaml_files import LOADER, parse_yaml, read_yaml
from fp3o.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
TASKS, SUITE = "benchmarks/tasks.yaml", "benchmarks/suites/smoke.yaml"
Load = Callable[[str, str], None]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Use a checkout in which one file has this text: every cell of the smoke suite and some of tasks.yaml."""
    made = iter(range(10**6))

    def use(name: str, text: str) -> None:
        root = tmp_path / str(next(made))
        for other in (TASKS, SUITE, "workflow/schemas/suite.schema.yaml"):
            (root / other).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / other, root / other)
        (root / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(root)
        load_suite("smoke").runs()
        for domain in config.domains():
            for task in config.tasks(domain)[:2]:
                for algorithm in config.algorithms():
                    for variant in ("", *config.variants(algorithm)):
                        resolve(Cell(domain, task, "full", algorithm, variant))

    return use


def refused(load: Load, name: str, old: str, new: str) -> str:
    text = (ROOT / name).read_text()
    assert text.count(old) >= 1
    with pytest.raises(UserError) as error:
        load(name, text.replace(old, new, 1))
    assert "\n" not in str(error.value)
    return str(error.value)


# --- Named faults ---------------------------------------------------------------------------------------------------


def test_a_misspelt_key_is_named_with_its_place(load: Load) -> None:
    old = "ant-2x4:\n        settings:"
    assert refused(load, TASKS, old, old.replace("settings", "setings")) == (
        "unknown key 'setings' in benchmarks/tasks.yaml, domains/mamujoco/tasks/ant-2x4; "
        "allowed: settings, options, sharing, memory_mib, gpu_mib, step_us; did you mean settings?"
    )


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("\nalgorithms:", "\nalgoritms:", ["unknown key 'algoritms'", "domains, algorithms, variants"]),
        ("\n  mpe:\n", "\n  mpee:\n", ["unknown key 'mpee'", "mamujoco"]),
        ("gamma: 0.99", "gama: 0.99", ["unknown key 'gama'", "domains/mamujoco/settings", "gamma"]),
        ("epochs: 5 #", "epochs: many #", ["domains/mamujoco/settings: epochs = 'many'", "whole number"]),
        ("epochs: 5 #", "epochs: #", ["epochs = nothing", "whole number"]),
        ("epochs: 5 #", "epochs: [5] #", ["epochs = a list", "whole number"]),
        ("epochs: 5 #", "epochs: 1" + "0" * 300 + " #", ["epochs = about 10^", "1 … 10000"]),
        ("free_tasks: true", "free_tasks: perhaps", ["free_tasks", "true, false"]),
        ("memory_mib: 6500", "memory_mib: 6.5 GiB", ["bane_vs_bane/memory_mib", "allowed: 1 to"]),
        ("gpu_mib: 13900", "gpu_mib: 13.9 GB", ["bane_vs_bane/gpu_mib", "allowed: 1 to"]),
        ("gpu_mib: 1450", "gpu_mib: 0", ["domains/mamujoco/gpu_mib is 0", "allowed: 1 to"]),
        ("work_percent: 160", "work_percent: 1.6", ["algorithms/a2po/work_percent is 1.6", "allowed: 1 to"]),
        ("work_percent: 300", "work_percent: 0", ["variants/a2po/no-blocks/work_percent is 0", "allowed: 1 to"]),
        ("gpu_mib: 1450", "gpu_mb: 1450", ["unknown key 'gpu_mb'", "domains/mamujoco", "gpu_mib"]),
        ("          full: {total_steps: 8", "          fulll: {total_steps: 8", ["'fulll'", "by-type"]),
        (
            "          3s5z: {epochs: 8",
            "          3s5zz: {epochs: 8",
            ["'3s5zz'", "algorithms/a2po/domains/smac/tasks"],
        ),
        ("about: Independent", "abuot: Independent", ["'abuot'", "variants/fp3o/independent", "about, settings"]),
        ("  happo:\n    before-rollout", "  hapo:\n    before-rollout", ["'hapo'", "variants", "happo"]),
        (
            "      gamma: 0.99 #",
            "      epochs: 7\n      gamma: 0.99 #",
            ["line {line}", "'epochs' is given twice"],
        ),
        ("\nalgorithms:", "\ndomains: {}\nalgorithms:", ["'domains' is given twice"]),
        ("  ippo:\n", "  1:\n", ["key should be text", "'1'"]),
        ("settings: &matching\n", "settings: &matching\n        <<: *matching\n", ["inside what it names"]),
    ],
)
def test_a_fault_in_tasks_is_one_line(load: Load, old: str, new: str, names: list[str]) -> None:
    message = refused(load, TASKS, old, new)
    line = str((ROOT / TASKS).read_text().partition(old)[0].count("\n") + 1)
    assert all(name.replace("{line}", line) in message for name in ("tasks.yaml", *names)), message


def test_a_duplicate_in_a_suite_is_named(load: Load) -> None:
    assert "'seeds' is given twice" in refused(load, SUITE, "\nseeds: 0-1", "\nseeds: 0-1\nseeds: 0-4")


def test_merge_keys_still_work() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, {z: 4}], x: 0}\nd: *a\n"
    assert parse_yaml(text, "f") == yaml.safe_load(text)


# Each level holds the one before nine times; merged, twice.
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]\n" for k in range(20))
MERGED_LAUGHS = "a0: &a0 {x: 1}\n" + "".join(f"a{k + 1}: &a{k + 1} {{<<: [*a{k}, *a{k}]}}\n" for k in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 200_000, "nested deeper"),
        ("a: " + "{b: " * 100 + "1" + "}" * 100, "nested deeper"),
        (LAUGHS, "aliases expand"),
        (MERGED_LAUGHS, "aliases expand"),
        ("a: &a [1, *a]", "inside what it names"),
        ("a: 2020-13-45", "not valid YAML"),
        ("a: " + "9" * 5000, "5000 characters"),
        ("a: 0x" + "f" * 5000, "5002 characters"),
        ("a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("? [a, b]\n: 1", "key should be text"),
        ("a: *nobody", "not valid YAML"),
        ("- a", "expected a mapping"),
        ("", "expected a mapping"),
        ("\x00", "not valid YAML"),
    ],
)
def test_a_hostile_file_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_yaml(text, "file")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\xfe")
    (tmp_path / "large.yaml").write_text("a: 1\n" + "#" * 1_000_000)
    for name, message in [("none.yaml", "cannot be read"), ("binary.yaml", "UTF-8"), ("large.yaml", "too many")]:
        with pytest.raises(UserError, match=message):
            read_yaml(tmp_path / name)
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(tmp_path)


def test_a_suites_name_is_no_path() -> None:
    for name in ("../paper", "tasks", "published/../paper", ""):
        with pytest.raises(UserError, match="unknown suite"):
            load_suite(name)


# --- Mutations ------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, [], {}, "", "x", True, -1, 0, 10**30, 2.5, math.nan, math.inf, [[1]], {"a": {"b": None}})


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (collection, key) of a tree."""
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [place for key, value in items for place in [(tree, key), *places(value)]]


def mutated_tree(text: str, draw: random.Random) -> str:
    tree = json.loads(json.dumps(yaml.load(text, LOADER)))  # Every alias a copy of its own.
    owner, key = draw.choice(places(tree))
    what = draw.randrange(4)
    if what == 0:
        del owner[key]
    elif what == 1:
        owner[key] = draw.choice(ODD)
    elif what == 2 and isinstance(owner, dict):
        owner[f"{key}s"] = owner.pop(key)
    elif isinstance(owner, dict):
        owner[draw.choice(["x", "settings", "tasks", "options", 5, None, True, "a/b", "é" * 300])] = owner[key]
    else:
        owner.append(draw.choice(ODD))
    return yaml.safe_dump(tree, allow_unicode=True)


def mutated_text(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    k = draw.randrange(len(lines))
    what = draw.randrange(5)
    if what == 0:
        return text[: draw.randrange(len(text))]
    if what == 1:
        lines.insert(k, lines[draw.randrange(len(lines))])
    elif what == 2:
        del lines[k]
    elif what == 3:
        lines[k] = draw.choice([" ", "  ", "\t"]) + lines[k]
    else:
        at = draw.randrange(len(text))
        return text[:at] + draw.choice("{}[]:&*!|>'\"%@`\x07,#?-") + text[at + 1 :]
    return "".join(lines)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))])
def test_a_mutated_file_loads_or_is_one_line(load: Load, seed: int) -> None:
    draw = random.Random(seed)
    messages = []
    for k in range(24):
        name = (TASKS, SUITE)[k % 2]
        mutate = (mutated_tree, mutated_text)[k // 2 % 2]
        text = mutate((ROOT / name).read_text(), draw)
        try:
            load(name, text)
        except UserError as error:
            messages.append(str(error))
    assert 0 < len(messages) < 24
    assert not [message for message in messages if "\n" in message or not 10 < len(message) < 4000]
