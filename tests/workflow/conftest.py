"""A checkout of its own for every test of the workflow."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from harness import Checkout, commands, copy_repository


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
