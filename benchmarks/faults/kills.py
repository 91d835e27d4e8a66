"""Is anything lost when processes die? SIGKILL at random moments of training, save, merge, unpack and sweep; one
JSON line.

Every round plays one command in a fresh place until it ends by itself, killing it at a random moment of its life a few
times before. After every kill each run that was complete before it must still be there, byte for byte; after every
round all runs must equal those of a round that nobody disturbed (of run.json, what repeats), and what was saved must
come back into a clone. "differing" counts bytes' files, "lost" runs. Exit code 1 unless both are 0.

    python benchmarks/faults/kills.py --kills 200                      # all five, in a checkout
    python benchmarks/faults/kills.py --kills 20 --what training       # seconds
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
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from fp3o import cli
from fp3o.runs import layout, records
from fp3o.training import loop
from fp3o.workflow import packing  # noqa: F401 - here, so that forked commands need not import it

ROOT = Path(__file__).resolve().parents[2]
CELLS = ("matrix/two-step/partial/fp3o-1-1", "matrix/two-step/full/happo-epochs-1")
TINY = {"total_steps": 768, "rollout_length": 16, "rollout_threads": 4, "evaluation_interval": 2}
TINY |= {"evaluation_episodes": 3, "final_episodes": 5}
KILLS_PER_ROUND = 8
ATTEMPTS = 20  # to end a round, once nobody kills any more

Files = dict[str, Any]


def run_files(folder: Path) -> dict[Path, Files]:
    """The files of every complete run below a folder; of run.json what must repeat."""
    found: dict[Path, Files] = {}
    for run in layout.finished_runs(folder):
        content: Files = records.without_volatile(records.read_run(run / records.RUN))
        content.pop("git")  # Somebody may commit meanwhile.
        names = content["sha256"]
        # A file that is gone counts as different, not as an end of the measurement.
        found[run.relative_to(folder)] = {records.RUN: content} | {
            name: (run / name).read_bytes() if (run / name).is_file() else None for name in names
        }
    return found


class Scenario(ABC):
    """One command that can be started again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.span = 1.0
        """Seconds one undisturbed command takes."""

    @abstractmethod
    def prepare(self, place: Path) -> None:
        """A fresh place for a round."""

    @abstractmethod
    def start(self, place: Path) -> int:
        """Start the command in a process group of its own; its process id."""

    def log(self, place: Path) -> Path:
        """What all attempts of a round said; beside the place, so that it is in nobody's way."""
        return place.with_name(f"{place.name}.log")

    def recover(self, place: Path) -> None:  # noqa: B027 - most need nothing
        """What the documentation says to do after kill -9."""

    @abstractmethod
    def results(self, place: Path) -> dict[Path, Files]:
        """The runs that are complete."""

    def after_round(self, place: Path) -> int:
        """Runs that cannot be had back from where they were put."""
        return 0


class Training(Scenario):
    """`fp3o train` of two seeds, a state saved after every iteration. Forked: imports would cost seconds each."""

    def prepare(self, place: Path) -> None:
        place.mkdir()

    def start(self, place: Path) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            os.setsid()
            output = os.open(self.log(place), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            loop.SECONDS_BETWEEN_SAVES = 0.0
            os.chdir(place)
            self.begin()
            cli.main(self.arguments(place))
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def begin(self) -> None:
        """What the process does before the command."""

    def arguments(self, place: Path) -> Sequence[str]:
        """The command line after `fp3o`."""
        settings = [f"--set={name}={value}" for name, value in TINY.items()]
        more = ("--seeds", "0-1", "--out", str(place / "runs"), "--device", "cpu", "--path", "eager", *settings)
        return ("train", CELLS[0], *more)

    def results(self, place: Path) -> dict[Path, Files]:
        return run_files(place / "runs")


class InCheckout(Scenario):
    """A command in a clone of this repository, with a paper of two small cells."""

    command: Sequence[str] = ()

    def prepare(self, place: Path) -> None:
        template = self.folder / "template"
        if not template.exists():
            self._make(template)
        shutil.copytree(template, place, symlinks=True)

    def _make(self, place: Path) -> None:
        """What is committed, as a repository of its own, without the shipped runs: they are not what is measured."""
        archive = self.folder / "tree.tar"
        left_out = (f":!{name}" for name in ("artifacts", "results", "tests", "docs", "dvc.lock"))
        _call(["git", "archive", "--output", str(archive), "HEAD", ".", *left_out], ROOT)
        shutil.unpack_archive(archive, place, filter="data")
        _call(["git", "init", "--quiet"], place)
        suite = {
            "title": "Small",
            "seeds": "0-1",
            "overrides": [{"cells": "matrix/*", "set": TINY}],
            "artefacts": {"table-matrix": {"kind": "table", "cells": list(CELLS)}},
        }
        (place / "benchmarks" / "suites" / "paper.yaml").write_text(json.dumps(suite))  # JSON is YAML.
        for name, value in (("user.name", "Nobody"), ("user.email", "nobody@example.org")):
            _call(["git", "config", name, value], place)
        _call(["git", "add", "--all"], place)
        _call(["git", "commit", "--quiet", "-m", "small"], place)

    def start(self, place: Path) -> int:
        with self.log(place).open("ab") as log:
            environment = os.environ | {"PYTHONPATH": str(place), "DVC_NO_ANALYTICS": "1"}
            started = subprocess.Popen(
                self.command, cwd=place, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        return started.pid

    def results(self, place: Path) -> dict[Path, Files]:
        return run_files(place / "results" / "paper" / "runs")


class Sweep(InCheckout):
    """`snakemake runs`. Only Snakemake dies, not its jobs, every other time."""

    command = (sys.executable, "-m", "snakemake", "runs", "--cores", "2", "--quiet", "all", "--config", "gpus=none")

    def recover(self, place: Path) -> None:
        subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], cwd=place, capture_output=True, check=False)


class Save(InCheckout):
    """`fp3o save` of runs that were trained before; a clone must get all of them back."""

    command: Sequence[str] = (sys.executable, "-m", "fp3o", "save", "--suite", "paper", "-m", "runs")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._trained = folder / "trained"

    def prepare(self, place: Path) -> None:
        super().prepare(place)
        runs = place / "results" / "paper" / "runs"
        if not self._trained.exists():
            for cell in CELLS:
                _call([sys.executable, "-m", "fp3o", "train", cell, "--seeds", "0-1", "--device", "cpu"], place)
            shutil.copytree(runs, self._trained)
        shutil.copytree(self._trained, runs, dirs_exist_ok=True)

    def recover(self, place: Path) -> None:
        (place / ".git" / "index.lock").unlink(missing_ok=True)  # of a killed git

    def after_round(self, place: Path) -> int:
        clone = place.with_name(f"{place.name}-clone")
        _call(["git", "clone", "--quiet", str(place), str(clone)], place)
        _call([sys.executable, "-m", "dvc", "pull", "--quiet", "runs"], clone)
        here, there = self.results(place), self.results(clone)
        shutil.rmtree(clone)
        return sum(files != there.get(run) for run, files in here.items())


class Merge(Save):
    """`fp3o merge` of two branches with one saved cell each; a clone must get both back."""

    command = (sys.executable, "-m", "fp3o", "merge")

    def prepare(self, place: Path) -> None:
        conflict = self.folder / "conflict"
        if not conflict.exists():
            super().prepare(conflict)
            runs = conflict / "results" / "paper" / "runs"
            _call(["git", "tag", "start"], conflict)
            for branch, cell in zip(("theirs", "ours"), CELLS, strict=True):
                _call(["git", "checkout", "--quiet", "-b", branch, "start"], conflict)
                shutil.rmtree(runs)
                shutil.copytree(self._trained / cell, runs / cell)
                _call(Save.command, conflict)
            subprocess.run(["git", "merge", "--quiet", "theirs"], cwd=conflict, capture_output=True, check=False)
            shutil.copytree(self._trained, runs, dirs_exist_ok=True)
        shutil.copytree(conflict, place, symlinks=True)

    def after_round(self, place: Path) -> int:
        _call(["git", "commit", "--quiet", "-m", "both"], place)
        return super().after_round(place)


class Unpack(Training):
    """`fp3o unpack` of finished runs into an empty folder; nothing may be there in part."""

    def prepare(self, place: Path) -> None:
        place.mkdir()
        suite = {
            "title": "Small",
            "seeds": "0-3",
            "overrides": [{"cells": "matrix/*", "set": TINY}],
            "artefacts": {"table-matrix": {"kind": "table", "cells": list(CELLS)}},
        }
        (place / "small.yaml").write_text(json.dumps(suite))
        pack = self.folder / "runs.tar"
        if not pack.exists():
            first = self.folder / "first"
            shutil.copytree(place, first)
            for cell in CELLS:
                more = ("--seeds", "0-3", "--suite", "small.yaml", "--device", "cpu", "--path", "eager")
                _call([sys.executable, "-m", "fp3o", "train", cell, *more], first, ROOT)
            _call([sys.executable, "-m", "fp3o", "pack", str(pack), "--suite", "small.yaml"], first, ROOT)

    def arguments(self, place: Path) -> Sequence[str]:
        return ("unpack", str(self.folder / "runs.tar"), "--suite", "small.yaml")

    def results(self, place: Path) -> dict[Path, Files]:
        runs = place / "results" / "small" / "runs"
        # A folder that is in a run's place counts as a run, whatever it lacks.
        half = [path for path in runs.glob("*/*/*/*/*/seed-*") if not (path / records.RUN).is_file()]
        return run_files(runs) | {path.relative_to(runs): {records.RUN: None} for path in half}

    def after_round(self, place: Path) -> int:
        return len(list((place / "results").rglob(".*")))  # Nothing of the killed ones stays.


def _call(command: Sequence[str], place: Path, code: Path | None = None) -> None:
    """code: the checkout whose package is used; default: the place itself."""
    environment = os.environ | {"PYTHONPATH": str(code or place), "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def ended(pid: int, seconds: float) -> int | None:
    """Exit code of a child that ends within this time, else None."""
    limit = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > limit:
            return None
        time.sleep(0.002)


def kill(pid: int, whole_group: bool) -> None:
    """As a crash of the machine (the whole group), or of this one process."""
    try:
        os.killpg(pid, signal.SIGKILL) if whole_group else os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # Forked a moment ago: it has no group of its own yet.
    os.waitpid(pid, 0)


def finish(scenario: Scenario, place: Path) -> None:
    """Let the command end by itself; jobs that outlived a killed Snakemake may have to end first."""
    for _ in range(ATTEMPTS):
        code = ended(scenario.start(place), 3600)
        if code == 0:
            return
        time.sleep(scenario.span / 4)
        scenario.recover(place)
    raise SystemExit(f"{type(scenario).__name__} does not end; it said last: {scenario.log(place).read_text()[-1500:]}")


def undisturbed(scenario: Any) -> tuple[Path, Any]:
    """Let the command run once in peace: the folder, and the results that all others must give. Sets `span`."""
    quiet = scenario.folder / "quiet"
    scenario.prepare(quiet)
    started = time.monotonic()
    finish(scenario, quiet)
    scenario.span = time.monotonic() - started
    wanted = scenario.results(quiet)
    assert wanted, f"{type(scenario).__name__} left no runs: see {quiet}"
    return quiet, wanted


def measure(scenario: Scenario, kills: int, draw: random.Random) -> dict[str, Any]:
    """So many kills, in rounds; what came of them."""
    begun = time.monotonic()
    quiet, wanted = undisturbed(scenario)
    lost, differing, done, rounds = scenario.after_round(quiet), 0, 0, 0
    while done < kills:
        place = scenario.folder / f"round-{rounds}"
        scenario.prepare(place)
        seen: dict[Path, Files] = {}
        for attempt in range(min(KILLS_PER_ROUND, kills - done)):
            pid, started = scenario.start(place), time.monotonic()
            # Up to a little after the usual end: moments between the last write and the exit count too.
            if ended(pid, draw.uniform(0, 1.1 * scenario.span)) is not None:
                if attempt == 0:
                    scenario.span = time.monotonic() - started  # The machine has become quieter: aim anew.
                break
            kill(pid, whole_group=not isinstance(scenario, Sweep) or draw.random() < 0.5)
            done += 1
            found = scenario.results(place)
            lost += sum(run not in found for run in seen)
            differing += sum(found[run] != files for run, files in seen.items() if run in found)
            seen = found
            scenario.recover(place)
        finish(scenario, place)
        found = scenario.results(place)
        lost += sum(run not in found for run in wanted) + scenario.after_round(place)
        differing += sum(found[run] != files for run, files in wanted.items() if run in found)
        shutil.rmtree(place)
        rounds += 1
    return {
        "kills": done,
        "rounds": rounds,
        "differing": differing,
        "lost": lost,
        "seconds": round(time.monotonic() - begun, 1),
    }


SCENARIOS: dict[str, Callable[[Path], Scenario]] = {
    "training": Training,
    "save": Save,
    "merge": Merge,
    "unpack": Unpack,
    "sweep": Sweep,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="of each command")
    parser.add_argument("--what", nargs="+", choices=tuple(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0, help="of the moments; the machine's load moves them too")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fp3o-faults-") as name:
        for what in chosen.what:
            folder = Path(name) / what
            folder.mkdir()
            found[what] = measure(SCENARIOS[what](folder), chosen.kills, random.Random(f"{chosen.seed} {what}"))
    held = all(entry["lost"] == entry["differing"] == 0 for entry in found.values())
    print(json.dumps({"benchmark": "faults", **found, "held": held}))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
