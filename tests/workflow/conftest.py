"""A checkout of its own for every test of the workflow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from harness import Checkout, commands, copy_repository


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout without results."""
    copy_repository(tmp_path / "checkout")
    return Checkout(tmp_path / "checkout", commands(tmp_path, tmp_path / "checkout"))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A checkout in which everything has been made, once for all workers; copied, never used."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "template"
    with FileLock(f"{folder}.lock"):
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            folder.mkdir()
            copy_repository(folder / "checkout")
            Checkout(folder / "checkout", commands(folder, folder / "checkout")).snakemake()
            (folder / "made").touch()
    return folder / "checkout"


@pytest.fixture
def trained(template: Path, tmp_path: Path) -> Checkout:
    """A checkout in which everything has been made."""
    shutil.copytree(template, tmp_path / "trained", symlinks=True)
    return Checkout(tmp_path / "trained", commands(tmp_path, tmp_path / "trained"))


@pytest.fixture
def saved(trained: Checkout) -> Checkout:
    """The same, committed to git and saved in DVC's store."""
    trained.run("git", "init", "--quiet")
    trained.commit("Start")
    trained.run("fp3o", "save", "-m", "Runs")
    trained.commit("Rest")
    return trained
