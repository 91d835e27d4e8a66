"""Is anything lost when the disk or the memory fills up in the middle of a training? One JSON line.

disk      a small file system of its own (tmpfs in a mount namespace): once the first state is saved, a file takes all
          space but some kilobytes, fewer each time, so that another write fails: of a state, a CSV file, a publication
memory    a limit of the address space (RLIMIT_AS), some MiB above what the process has when the command starts
cgroup    a control group of its own, below this one, that gets little more memory than it has once the first state
          is saved: the kernel kills the process (needs root)

Each attempt may end early, but in one line without a traceback and with an exit code that says so. Then the shortage is
over, the same command runs again, and all files must equal those of an undisturbed run ("differing", "lost").
"early" counts the attempts that the shortage ended. Exit code 1 unless the last three numbers are 0.

    python benchmarks/faults/shortages.py --attempts 40
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills import Files, Training, ended, finish  # type: ignore[import-not-found]  # beside this file

MIB = 2**20
INSIDE = "FP3O_FAULTS_INSIDE"  # set in the mount namespace


class FullDisk(Training):
    """Training on a disk of 16 MiB that somebody else fills."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
        self.ballast = disk / "ballast"

    def attempt(self, place: Path, share: float) -> int:
        pid = self.start(place)
        wait_for_state(place)
        space = os.statvfs(place)
        free = space.f_bavail * space.f_frsize
        with self.ballast.open("wb") as file:
            file.write(bytes(max(0, free - int(share * 400_000))))
        code = ended(pid, 600)
        assert code is not None
        self.ballast.unlink()
        return code

    def place(self, name: str) -> Path:
        return self.folder / "disk" / name

    def log(self, place: Path) -> Path:
        return self.folder / f"{place.name}.log"


class LittleMemory(Training):
    """Training in a process that gets only some more memory than it has."""

    limit: int | None = None

    def attempt(self, place: Path, share: float) -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self.limit = pages * os.sysconf("SC_PAGE_SIZE") + int(share * 160 * MIB)
        code = ended(self.start(place), 600)
        assert code is not None
        self.limit = None
        return code

    def begin(self) -> None:
        if self.limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (self.limit, self.limit))

    def place(self, name: str) -> Path:
        return self.folder / name


class MemoryGroup(Training):
    """Training in a control group whose limit comes down."""

    inside = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.group, self.limit, self.usage, self.unlimited = _memory_group()
        self.group.mkdir()
        weakref.finalize(self, self.group.rmdir)

    def attempt(self, place: Path, share: float) -> int:
        self.limit.write_text(self.unlimited)
        self.inside = True
        pid = self.start(place)
        wait_for_state(place)
        with contextlib.suppress(OSError):  # It has taken more meanwhile: no limit this time.
            self.limit.write_text(str(int(self.usage.read_text()) + int(share * 10 * MIB)))
        code = ended(pid, 600)
        assert code is not None
        self.inside = False
        return code

    def begin(self) -> None:
        if self.inside:
            (self.group / "cgroup.procs").write_text("0")

    def place(self, name: str) -> Path:
        return self.folder / name


def _memory_group() -> tuple[Path, Path, Path, str]:
    """A control group below this process's own, to be made; the files of its limit and usage, and the word for none."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            group = Path("/sys/fs/cgroup/memory") / path.lstrip("/") / f"fp3o-{os.getpid()}"
            return group, group / "memory.limit_in_bytes", group / "memory.usage_in_bytes", "-1"
    group = Path("/sys/fs/cgroup") / path.lstrip("/") / f"fp3o-{os.getpid()}"
    return group, group / "memory.max", group / "memory.current", "max"


def wait_for_state(place: Path) -> None:
    """Until the first state is saved."""
    deadline = time.monotonic() + 60
    while not list(place.rglob("resume.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.002)


def measure(scenario: FullDisk | LittleMemory | MemoryGroup, attempts: int) -> dict[str, Any]:
    """So many shortages, from the smallest to none at all; what came of them."""
    begun = time.monotonic()

    def whole(place: Path) -> dict[Path, Files]:
        finish(scenario, place)
        return scenario.results(place)

    quiet = scenario.place("quiet")
    scenario.prepare(quiet)
    wanted = whole(quiet)
    early = unclear = lost = differing = 0
    for number in range(attempts):
        place = scenario.place(f"attempt-{number}")
        scenario.prepare(place)
        code = scenario.attempt(place, number / attempts)
        log = scenario.log(place)
        if code:
            early += 1
            text = log.read_text()
            line = (text.strip().splitlines() or [""])[-1]
            # OpenBLAS ends the process itself, with a line of its own.
            clear = line.startswith(("fp3o: ", "resume with: ", "OpenBLAS error: "))
            clear |= isinstance(scenario, MemoryGroup) and code == -signal.SIGKILL  # The kernel says it in its log.
            unclear += not clear
            if not clear:
                print(f"exit code {code}: {text[-1000:]}", file=sys.stderr)
            log.unlink()
        found = whole(place)
        lost += sum(run not in found for run in wanted)
        differing += sum(found[run] != files for run, files in wanted.items() if run in found)
        shutil.rmtree(place)
    seconds = round(time.monotonic() - begun, 1)
    return {
        "attempts": attempts,
        "early": early,
        "unclear": unclear,
        "differing": differing,
        "lost": lost,
        "seconds": seconds,
    }


SCENARIOS: dict[str, Callable[[Path], FullDisk | LittleMemory | MemoryGroup]] = {
    "disk": FullDisk,
    "memory": LittleMemory,
    "cgroup": MemoryGroup,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=40, help="of each kind")
    parser.add_argument("--what", nargs="+", choices=tuple(SCENARIOS), default=list(SCENARIOS))
    chosen = parser.parse_args()
    if "disk" in chosen.what and INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", "--mount", *rights, sys.executable, *sys.argv])
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fp3o-faults-") as name:
        for what in chosen.what:
            folder = Path(name) / what
            folder.mkdir()
            found[what] = measure(SCENARIOS[what](folder), chosen.attempts)
        if "disk" in chosen.what:
            subprocess.run(["umount", str(Path(name) / "disk" / "disk")], check=True)
    held = all(entry[kind] == 0 for entry in found.values() for kind in ("unclear", "differing", "lost"))
    print(json.dumps({"benchmark": "shortages", **found, "held": held}))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
