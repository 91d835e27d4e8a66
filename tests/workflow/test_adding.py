"""docs/adding.md, followed to the letter in a copy of the repository: its blocks are what is added here."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import ROOT, Checkout, commands, copy_repository

from fp3o import config

PAGE = (ROOT / "docs" / "adding.md").read_text()
PLACE = r"new|at the end|(?:after|before|instead of): .+"
BLOCK = re.compile(rf"^```(?:python|yaml)\n# ([^\s,]+), ({PLACE})\n((?s:.*?))^```$", re.M)
OURS = ("fp3o", "paper_figures", "benchmarks", "workflow")


@dataclass(frozen=True)
class Section:
    """What one section of the page says it touches, and its blocks: file, place, text."""

    title: str
    touches: frozenset[str]
    blocks: tuple[tuple[str, str, str], ...]


def sections() -> list[Section]:
    found = []
    for part in PAGE.split("\n## ")[1:]:
        named = re.search(r"^Touches: (.+)\.$", part, re.M)
        if named:
            files = frozenset(re.findall("`([^`]+)`", named[1]))
            found.append(Section(part.partition("\n")[0], files, tuple(BLOCK.findall(part))))
    return found


def add(root: Path, name: str, place: str, text: str) -> None:
    """Put a block where its first line says."""
    path = root / name
    if place == "new":
        assert not path.exists(), f"{name} is not new"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return
    lines = path.read_text().splitlines(keepends=True)
    if place == "at the end":
        lines += ["\n\n", text] if path.suffix == ".py" else [text]
    else:
        how, _, wanted = place.partition(": ")
        # Exactly one such line; one at the margin is meant before those that are indented.
        [at] = [k for k, line in enumerate(lines) if line.rstrip() == wanted] or [
            k for k, line in enumerate(lines) if line.strip() == wanted
        ]
        lines[at + (how == "after") : at + (how != "before")] = [text]
    path.write_text("".join(lines))


def contents(root: Path) -> dict[str, str]:
    """Text of the files that are the program: code, data, rules."""
    return {
        str(path.relative_to(root)): path.read_text()
        for folder in OURS
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".smk")
    }


@pytest.fixture
def added(tmp_path: Path) -> Checkout:
    """A copy with everything of the page in it."""
    copy_repository(tmp_path / "copy")
    for name in ("pyproject.toml", "benchmarks/suites/paper.yaml"):
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    for section in sections():
        for block in section.blocks:
            add(tmp_path / "copy", *block)
    return Checkout(tmp_path / "copy", commands(tmp_path, tmp_path / "copy"))


def called(checkout: Checkout, *lines: str) -> str:
    """What the copy's own `fp3o` prints, with its real trainer; one process for all lines, to import torch once."""
    code = """
import sys, fp3o.cli
for line in sys.argv[1:]:
    try:
        fp3o.cli.main(line.split())
    except SystemExit as left:
        assert not left.code, line
"""
    return checkout.run(sys.executable, "-c", code, *lines).stdout


def test_every_section_names_the_files_its_blocks_touch() -> None:
    titles = [section.title.split(":")[0] for section in sections()]
    assert titles == ["An algorithm", "A setting", "A task", "An engine", "A suite", "A table or figure"]
    for section in sections():
        assert {name for name, _, _ in section.blocks} == section.touches, section.title
    # Nothing that looks like a file's block was overlooked.
    assert sum(len(section.blocks) for section in sections()) == len(re.findall("^```(?:python|yaml)$", PAGE, re.M))


def test_everything_added_is_listed_and_the_papers_cells_are_as_before(added: Checkout) -> None:
    kinds = ("algorithms", "tasks", "suites", "settings", "cells --suite paper", "cells --suite shy")
    shown = called(added, *(f"list {kind}" for kind in kinds)).splitlines()
    for name in ("shy", "line/pair", "line/trio", "matrix/stag-hunt", "shy\tShy against MAPPO"):
        assert name in shown
    assert any(line.startswith("shyness\tnumber, 0 … 100\t1.0\tShy: how fast trust falls") for line in shown)
    runs = config.load_suite("paper").runs()
    assert {f"{plan.cell.id}\t{plan.digest}\t{config.seeds_text(seeds)}" for plan, seeds in runs} <= set(shown)
    assert len([line for line in shown if line.startswith("line/pair/") and line.endswith("\t0-1")]) == 4


def test_the_page_is_formatted_as_the_code_is(added: Checkout) -> None:
    files = sorted({name for section in sections() for name in section.touches if name.endswith(".py")})
    added.run(str(Path(sys.executable).with_name("ruff")), "check", *files)
    added.run(str(Path(sys.executable).with_name("ruff")), "format", "--check", *files)


def test_a_new_engine_keeps_the_promises_of_the_interface(added: Checkout) -> None:
    (added.path / "tests").mkdir()
    shutil.copy(ROOT / "tests/envs/test_interface.py", added.path / "tests")
    [chosen] = re.findall("`pytest tests/envs/test_interface.py -k (.+?)`", PAGE)
    done = added.run(sys.executable, "-m", "pytest", "tests", "-k", f"{chosen} or stag-hunt", "-p", "no:cacheprovider")
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None, done.stdout
    assert int(counted[1]) >= 3 * 6  # tasks × promises


def test_it_trains_and_its_figure_shows_it(added: Checkout) -> None:
    before = contents(added.path)
    cell, small = "line/pair/none/shy", "--device cpu --path eager"
    other = "matrix/stag-hunt/partial/shy --seeds 0 --out own --set total_steps=512 --set shyness=2"
    shown = called(added, f"train {cell} --suite shy --seeds 0-1 {small}", f"train {other} {small}")
    assert f"{cell}: " in shown
    assert "differs from the default: shyness 1.0 → 2.0" in shown
    added.run(sys.executable, "-m", "paper_figures", "--suite", "shy", "--artefact", "scores-shy", "--out", "drawn")
    rows = (added.path / "drawn/scores-shy.csv").read_text().splitlines()
    assert rows[0] == "cell,score"
    assert [row.split(",")[0] for row in rows[1:]] == [cell, cell]  # two seeds
    assert contents(added.path) == before


@pytest.mark.workflow
def test_snakemake_plans_the_new_suite(added: Checkout) -> None:
    jobs = added.planned_jobs("--config", "suite=shy")
    assert (jobs["train"], jobs["table"], jobs["figure"], jobs["html"]) == (4, 1, 2, 1)
