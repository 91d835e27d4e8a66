"""Write the locks from pyproject.toml, and ask the package index whether every machine can install them.

    python .ci/lock.py write [--upgrade NAME …]    # pins that still fit stay; --upgrade without a name frees all
    python .ci/lock.py hash                        # the files' checksums anew, of the versions as they are
    python .ci/lock.py check

`requirements.lock` is what runs (training, workflow, figures, report), `requirements-dev.lock` what tests and lints on
top, `requirements-docs.lock` what builds the documentation's site. Versions come from pip's resolver on the machine at
hand; what only another machine needs is pinned as well.

`.ci/hashes/` has the same locks with the sha256 of every file that a promised machine may install, for `pip install
--require-hashes`. Torch is not in them: which of its builds (CPU, CUDA) is installed depends on the index, and each
brings libraries of its own. The plain locks install it, and serve conda, which cannot check hashes.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
RUNTIME, DEVELOPMENT, DOCUMENTATION = "requirements.lock", "requirements-dev.lock", "requirements-docs.lock"
HASHES = Path(".ci", "hashes")
UNHASHED = ("torch",)
PYTHONS = ("3.11", "3.12", "3.13")
HEADERS = {
    RUNTIME: "What runs: training, workflow, figures, report.",
    DEVELOPMENT: f"What tests and lints, on top of {RUNTIME}.",
    DOCUMENTATION: f"What builds the documentation's site, on top of {RUNTIME}.",
}

Pins = dict[str, Requirement]
"""Canonical name to a requirement `name==version`, perhaps with a marker."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A platform that must be able to install the locks."""

    name: str
    markers: dict[str, str]
    tags: tuple[str, ...]
    """Platform tags of wheels that run there."""


def _linux(architecture: str) -> Machine:
    markers = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": architecture}
    tags = [f"manylinux_2_{minor}_{architecture}" for minor in range(28, 4, -1)]  # 2.28: torch's own floor
    return Machine(f"Linux {architecture}", markers, (*tags, f"manylinux2014_{architecture}", f"linux_{architecture}"))


MACHINES = (
    _linux("x86_64"),
    _linux("aarch64"),
    Machine(
        "macOS arm64",
        {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
        (
            *(f"macosx_{major}_0_{kind}" for major in range(14, 10, -1) for kind in ("arm64", "universal2")),
            *(f"macosx_10_{minor}_universal2" for minor in range(16, 8, -1)),
        ),
    ),
)


def environments() -> list[dict[str, str]]:
    """Values of the environment markers on every platform that is promised."""
    shared = {"implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix"}
    return [
        {**shared, **machine.markers, "python_version": python, "python_full_version": f"{python}.0"}
        for machine in MACHINES
        for python in PYTHONS
    ]


def roots() -> tuple[list[Requirement], list[Requirement], list[Requirement]]:
    """What pyproject.toml asks for: to run (the editable installation included), to test and lint, for the site."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = content["project"]
    extras = project["optional-dependencies"]
    runtime = [*project["dependencies"], *extras["workflow"], *content["build-system"]["requires"]]
    parts = (runtime, extras["dev"], extras["docs"])
    runs, tests, site = ([Requirement(line) for line in part] for part in parts)
    return runs, tests, site


def read(name: str) -> Pins:
    """A lock; none is an empty one."""
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, _entries(name))}


def read_hashes(name: str) -> dict[str, frozenset[str]]:
    """By canonical name, the sha256 that a lock of `HASHES` allows."""
    entries = _entries(HASHES / name).items()
    return {canonicalize_name(Requirement(pin).name): frozenset(sums) for pin, sums in entries}


def _entries(name: str | Path) -> dict[str, list[str]]:
    """A lock's pins as text, each with its checksums."""
    path = ROOT / name
    text = path.read_text().replace("\\\n", "") if path.exists() else ""
    lines = [line.split(" --hash=sha256:") for line in text.splitlines() if line and not line.startswith("#")]
    return {pin.strip(): [checksum.strip() for checksum in sums] for pin, *sums in lines}


def version_of(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "==", f"{pin} is no exact version"
    return specifier.version


parsed = functools.cache(Requirement)
"""Of a line; a package's are the same on every platform."""


def closure(wanted: Iterable[Requirement], requires: Callable[[str], Iterable[str] | None]) -> dict[str, Requirement]:
    """Everything the wanted packages need on any promised platform, by canonical name.

    `requires` gives a package's `Requires-Dist` lines, or None where the package is not known: it is then named in the
    result without what it needs in turn.
    """
    found: dict[str, Requirement] = {}
    seen: set[tuple[str, str]] = set()
    queue = [(requirement, environment) for requirement in wanted for environment in environments()]
    while queue:
        requirement, environment = queue.pop()
        name = canonicalize_name(requirement.name)
        found.setdefault(name, requirement)
        for extra in ("", *sorted(requirement.extras)):
            state = (f"{name}[{extra}]", environment["platform_machine"] + environment["python_version"])
            if state in seen:
                continue
            seen.add(state)
            for line in requires(name) or ():
                needed = parsed(line)
                # Torch's builds for accelerators bring libraries of their own, in exact versions; its CPU build none.
                if name == "torch" and "platform_" in str(needed.marker):
                    continue
                if needed.marker is None or needed.marker.evaluate({**environment, "extra": extra}):
                    queue.append((needed, environment))
    return found


def resolve(wanted: Sequence[str], constraints: Iterable[Requirement]) -> dict[str, dict[str, Any]]:
    """Metadata of the versions pip would install here, by canonical name."""
    with tempfile.TemporaryDirectory() as folder:
        limits, report = Path(folder, "constraints.txt"), Path(folder, "report.json")
        limits.write_text("".join(f"{pin}\n" for pin in constraints))
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        subprocess.run([*command, "--report", str(report), "--constraint", str(limits), *wanted], check=True)
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {canonicalize_name(metadata["name"]): metadata for metadata in found}


def write(upgrade: Sequence[str] | None) -> None:
    """All locks; `upgrade`: names set free (an empty list frees all), None keeps every pin that fits."""
    runtime, development, documentation = roots()
    everything = [*runtime, *development, *documentation]
    old = {**read(DOCUMENTATION), **read(DEVELOPMENT), **read(RUNTIME)}
    freed = set(old) if upgrade == [] else {canonicalize_name(name) for name in upgrade or ()}
    unknown = freed - set(old)
    if unknown:
        sys.exit(f"not in a lock: {', '.join(sorted(unknown))}")
    asked = [str(requirement) for requirement in everything]
    while True:
        found = resolve(asked, [pin for name, pin in old.items() if name not in freed])
        lines = {name: metadata.get("requires_dist") for name, metadata in found.items()}
        needed = closure(everything, lines.get)
        elsewhere = [f"{needed[name].name}{needed[name].specifier}" for name in sorted(set(needed) - set(found))]
        if not elsewhere:
            break
        asked += elsewhere
    to_run = set(closure(runtime, lines.get))
    locks = {RUNTIME: to_run}
    for lock, part in ((DEVELOPMENT, development), (DOCUMENTATION, documentation)):
        locks[lock] = set(closure([*runtime, *part], lines.get)) - to_run
    for lock, names in locks.items():
        # A local part (`+cpu`) names one machine's build.
        text = [f"{found[name]['name']}=={Version(found[name]['version']).public}\n" for name in sorted(names)]
        header = f"# {HEADERS[lock]} Written by `make lock`; Python {PYTHONS[0]} to {PYTHONS[-1]}.\n"
        (ROOT / lock).write_text(header + "".join(text))
        print(f"{lock}: {len(names)} packages")
    write_hashes()


def write_hashes() -> None:
    """The locks of `HASHES`: the pins with the checksums of their files in the index."""
    for lock in HEADERS:
        pins = {name: pin for name, pin in read(lock).items() if name not in UNHASHED}
        files = files_in_index(list(pins))
        lines = [f"# {lock} with checksums, without {', '.join(UNHASHED)}. Written by `make lock`.\n"]
        for name, pin in pins.items():
            sums = hashes(pin, files[name])
            if not sums:
                sys.exit(f"{pin}: the index has no file with a checksum")
            lines.append(" \\\n    ".join([str(pin), *(f"--hash=sha256:{checksum}" for checksum in sums)]) + "\n")
        (ROOT / HASHES).mkdir(exist_ok=True)
        (ROOT / HASHES / lock).write_text("".join(lines))
        print(f"{HASHES / lock}: {len(pins)} packages")


class File(NamedTuple):
    """A file of a package in the index."""

    name: str
    requires_python: str | None
    yanked: bool
    sha256: str = ""


def of_version(files: Iterable[File], version: str) -> list[tuple[File, frozenset[Tag]]]:
    """The files that give this version, each with the tags of a wheel or none for source; yanked ones do not count."""
    found: list[tuple[File, frozenset[Tag]]] = []
    for file in files:
        try:
            if file.name.endswith(".whl"):
                _, of, _, tags = parse_wheel_filename(file.name)
            else:
                (_, of), tags = parse_sdist_filename(file.name), frozenset()
        except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
            continue  # Old files of other shapes: eggs, installers.
        if of == Version(version) and not file.yanked:
            found.append((file, tags))
    return found


@functools.cache
def supported(machine: Machine, python: str) -> frozenset[Tag]:
    """Tags of the wheels that a machine takes, abi3 and pure Python included."""
    major, minor = (int(part) for part in python.split("."))
    pure = compatible_tags((major, minor), f"cp{major}{minor}", machine.tags)
    return frozenset([*cpython_tags((major, minor), platforms=machine.tags), *pure])


def platforms(pin: Requirement, files: Iterable[File]) -> dict[str, str]:
    """`wheel`, `source` or `` (nothing) for every platform on which the pin is installed."""
    fitting = of_version(files, version_of(pin))
    found = {}
    for machine, python in itertools.product(MACHINES, PYTHONS):
        values = {**machine.markers, "python_version": python, "python_full_version": f"{python}.0"}
        if pin.marker is not None and not pin.marker.evaluate(values):
            continue
        here = [tags for file, tags in fitting if SpecifierSet(file.requires_python or "").contains(f"{python}.0")]
        wheel = any(tags & supported(machine, python) for tags in here)
        found[f"{machine.name}, Python {python}"] = "wheel" if wheel else "source" if frozenset() in here else ""
    return found


def hashes(pin: Requirement, files: Iterable[File]) -> list[str]:
    """The sha256 of every file of the pinned version that a promised machine may install: its wheels, those for newer
    systems included, and sources."""
    machines = [supported(machine, python) for machine, python in itertools.product(MACHINES, PYTHONS)]

    def fits(tags: frozenset[Tag]) -> bool:
        oldest = {Tag(tag.interpreter, tag.abi, _NEWER.sub(_oldest, tag.platform)) for tag in tags}
        return any(oldest & here for here in machines)

    fitting = of_version(files, version_of(pin))
    return sorted({file.sha256 for file, tags in fitting if file.sha256 and (not tags or fits(tags))})


_NEWER = re.compile(r"(manylinux|macosx)_\d+_\d+_(x86_64|aarch64|arm64)")


def _oldest(platform: re.Match[str]) -> str:
    """The newest system that is promised, of the same kind."""
    return f"{platform[1]}_{'2_28' if platform[1] == 'manylinux' else '14_0'}_{platform[2]}"


def files_in_index(names: Sequence[str]) -> dict[str, list[File]]:
    """Every file the index that pip is configured with has of these packages; downloads none."""
    # Pip has no public command that lists files, and only pip knows its own index, certificates and passwords.
    from pip._internal.commands.index import IndexCommand
    from pip._internal.index.collector import LinkCollector, parse_links

    found: dict[str, list[File]] = {}

    class Listing(IndexCommand):
        def run(self, options: Any, args: list[str]) -> int:
            with self._build_session(options) as session, ThreadPoolExecutor(8) as pool:
                collector = LinkCollector.create(session, options=options)

                def links(url: Any) -> list[Any]:
                    page = collector.fetch_response(url)
                    return list(parse_links(page)) if page else []

                def files(name: str) -> list[File]:
                    places = [place for group in collector.collect_sources(name, links) for place in group if place]
                    listed = [link for place in places for link in (*place.page_candidates(), *place.file_links())]
                    return [
                        File(
                            link.filename,
                            link.requires_python,
                            link.is_yanked,
                            link.hash if link.hash_name == "sha256" else "",
                        )
                        for link in listed
                    ]

                found.update(zip(args, pool.map(files, args), strict=True))
            return 0

    if Listing("index", "files of packages").main(["-qqq", *names]):
        sys.exit("pip cannot read its index")
    return found


def check() -> None:
    """Ask for every pin whether each promised platform can install it."""
    pins = {**read(DOCUMENTATION), **read(DEVELOPMENT), **read(RUNTIME)}
    files = files_in_index(list(pins))
    hashed = {name: sums for lock in HEADERS for name, sums in read_hashes(lock).items()}
    allowed = {
        name: [file for file in found if name in UNHASHED or file.sha256 in hashed.get(name, ())]
        for name, found in files.items()
    }
    found = {str(pin): platforms(pin, allowed[name]) for name, pin in pins.items()}
    lacking = [(pin, platform) for pin, kinds in found.items() for platform, kind in kinds.items() if not kind]
    if lacking:
        words = "no wheel and no source with a checksum of the lock"
        sys.exit("\n".join(f"{pin}: {words} for {platform}" for pin, platform in lacking))
    built = [pin for pin, kinds in found.items() if "source" in kinds.values()]
    print(f"{len(pins)} pinned versions install on {', '.join(m.name for m in MACHINES)}, Python {', '.join(PYTHONS)}")
    print(f"built from source: {', '.join(built) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="all locks from pyproject.toml")
    writing.add_argument("--upgrade", nargs="*", metavar="NAME", help="take the newest version of these, or of all")
    commands.add_parser("hash", help="the checksums of the locks as they are")
    commands.add_parser("check", help="ask the index for files for every platform")
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(arguments.upgrade)
    elif arguments.command == "hash":
        write_hashes()
    else:
        check()


if __name__ == "__main__":
    main()
