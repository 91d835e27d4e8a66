"""Is anything lost when the clock jumps, two hosts share a folder, an environment hangs, or jobs are grouped?

One JSON line. Linux, root (or user namespaces) for `hosts`, a C compiler for `clock`.

clock     the wall clock is wrong by years, jumps to and fro ten times a second, and is wrong the other way round in the
          attempt that goes on after a kill; times that a run records stay between 0 and what it really took
hosts     two hosts, each with its own name and its own mount of the folder (UTS and mount namespaces of one kernel),
          train the same seeds at the same time: one trains, the other is refused in one line that names the first; the
          first is killed, the other goes on
hang      an environment stops answering in mid-training: one line, exit code 1; the same command goes on later
groups    `snakemake runs` with two training jobs in each group job

All runs must equal those of an undisturbed command ("differing", "lost"; an environment without a saved state begins
new episodes when it goes on, so `hang` looks at finished runs alone). "unclear" counts attempts that did not end as
said here. Exit code 1 unless all three are 0.

    python benchmarks/faults/circumstances.py --attempts 6
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kills import ROOT, TINY, Files, InCheckout, Training, ended, kill, undisturbed  # type: ignore[import-not-found]

CLOCK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* CLOCK_SHIFT: seconds that the wall clock is wrong by; their sign changes every tenth of a second. */
int clock_gettime(clockid_t id, struct timespec *t) {
    int code = syscall(SYS_clock_gettime, id, t);
    if (code == 0 && id == CLOCK_REALTIME) {
        const char *shift = getenv("CLOCK_SHIFT");
        if (shift) t->tv_sec += (t->tv_nsec / 100000000 % 2 ? 1 : -1) * atol(shift);
    }
    return code;
}
time_t time(time_t *where) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (where) *where = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *where, void *zone) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    where->tv_sec = t.tv_sec;
    where->tv_usec = t.tv_nsec / 1000;
    return 0;
}
"""
YEARS = 20 * 365 * 86_400

HANGING = """
import os, time
import fp3o
from pettingzoo import ParallelEnv  # noqa: F401
exec(compile(open({agree!r}).read().replace('"agree"', '"hanging"'), {agree!r}, "exec"))
played = Agree.step
def step(self, actions):
    Hanging.steps += 1
    while os.path.exists("hang") and Hanging.steps > 300:
        time.sleep(0.1)
    return played(self, actions)
class Hanging: steps = 0
Agree.step = step
"""


class Found(NamedTuple):
    """What came of one attempt."""

    unclear: int
    runs: dict[Path, Files]


class Process(Training):
    """`fp3o train` of two seeds as a process of its own."""

    def launch(
        self, place: Path, prefix: Sequence[str] = (), more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | dict(more or {})
        command = [*prefix, sys.executable, "-P", "-m", "fp3o", *self.arguments(place)]
        return subprocess.Popen(
            command, cwd=place, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def in_one_line(process: subprocess.Popen[str], words: str, patience: float = 120) -> bool:
    """Whether a process fails, says these words last, and shows no traceback."""
    _, said = process.communicate(timeout=patience)
    clear = process.returncode not in (0, None) and words in last_line(said) and "Traceback" not in said
    if not clear:
        print(f"exit code {process.returncode}: {said[-1000:]}", file=sys.stderr)
    return clear


class Clock(Process):
    """The wall clock lies."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        source, self.library = folder / "clock.c", folder / "clock.so"
        source.write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.library), str(source)], check=True)

    def attempt(self, place: Path, draw: random.Random) -> Found:
        begun = time.monotonic()
        shifts = [YEARS, -YEARS]
        draw.shuffle(shifts)
        preload = {"LD_PRELOAD": str(self.library)}
        first = self.launch(place, more=preload | {"CLOCK_SHIFT": str(shifts[0])})
        time.sleep(draw.uniform(1, 6))
        first.kill()
        first.communicate()
        second = self.launch(place, more=preload | {"CLOCK_SHIFT": str(shifts[1])})
        _, said = second.communicate()
        taken = time.monotonic() - begun
        unclear = second.returncode != 0
        if unclear:
            print(said[-1000:], file=sys.stderr)
        for path in (place / "runs").rglob("run.json"):
            seconds = json.loads(path.read_text())["volatile"]["seconds"].values()
            unclear |= not all(0 <= value <= taken for value in seconds)
        return Found(int(unclear), self.results(place))


class Hosts(Process):
    """Two hosts, one folder."""

    def arguments(self, place: Path) -> Sequence[str]:
        longer = {f"--set=total_steps={TINY['total_steps']}": f"--set=total_steps={20 * TINY['total_steps']}"}
        return [longer.get(word, word) for word in super().arguments(place)]

    def on(self, host: str, place: Path) -> subprocess.Popen[str]:
        """Each host sees the folder below a name of its own."""
        mount = self.folder / host
        mount.mkdir(exist_ok=True)
        rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        steps = 'hostname "$0" && mount --bind "$1" "$2" && shift 2 && exec "$@"'
        prefix = ["unshare", "--mount", "--uts", *rights, "sh", "-c", steps, host, str(place), str(mount)]
        command = [*prefix, sys.executable, "-P", "-m", "fp3o", *self.arguments(mount)]
        return subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip

    def attempt(self, place: Path, draw: random.Random) -> Found:
        first = self.on("first", place)
        deadline = time.monotonic() + 120
        while not list(place.rglob("seed-1.lock")) and time.monotonic() < deadline:
            time.sleep(0.01)
        unclear = not in_one_line(self.on("second", place), f"by process {first.pid} on first since")
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        third = self.on("second", place)
        _, said = third.communicate()
        if third.returncode:
            print(said[-1000:], file=sys.stderr)
        return Found(int(unclear) + (third.returncode != 0), self.results(place))


class Hang(Process):
    """An environment that stops answering while a file is there."""

    def prepare(self, place: Path) -> None:
        super().prepare(place)
        text = HANGING.format(agree=str(ROOT / "docs" / "examples" / "agree.py"))
        (place / "hanging.py").write_text(text)

    def arguments(self, place: Path) -> Sequence[str]:
        settings = [f"--set={name}={value}" for name, value in (TINY | {"timeout": 2, "total_steps": 3200}).items()]
        where = ("--out", str(place / "runs"), "--import", str(place / "hanging.py"))
        seeds = "0-1" if (place / "more").exists() else "0"
        return ("train", "pettingzoo/hanging/full/mappo", "--seeds", seeds, *where, "--device", "cpu", *settings)

    def results(self, place: Path) -> dict[Path, Files]:
        return {run: files for run, files in super().results(place).items() if run.name == "seed-0"}

    def attempt(self, place: Path, draw: random.Random) -> Found:
        """Seed 0 is finished before; seed 1 hangs."""
        unclear = 0
        for flag in ("", "hang", ""):
            for name in ("hang", "more"):
                (place / name).unlink(missing_ok=True)
            if flag:
                (place / flag).touch()
            if flag or list(place.rglob("run.json")):
                (place / "more").touch()
            process = self.launch(place)
            if flag:
                unclear += not in_one_line(process, "has not come back for 2 s; it hangs")
                continue
            _, said = process.communicate()
            unclear += process.returncode != 0
            if process.returncode:
                print(said[-1000:], file=sys.stderr)
        unclear += len(list(place.rglob("run.json"))) != 2
        return Found(unclear, self.results(place))


class Groups(InCheckout):
    """`snakemake runs`, with and without groups; Snakemake and its group jobs are killed once."""

    plain = (sys.executable, "-m", "snakemake", "runs", "--cores", "2", "--quiet", "all", "--config", "gpus=none")
    command: Sequence[str] = plain

    def attempt(self, place: Path, draw: random.Random) -> Found:
        grouped = ("--groups", "train=pair", "--group-components", "pair=2")
        self.command = (*self.plain[:4], *grouped, *self.plain[4:])
        pid = self.start(place)
        if ended(pid, draw.uniform(0.3, 0.9) * self.span) is None:
            kill(pid, whole_group=True)
        subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], cwd=place, capture_output=True, check=False)
        code = ended(self.start(place), 600)
        self.command = self.plain
        if code:
            print(self.log(place).read_text()[-2000:], file=sys.stderr)
        return Found(int(code != 0), self.results(place))


SCENARIOS: dict[str, Callable[[Path], Any]] = {"clock": Clock, "hosts": Hosts, "hang": Hang, "groups": Groups}


def measure(scenario: Any, attempts: int, draw: random.Random) -> dict[str, Any]:
    """So many attempts; what came of them."""
    begun = time.monotonic()
    _, wanted = undisturbed(scenario)
    unclear = differing = lost = 0
    for number in range(attempts):
        place = scenario.folder / f"attempt-{number}"
        scenario.prepare(place)
        found = scenario.attempt(place, draw)
        unclear += found.unclear
        lost += sum(run not in found.runs for run in wanted)
        differing += sum(found.runs[run] != files for run, files in wanted.items() if run in found.runs)
        shutil.rmtree(place)
    seconds = round(time.monotonic() - begun, 1)
    return {"attempts": attempts, "unclear": unclear, "differing": differing, "lost": lost, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=6, help="of each kind")
    parser.add_argument("--what", nargs="+", choices=tuple(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fp3o-faults-") as name:
        for what in chosen.what:
            folder = Path(name) / what
            folder.mkdir()
            draw = random.Random(f"{chosen.seed} {what}")
            found[what] = measure(SCENARIOS[what](folder), chosen.attempts, draw)
    held = all(entry[kind] == 0 for entry in found.values() for kind in ("unclear", "differing", "lost"))
    print(json.dumps({"benchmark": "circumstances", **found, "held": held}))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
