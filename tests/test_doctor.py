"""fp3o doctor: finds, misses, and never fails itself."""

from __future__ import annotations

import importlib
import platform
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fp3o import cli, doctor


def by_name(name: str) -> doctor.Check:
    return next(check for check in doctor.examine() if check.name == name)


def test_here_everything_required_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    checks = doctor.examine()
    assert {check.name for check in checks if check.required} == {"Python", "PyTorch", "MuJoCo", "numba"}
    assert all(check.found for check in checks if check.required)
    assert all(check.advice for check in checks)
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert shown.endswith("everything required is here\n")
    for check in checks:
        assert check.name in shown
        assert (check.advice in shown) != check.found


def test_the_architecture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert f"on {platform.system()} riscv64" in by_name("Python").detail


def test_missing_requirement_fails_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # as if not installed
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor"])
    assert left.value.code == 1
    shown = capsys.readouterr().out
    assert "MISSING numba" in shown
    assert "→ pip install numba" in shown
    assert "required and missing: numba" in shown


def test_a_broken_package_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise RuntimeError("Descriptors cannot be created directly.\nIf this call came from a _pb2.py file …")

    monkeypatch.setattr(importlib, "import_module", broken)
    check = by_name("smac package")
    assert not check.found
    assert check.detail == "RuntimeError: Descriptors cannot be created directly."


def test_the_other_package_called_smac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smac", ModuleType("smac"))
    monkeypatch.setitem(sys.modules, "smac.env", ModuleType("smac.env"))
    check = by_name("smac package")
    assert not check.found
    assert "not the StarCraft one" in check.detail
    sys.modules["smac.env"].StarCraft2Env = object  # type: ignore[attr-defined]
    assert by_name("smac package").found


def test_starcraft_folder_and_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    assert by_name("StarCraft II").detail == f"no game in {tmp_path} (SC2PATH)"
    assert not by_name("SMAC maps").found
    (tmp_path / "Versions" / "Base75689").mkdir(parents=True)
    maps = tmp_path / "Maps" / "SMAC_Maps"
    maps.mkdir(parents=True)
    (maps / "3m.SC2Map").write_bytes(b"")
    assert by_name("StarCraft II").detail == f"{tmp_path}, builds Base75689"
    assert by_name("SMAC maps").detail == f"1 maps in {maps}"


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not by_name("C++ compiler").found
    assert not by_name("browser").found
    assert not by_name("C++ compiler").required
