"""`fp3o doctor`: which of the programs and packages that fp3o can use are installed, and how to get the others."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from ctypes.util import find_library
from typing import NamedTuple

from fp3o.config.options import game_folder, smac_class

# The oldest Python that pyproject.toml allows.
_PYTHON = (3, 11)


class Check(NamedTuple):
    """The result of looking for one thing."""

    name: str
    required: bool
    found: bool
    detail: str
    """What was found, or what is wrong."""
    advice: str = ""
    """How to get it, and what works without it."""


def examine() -> list[Check]:
    """Look for everything; a broken installation is reported, not raised."""
    return [_guarded(name, required, look, advice) for name, required, look, advice in _CHECKS]


def report(checks: Sequence[Check]) -> str:
    """A line per thing, advice for what is missing, and a conclusion."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = "ok      " if check.found else "MISSING " if check.required else "absent  "
        lines.append(f"{mark}{check.name:<{width}}  {check.detail}")
        if not check.found and check.advice:
            lines.append(f"{'':<8}{'':<{width}}  → {check.advice}")
    missing = [check.name for check in checks if check.required and not check.found]
    lines.append(f"required and missing: {', '.join(missing)}" if missing else "everything required is here")
    return "\n".join(lines)


class Absent(Exception):
    """Something that was looked for is missing; the message says what there is instead."""


def _guarded(name: str, required: bool, look: Callable[[], str], advice: str) -> Check:
    try:
        return Check(name, required, True, look(), advice)
    except Absent as absent:
        return Check(name, required, False, str(absent), advice)
    except Exception as error:  # A broken package can raise anything when imported; that is the finding.
        first = (str(error).splitlines() or [""])[0]
        return Check(name, required, False, f"{type(error).__name__}: {first}", advice)


def _package(name: str, imported: bool = False) -> Callable[[], str]:
    """Looks for a package and, if asked to, imports it; its version."""

    def look() -> str:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise Absent(f"package {name} is not installed") from None
        if imported:
            importlib.import_module(name)
        return version

    return look


def _python() -> str:
    if sys.version_info < _PYTHON:
        raise Absent(platform.python_version())
    return f"{platform.python_version()} on {platform.system()} {platform.machine()} ({sys.executable})"


def _torch() -> str:
    import torch

    count = torch.get_num_threads()
    return f"{torch.__version__}, {count} thread{'s' if count > 1 else ''}, {os.cpu_count()} processors"


def _program(*names: str, version: bool = False) -> Callable[[], str]:
    """Looks for the first of these programs on the PATH; where it is and, if asked for, what it says of its version."""

    def look() -> str:
        found = next((path for name in names if name and (path := shutil.which(name))), None)
        if found is None:
            raise Absent(f"no {' or '.join(filter(None, names))} on the PATH")
        if not version:
            return found
        result = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30, check=False)
        lines = (result.stdout or result.stderr).splitlines()
        return f"{found} ({lines[0].strip() if lines else 'no answer'})"

    return look


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        build = "built without CUDA" if torch.version.cuda is None else "sees no device"
        raise Absent(f"torch {torch.__version__} {build}")
    cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return "; ".join(f"{card.name}, {card.total_memory / 2**30:.0f} GiB" for card in cards)


def _starcraft() -> str:
    folder = game_folder()
    builds = sorted(path.name for path in (folder / "Versions").glob("Base*"))
    if not builds:
        raise Absent(f"no game in {folder} (SC2PATH)")
    return f"{folder}, builds {', '.join(builds)}"


def _maps() -> str:
    folder = game_folder() / "Maps" / "SMAC_Maps"
    maps = list(folder.glob("*.SC2Map"))
    if not maps:
        raise Absent(f"no maps in {folder}")
    return f"{len(maps)} maps in {folder}"


def _smac() -> str:
    try:
        smac_class()
    except AttributeError:
        raise Absent("the installed package smac is not the StarCraft one (no smac.env.StarCraft2Env)") from None
    return "smac.env.StarCraft2Env"


def _rendering() -> str:
    found = [name for name, library in (("egl", "EGL"), ("osmesa", "OSMesa")) if find_library(library)]
    if not found:
        raise Absent("neither libEGL nor libOSMesa")
    return ", ".join(found)


_CHECKS: tuple[tuple[str, bool, Callable[[], str], str], ...] = (
    ("Python", True, _python, "install Python 3.11 or newer and run `make setup`"),
    ("PyTorch", True, _torch, "pip install torch, or `make setup`"),
    ("MuJoCo", True, _package("mujoco", imported=True), "pip install 'mujoco>=3.17', or `make setup`"),
    ("numba", True, _package("numba", imported=True), "pip install numba, or `make setup`"),
    # torch's compiler asks for the C++ compiler named by CXX, or g++.
    (
        "C++ compiler",
        False,
        _program(os.environ.get("CXX", ""), "g++", "clang++", version=True),
        "apt install g++; without it updates run uncompiled and slower",
    ),
    ("GPU", False, _gpu, "a torch built for CUDA and a driver; without it everything runs on the CPU"),
    (
        "StarCraft II",
        False,
        _starcraft,
        "Blizzard's Linux package 4.10 unpacked where SC2PATH points; without it SMAC uses the embedded engine",
    ),
    ("SMAC maps", False, _maps, "SMAC_Maps.zip from the releases of oxwhirl/smac, unpacked into $SC2PATH/Maps"),
    ("smac package", False, _smac, "pip install git+https://github.com/oxwhirl/smac (not the package smac of PyPI)"),
    (
        "Snakemake",
        False,
        _package("snakemake"),
        "pip install 'snakemake>=9.27'; else cells are trained one by one",
    ),
    ("DVC", False, _package("dvc"), "pip install 'dvc>=3.60'; without it no remote of one's own and no `dvc repro`"),
    ("git", False, _program("git", version=True), "apt install git; without it run.json cannot name the commit"),
    ("TensorBoard", False, _package("tensorboard"), "pip install tensorboard; CSV files are written in any case"),
    ("Weights & Biases", False, _package("wandb"), "pip install wandb; CSV files are written in any case"),
    ("rendering", False, _rendering, "apt install libegl1 libgl1-mesa-dri, or libosmesa6, to draw MuJoCo episodes"),
    (
        "browser",
        False,
        _program("chromium", "chromium-browser", "google-chrome"),
        "apt install chromium; only tests of the HTML report need it",
    ),
)
