"""The package as others get it: an sdist, the wheel built from it, installed where this repository cannot be seen."""

from __future__ import annotations

import csv
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    *("fp3o", "paper_figures", "benchmarks", "workflow", "profiles", "Snakefile", "environment.yml"),
    *("pyproject.toml", "setup.py", "README.md", "LICENSE"),
)
EXAMPLES = ROOT / "docs" / "examples"
CELL = "matrix/two-step/full/mappo"
SMALL = ("--seeds", "0", "--set", "total_steps=400", "--set", "rollout_length=20", "--set", "rollout_threads=10")
Command = Callable[..., subprocess.CompletedProcess[str]]


def shell(*command: str, cwd: Path) -> str:
    """Run a command without this repository on the path; its output."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path) -> Path:
    """An empty virtual environment that borrows the dependencies installed here; its interpreter."""
    shell(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder.parent)
    python = folder / "bin" / "python"
    [packages] = (folder / "lib").glob("python*/site-packages")
    # A folder named in a .pth file is searched, but its own .pth files (an editable fp3o) are not read.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python: Path, *what: str, cwd: Path) -> None:
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    shell(sys.executable, "-m", "pip", "--python", str(python), "install", *options, *what, cwd=cwd)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is made of, so that building leaves nothing in the repository."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist: whatever that lacks, the wheel lacks too."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    shell(sys.executable, "-c", build, str(folder), cwd=source)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4
        opened.extractall(folder, **safely)
    [unpacked] = (path for path in folder.iterdir() if path.is_dir())
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    shell(sys.executable, "-m", "pip", "wheel", *options, str(unpacked), cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a user works: an environment of theirs, and files called like modules this program needs."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copy(EXAMPLES / "meeting.py", folder)
    for name in ("torch", "numpy", "json"):
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    return folder


@pytest.fixture(scope="module")
def python(wheel: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which the wheel is installed."""
    found = environment(tmp_path_factory.mktemp("installed") / "venv")
    install(found, str(wheel), cwd=folder)
    return found


@pytest.fixture(scope="module")
def installed(python: Path, folder: Path) -> Command:
    """The `fp3o` command of the installed wheel, called in the user's folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = shell(str(python), "-P", "-c", "import fp3o; print(fp3o.__file__)", cwd=folder)
    assert Path(where.strip()).is_relative_to(python.parents[1])

    def call(*arguments: str, module: bool = False) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-m", "fp3o"] if module else [str(python.with_name("fp3o"))]
        return subprocess.run([*command, *arguments], cwd=folder, env=kept, capture_output=True, text=True, check=False)

    return call


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    named = ("benchmarks", "benchmarks/published", "benchmarks/suites", "profiles/default")
    data = [ROOT / name for name in (*named, *(f"workflow/{part}" for part in ("report", "rules", "schemas")))]
    here = {
        str(path.relative_to(ROOT))
        for name in ("fp3o", "paper_figures")
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {
        f"fp3o/data/{path.relative_to(ROOT)}"
        for where in data
        for path in where.iterdir()
        if path.suffix in (".csv", ".yaml", ".smk", ".rst")
    }
    here |= {"fp3o/data/Snakefile", "fp3o/data/environment.yml"}
    assert here <= names
    assert {name.partition("/")[0] for name in names} == {
        "fp3o",
        "paper_figures",
        wheel.name.split("-py3")[0] + ".dist-info",
    }


def test_an_installed_copy_lists_what_a_checkout_lists(installed: Command) -> None:
    main = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from fp3o.__main__ import main; main()"
    for module, what in ((False, "cells --suite paper"), (True, "suites")):
        here = shell(sys.executable, "-P", "-c", main, "list", *what.split(), cwd=ROOT)
        there = installed("list", *what.split(), module=module)
        assert (there.returncode, there.stdout) == (0, here)


def test_an_installed_copy_trains_evaluates_and_says_what_it_cannot(installed: Command, folder: Path) -> None:
    trained = installed("train", CELL, *SMALL)
    assert trained.returncode == 0, trained.stderr
    [runs] = re.findall(r"^runs: (.+)$", trained.stdout, re.MULTILINE)
    run = folder / runs / "seed-0"
    assert run.is_relative_to(folder)
    assert (run / "run.json").is_file()
    assert installed("evaluate", str(run), "--episodes", "4").stdout.startswith(f"{CELL} seed 0, 4 episodes")
    for command in (("save",), ("prune",), ("rerun", CELL)):
        refused = installed(*command)
        assert refused.returncode == 2
        assert (
            refused.stderr == f"fp3o: this command works on a checkout of the repository, and {folder} lies in none\n"
        )


def test_an_installed_copy_checks_an_environment_and_the_machine(installed: Command) -> None:
    checked = installed("check-env", "meeting:Meeting", module=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "It fits" in checked.stdout
    doctor = installed("doctor")
    assert doctor.stdout.endswith("everything required is here\n"), doctor.stdout


def test_an_editable_install_reads_the_checkout(source: Path, folder: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    install(python, "--editable", str(source), cwd=tmp_path)
    script = "from fp3o import config; import paper_figures; print(config.data_root(), len(config.suite_names()))"
    suites = len(list((source / "benchmarks" / "suites").glob("*.yaml")))
    assert shell(str(python), "-P", "-c", script, cwd=folder) == f"{source} {suites}\n"


# --- Research outside of the repository -----------------------------------------------------------------------------

SUITE = """
title: Shy against MAPPO
seeds: 0-1
imports: [shy.py, agree.py]
overrides:
  - cells: "*"
    set: {total_steps: 80, rollout_length: 10, rollout_threads: 4, evaluation_interval: 1, evaluation_episodes: 2,
          final_episodes: 2}
artefacts:
  table-shy: &shy
    kind: table
    caption: Shy in our game
    baseline: mappo
    cells: [pettingzoo/agree/full/mappo, pettingzoo/agree/full/shy, matrix/two-step/none/shy-shyness-2]
  figure-shy: {kind: figure, caption: Shy learns, cells: [pettingzoo/agree/full/mappo, pettingzoo/agree/full/shy]}
"""
CELLS = ("pettingzoo/agree/full/mappo", "pettingzoo/agree/full/shy", "matrix/two-step/none/shy-shyness-2")
# What the workflow's rules call, in one process: torch and Matplotlib are imported once.
PROGRAM = """
import sys
from fp3o import cli
from fp3o.report import __main__ as report
from fp3o.statistics.tables import __main__ as write_tables
from paper_figures import __main__ as figure

for line in sys.argv[1:]:
    command, *words = line.split()
    try:
        {"fp3o": cli.main, "table": write_tables.main, "figure": figure.main, "report": report.main}[command](words)
    except SystemExit as left:
        assert not left.code, line
"""


def own_folder(folder: Path) -> Path:
    """An empty folder with an algorithm, an environment and a suite of a user's."""
    folder.mkdir()
    for name in ("shy.py", "agree.py"):
        shutil.copy(EXAMPLES / name, folder)
    (folder / "own.yaml").write_text(SUITE)
    return folder


def test_an_own_algorithm_environment_and_suite_from_training_to_the_report(python: Path, tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "research")
    lines = ["fp3o list algorithms --import shy.py"]
    lines += [f"fp3o train {cell} --suite own.yaml --seeds 0-1 --device cpu --path eager" for cell in CELLS]
    lines += ["table --suite own.yaml --out results/own/tables"]
    lines += ["figure --suite own.yaml --artefact figure-shy --out results/own/figures"]
    lines += ["report --suite own.yaml --out results/own/report/index.html"]
    shown = shell(str(python), "-P", "-c", PROGRAM, *lines, cwd=folder)
    results = folder / "results" / "own"
    assert f"shy\tShy\tplug-in {folder / 'shy.py'}" in shown
    table = (results / "tables" / "table-shy.md").read_text()
    assert "| Sharing | Task | MAPPO | Shy | Shy (shyness 2) |" in table
    assert "3 of 6 cells run." in table
    assert "difference to MAPPO, mean over the seeds that both have" in table
    assert "pettingzoo/agree/full/shy," in (results / "figures" / "figure-shy.csv").read_text()
    page = (results / "report" / "index.html").read_text()
    assert "Shy (shyness 2)" in page
    assert "#882255" in page  # its colour
    with (results / "tables" / "table-shy.csv").open(newline="") as file:
        scores = {(row["ours"], row["spread"]) for row in csv.DictReader(file) if row["ours"]}
    equal = len(scores) == 1 and {float(spread) for _, spread in scores} == {0.0}
    assert ("all equal, every seed of every algorithm" if equal else "MAPPO over Shy") in page
    assert "Claims" not in page
    # The workflow travels along; for these runs it has nothing to train.
    where = shell(str(python), "-P", "-m", "fp3o", "snakefile", cwd=folder).strip()
    assert not Path(where).is_relative_to(ROOT)
    snakemake = (str(python), "-P", "-m", "snakemake", "--snakefile", where, "-n", "--quiet", "rules")
    planned = shell(*snakemake, "--config", "suite=own.yaml", cwd=folder)
    assert "html" in planned
    assert "train" not in planned


@pytest.mark.slow
def test_the_workflow_of_an_own_suite_from_a_wheel(python: Path, tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "research")
    where = shell(str(python), "-P", "-m", "fp3o", "snakefile", cwd=folder).strip()
    snakemake = (str(python), "-P", "-m", "snakemake", "--snakefile", where, "--config", "suite=own.yaml")
    shell(*snakemake, cwd=folder)
    results = folder / "results" / "own"
    assert len(list(results.glob("runs/*/*/*/*/*/seed-*/run.json"))) == 6
    assert "Shy" in (results / "report" / "index.html").read_text()
    assert (results / "figures" / "figure-shy.png").is_file()
    assert not (results / "failures.json").exists()
    again = shell(str(python), "-P", "-m", "fp3o", "rerun", CELLS[0], "--suite", "own.yaml", "--dry-run", cwd=folder)
    assert re.search(r"^retrain +1$", again, re.MULTILINE)
    status = shell(str(python), "-P", "-m", "fp3o", "status", "--suite", "own.yaml", cwd=folder)
    assert status.splitlines() == ["6 done", f"6 trained on {os.cpu_count()} cores {platform.machine()}"]
    # An edited plug-in is another run; cells that do not use it keep theirs.
    with (folder / "shy.py").open("a") as file:
        file.write("# edited\n")
    planned = shell(*snakemake, "-n", cwd=folder)
    assert re.search(r"^train +2$", planned, re.MULTILINE)
