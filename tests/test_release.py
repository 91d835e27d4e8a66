"""One version, and what tells others about the project agrees with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import fp3o

ROOT = Path(__file__).resolve().parents[1]


def test_the_version_stands_in_one_place() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in content["project"]
    assert content["project"]["dynamic"] == ["version"]
    assert content["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "fp3o.__version__"}


def test_citation_and_changelog_know_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == fp3o.__version__
    versions = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(version for version in versions if version != "Unreleased") == fp3o.__version__
    assert "Unreleased" not in versions[1:]


def test_the_paper_is_cited() -> None:
    (paper,) = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    assert paper["title"].startswith("FP3O: Enabling Proximal Policy Optimization")
    assert [author["family-names"] for author in paper["authors"]] == ["Feng", "Xing", "Zhang", "Pan"]


def test_hosted_ci_runs_the_pythons_and_the_command_that_are_promised() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    matrix = jobs["linux"]["strategy"]["matrix"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert [f"Programming Language :: Python :: {python}" for python in matrix["python"]] == [
        line for line in classifiers if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    assert any(runner.endswith("-arm") for runner in matrix["runner"])
    assert not all(runner.endswith("-arm") for runner in matrix["runner"])
    assert any(step.get("run") == ".ci/run" for step in jobs["linux"]["steps"])


def test_every_action_is_pinned_by_commit() -> None:
    """A tag can be moved to other code."""
    used = [
        line.split("uses:")[1].split()[0]
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert len(used) > 10
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []


def test_a_tag_publishes_packages_and_a_container() -> None:
    content = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert content[True]["push"] == {"tags": ["v*"]}  # YAML reads the key `on` as true
    commands = [step.get("run", "") for job in content["jobs"].values() for step in job["steps"]]
    assert "python -m build" in commands
    assert any("docker build" in command and "docker push" in command for command in commands)


@pytest.mark.parametrize("hook", ["ruff", "ruff-format", "mypy", "snakefmt"])
def test_hooks_use_the_tools_of_the_environment(hook: str) -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    (found,) = (entry for entry in repository["hooks"] if entry["id"] == hook)
    assert found["language"] == "system"


def test_nothing_asks_a_package_index_for_this_package() -> None:
    """It is on none: advice names a checkout or the packages themselves."""
    places = ("README.md", "CONTRIBUTING.md", *("docs", "fp3o", "workflow", "profiles", "tests", ".github"))
    files = [p for place in places for p in ([ROOT / place] if place.endswith(".md") else (ROOT / place).rglob("*"))]
    texts = {p: p.read_text() for p in files if p.suffix in (".md", ".py", ".smk", ".yaml", ".yml")}
    assert len(texts) > 100
    wrong = [str(path) for path, text in texts.items() if re.search(r"pip install ['\"]?fp3o\b", text)]
    assert not wrong
