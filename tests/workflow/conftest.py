"""A checkout of its own for every test of the workflow."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from harness import Checkout, commands, copy_repository
from stores import git, publish

from fp3o import config
from fp3o.workflow import saving


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout without results."""
    copy_repository(tmp_path / "checkout")
    return Checkout(tmp_path / "checkout", commands(tmp_path, tmp_path / "checkout"))


def once(tmp_path_factory: pytest.TempPathFactory, worker_id: str, name: str, make: Callable[[Path], None]) -> Path:
    """A checkout made once for all workers; copied, never used."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / name
    with FileLock(f"{folder}.lock"):
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder / "checkout"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A checkout in which everything has been made."""

    def make(folder: Path) -> None:
        copy_repository(folder / "checkout")
        Checkout(folder / "checkout", commands(folder, folder / "checkout")).snakemake()

    return once(tmp_path_factory, worker_id, "template", make)


@pytest.fixture(scope="session")
def saved_template(tmp_path_factory: pytest.TempPathFactory, worker_id: str, template: Path) -> Path:
    """The same, committed to git and saved in DVC's store."""

    def make(folder: Path) -> None:
        shutil.copytree(template, folder / "checkout", symlinks=True)
        checkout = Checkout(folder / "checkout", commands(folder, folder / "checkout"))
        checkout.run("git", "init", "--quiet")
        checkout.commit("Start")
        checkout.run("fp3o", "save", "-m", "Runs")
        checkout.commit("Rest")

    return once(tmp_path_factory, worker_id, "saved", make)


@pytest.fixture
def trained(template: Path, tmp_path: Path) -> Checkout:
    """A checkout in which everything has been made."""
    shutil.copytree(template, tmp_path / "trained", symlinks=True)
    return Checkout(tmp_path / "trained", commands(tmp_path, tmp_path / "trained"))


@pytest.fixture
def saved(saved_template: Path, tmp_path: Path) -> Checkout:
    """The same, committed to git and saved in DVC's store."""
    shutil.copytree(saved_template, tmp_path / "trained", symlinks=True)
    return Checkout(tmp_path / "trained", commands(tmp_path, tmp_path / "trained"))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """A repository whose thirty runs are saved and committed, and the environment its commands run in. Cloned, never
    used."""
    own = tmp_path_factory.mktemp("store")

    def make(folder: Path) -> None:
        checkout = folder / "checkout"
        copy_repository(checkout)
        with pytest.MonkeyPatch.context() as inside:
            inside.chdir(checkout)
            subprocess.run(["git", "init", "--quiet"], check=True)
            for plan, seeds in config.load_suite("paper").runs():
                for seed in seeds:
                    publish(plan.cell.id, seed)
            (checkout / "results/paper/tables").mkdir()
            (checkout / "results/paper/tables/table-smac.csv").write_text("cell,value\nsmac,1\n")
            assert saving.save("Runs").problems == []
            git("add", "--all")
            git("commit", "--quiet", "-m", "Rest")

    with pytest.MonkeyPatch.context() as patch:
        for name, value in commands(own, own).items():
            patch.setenv(name, value)
        made = once(tmp_path_factory, worker_id, "origin", make)
        patch.setenv("PYTHONPATH", str(made))
        yield made


@pytest.fixture
def clone(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: somebody's clone, nothing pulled."""
    git("clone", "--quiet", str(origin), str(tmp_path / "clone"))
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"
