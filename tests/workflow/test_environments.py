"""environment.yml, environment-smac.yml, pyproject.toml and the locks ask for the same packages."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DEPENDENCIES = sorted(
    path.name for pattern in ("environment*.yml", "requirements*", "pyproject.toml") for path in ROOT.glob(pattern)
)


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return content


def pip_lines(name: str) -> list[str]:
    return next(entry["pip"] for entry in read(name)["dependencies"] if isinstance(entry, dict))


def wanted_by(name: str) -> list[Requirement]:
    """What a dependency file asks for by name: packages of pip and of conda, extras and the build system."""
    if name == "pyproject.toml":
        content = tomllib.loads((ROOT / name).read_text())
        extras = content["project"]["optional-dependencies"].values()
        lines = sum(extras, content["project"]["dependencies"] + content["build-system"]["requires"])
    elif name.endswith(".yml"):
        conda = [d.replace("=", "==", 1) for d in read(name)["dependencies"] if isinstance(d, str)]
        lines = conda + [line for line in pip_lines(name) if not line.startswith("-")]
    else:
        lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith(("#", "-"))]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", ["environment.yml", "environment-smac.yml"])
def test_conda_takes_its_packages_from_the_lock(name: str) -> None:
    assert pip_lines(name)[:2] == ["-r requirements.lock", "-e ."]
    python = next(str(d) for d in read(name)["dependencies"] if str(d).startswith("python="))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(python.removeprefix("python="))


def test_the_smac_environment_is_the_plain_one_and_more() -> None:
    plain, more = pip_lines("environment.yml"), pip_lines("environment-smac.yml")
    assert more[: len(plain)] == plain
    assert [str(d) for d in read("environment.yml")["dependencies"] if isinstance(d, str)] == ["python=3.11", "pip"]


def test_smac_comes_from_its_repository() -> None:
    """The name smac in the package index belongs to an optimiser of hyper-parameters."""
    (wanted,) = (requirement for requirement in wanted_by("environment-smac.yml") if requirement.name == "smac")
    assert wanted.url is not None
    assert wanted.url.removesuffix(".git") == "git+https://github.com/oxwhirl/smac"


@pytest.mark.parametrize("name", DEPENDENCIES)
def test_no_file_asks_the_package_index_for_smac(name: str) -> None:
    wanted = wanted_by(name)
    assert wanted
    assert not [str(r) for r in wanted if canonicalize_name(r.name) == "smac" and r.url is None]
