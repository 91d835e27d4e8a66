"""The locks are what pyproject.toml needs, on every machine that is promised, and no more. Offline."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    """The script that `make lock` runs."""
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lock"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_locks_are_the_closure_of_pyproject(lock: ModuleType) -> None:
    """Nothing is missing and nothing is left over: run `make lock` after an edit of pyproject.toml."""
    to_run, to_test, _ = lock.roots()

    @functools.cache
    def requires(name: str) -> list[str]:
        return metadata.requires(name) or []

    runtime = lock.closure(to_run, requires)
    assert set(lock.read("requirements.lock")) == set(runtime)
    assert set(lock.read("requirements-dev.lock")) == set(lock.closure([*to_run, *to_test], requires)) - set(runtime)


def test_pins_satisfy_every_requirement_of_the_project(lock: ModuleType) -> None:
    runtime, development = lock.read("requirements.lock"), lock.read("requirements-dev.lock")
    to_run, to_test, for_the_site = lock.roots()
    for wanted in to_run:
        assert wanted.specifier.contains(lock.version_of(runtime[wanted.name.lower()])), wanted
    for group, pins in ((to_test, development), (for_the_site, lock.read("requirements-docs.lock"))):
        for wanted in group:
            assert wanted.specifier.contains(lock.version_of({**runtime, **pins}[wanted.name.lower()])), wanted


def test_the_smoke_suite_waits_for_games_that_only_the_development_lock_has(lock: ModuleType) -> None:
    assert "mpe2" not in lock.read("requirements.lock")
    planned = subprocess.run(["make", "-nB", "smoke"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < planned.index("-r .ci/hashes/requirements-dev.lock") < planned.index("profiles/smoke")


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "requirements-docs.lock"])
def test_every_pin_but_torch_has_checksums(lock: ModuleType, name: str) -> None:
    """Run `make lock` after an edit of a lock."""
    hashed = lock.read(lock.HASHES / name)
    assert hashed == {pin: version for pin, version in lock.read(name).items() if pin not in lock.UNHASHED}
    for pin, sums in lock.read_hashes(name).items():
        assert sums, pin
        assert all(len(checksum) == 64 and int(checksum, 16) for checksum in sums), pin


def test_setup_checks_every_file_but_torchs() -> None:
    planned = subprocess.run(
        ["make", "-nB", "setup-dev", ".venv/installed-docs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    installs = [line for line in planned.splitlines() if " -r " in line]
    assert len(installs) == 4
    assert [line for line in installs if "--require-hashes" not in line] == [
        ".venv/bin/python -m pip install --quiet --no-compile -r requirements.lock"
    ]


def test_which_files_are_hashed(lock: ModuleType) -> None:
    """Those of promised machines, on newer systems too, and sources."""
    hashed = ["py3-none-any", "cp312-cp312-manylinux_2_28_aarch64", "cp311-abi3-manylinux_2_34_x86_64"]
    others = ["cp312-cp312-win_amd64", "cp39-cp39-macosx_11_0_arm64", "cp312-cp312-musllinux_1_2_x86_64"]
    files = [lock.File(f"game-1.0-{name}.whl", None, False, name) for name in [*hashed, *others]]
    files += [lock.File("game-1.0.tar.gz", None, False, "source"), lock.File("game-0.9.tar.gz", None, False, "old")]
    assert lock.hashes(Requirement("game==1.0"), files) == sorted([*hashed, "source"])


def test_what_tests_and_lints_is_not_installed_to_run(lock: ModuleType) -> None:
    assert not {"pytest", "ruff", "mypy", "snakefmt", "pygame-ce"} & set(lock.read("requirements.lock"))


def test_a_game_without_files_for_every_machine_is_in_no_lock(lock: ModuleType) -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        assert not {"box2d", "box2d-py"} & set(lock.read(name))


def test_no_two_pinned_packages_bring_the_same_file(lock: ModuleType) -> None:
    """As pygame and pygame-ce do: whichever is installed last wins."""
    owner: dict[str, str] = {}
    for name in {**lock.read("requirements.lock"), **lock.read("requirements-dev.lock")}:
        for file in metadata.files(name) or ():
            if file.suffix in (".py", ".so") and ".." not in file.parts:
                assert owner.setdefault(str(file), name) == name, f"{file} is in {owner[str(file)]} and in {name}"
    assert len(owner) > 10_000


def test_every_python_promised_is_classified(lock: ModuleType) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for python in lock.PYTHONS:
        assert f'"Programming Language :: Python :: {python}"' in text
    assert f'requires-python = ">={lock.PYTHONS[0]}"' in text


@pytest.mark.parametrize(
    ("files", "lacking"),
    [
        (["game-1.0-py3-none-any.whl"], []),
        (["game-1.0.tar.gz"], []),
        (["game-1.0-cp311-abi3-manylinux_2_28_x86_64.whl", "game-1.0.zip"], []),
        (["game-0.9-py3-none-any.whl", "game-1.0.win32.exe"], ["Linux x86_64", "Linux aarch64", "macOS arm64"]),
        (
            # What Box2D 2.3.10 has: nothing for ARM Linux.
            [
                f"game-1.0-cp3{v}-cp3{v}-{p}.whl"
                for v in (11, 12, 13)
                for p in ("manylinux2014_x86_64", "macosx_11_0_arm64")
            ],
            ["Linux aarch64"],
        ),
        (["game-1.0-cp311-abi3-macosx_10_9_universal2.whl"], ["Linux x86_64", "Linux aarch64"]),
        (["game-1.0-cp311-abi3-manylinux_2_39_x86_64.whl"], ["Linux x86_64", "Linux aarch64", "macOS arm64"]),
    ],
)
def test_which_machines_a_version_has_files_for(lock: ModuleType, files: list[str], lacking: list[str]) -> None:
    found = lock.platforms(Requirement("game==1.0"), [lock.File(name, None, False) for name in files])
    assert len(found) == 9
    expected = {f"{machine}, Python {python}" for machine in lacking for python in lock.PYTHONS}
    assert {platform for platform, kind in found.items() if not kind} == expected


def test_files_for_some_pythons_only(lock: ModuleType) -> None:
    wheel = "game-1.0-py3-none-any.whl"
    for file in (lock.File(wheel, ">=3.12", False), lock.File("game-1.0.tar.gz", ">=3.12", False)):
        found = lock.platforms(Requirement("game==1.0"), [file])
        assert {platform for platform, kind in found.items() if not kind} == {p for p in found if p.endswith("3.11")}
        limited = lock.platforms(Requirement("game==1.0; python_version >= '3.12'"), [file])
        assert len(limited) == 6
        assert all(limited.values())
    assert not any(lock.platforms(Requirement("game==1.0"), [lock.File(wheel, None, True)]).values())


def test_what_only_another_machine_needs_is_part_of_the_closure(lock: ModuleType) -> None:
    needs = {
        "game": ["old; python_version < '3.12'", "apple; sys_platform == 'darwin'", "windows; os_name == 'nt'"],
        "apple": ["seed[sweet]>=2"],
        "seed": ["sugar; extra == 'sweet'", "salt; extra == 'salty'"],
        "torch": ["nvidia-everything==1; platform_system == 'Linux'", "sympy"],
    }
    found = lock.closure([Requirement("Game"), Requirement("torch")], lambda name: needs.get(name))
    assert set(found) == {"game", "old", "apple", "seed", "sugar", "torch", "sympy"}
