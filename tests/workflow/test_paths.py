"""Folders and names that a shell would take apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from harness import Checkout, commands, copy_repository

pytestmark = pytest.mark.workflow

TARGET = "results/paper/cells/smac/3s5z/full/happo.json"


@pytest.fixture
def spaced(tmp_path: Path) -> Checkout:
    """A checkout and an interpreter in folders with spaces."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    copy_repository(folder / "my checkout")
    (folder / "my python").symlink_to(sys.prefix)
    return Checkout(folder / "my checkout", commands(folder, folder / "my checkout"))


def test_a_checkout_in_a_folder_with_spaces(spaced: Checkout) -> None:
    python = spaced.path.parent / "my python" / "bin" / "python"
    spaced.run(str(python), "-m", "snakemake", TARGET)
    assert len(json.loads((spaced.path / TARGET).read_text())["seeds_found"]) == 5
    command = next(spaced.path.glob("results/paper/logs/train/smac/**/*.log")).read_text().splitlines()[0]
    assert "fp3o train smac/3s5z/full/happo --suite paper --seeds 0-4 --digest " in command


@pytest.mark.parametrize("given", ["0;touch${IFS}seen", "$(touch seen)", "0 1"])
def test_no_value_reaches_a_shell(checkout: Checkout, given: str) -> None:
    done = checkout.snakemake(TARGET, "--config", f"gpus={given}", check=False)
    assert done.returncode == 1
    assert "does not match" in done.stdout
    assert not (checkout.path / "seen").exists()
    assert not (checkout.path / "results").exists()


def test_a_suites_name_is_no_path(checkout: Checkout) -> None:
    (checkout.path / "benchmarks/x.yaml").write_text((checkout.path / "benchmarks/suites/paper.yaml").read_text())
    for command in (("snakemake", "-n", "--config", "suite=../x"), ("fp3o", "status", "--suite", "../x")):
        done = checkout.run(*command, check=False)
        assert done.returncode != 0
        assert "'../x'" in done.stdout or "../x" in done.stdout
        assert "allowed: " in done.stdout
    assert not (checkout.path / "x").exists()
