"""A checkout of its own for every test of the workflow, with a fake trainer in front of the real one: the means."""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from warm import COMMANDS, warm_commands

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

COPIED = (
    "Snakefile",
    "workflow",
    "profiles",
    "benchmarks",
    "fp3o",
    "paper_figures",
    "environment.yml",
    "dvc.yaml",
    ".dvcignore",
    ".gitignore",
    ".gitattributes",
)


# For the shell a command, for Python a script.
FAKE = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

sys.path.insert(0, {folder!r})
import fake_trainer

fake_trainer.main()
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository and the environment its commands run in."""

    path: Path
    environment: dict[str, str]

    def run(self, *command: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Our programs start warm, unless Python is told how to start."""
        variables = {**self.environment, **environment}
        told = any(name.startswith("PYTHON") for name in environment)
        if command[0] in COMMANDS and not told and (warm := warm_commands()) is not None:
            variables["PATH"] = os.pathsep.join([str(warm), variables["PATH"]])
        done = subprocess.run(
            command,
            cwd=self.path,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}")
        return done

    def snakemake(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """With the blocks of jobs, which the profile hides."""
        loud = () if "--quiet" in arguments else ("--quiet", "host")
        return self.run("snakemake", *arguments, *loud, check=check, **environment)

    def plan(self, *arguments: str) -> tuple[set[str], dict[str, int]]:
        """Of a dry run: the cells it would train, each with its seed block; jobs by rule, without `all`."""
        return jobs_in(self.snakemake(*arguments, "-n").stdout)

    def planned_jobs(self, *arguments: str) -> dict[str, int]:
        return self.plan(*arguments)[1]

    def trainings(self, *arguments: str) -> set[str]:
        return self.plan(*arguments)[0]

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path / name
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new, 1))

    def documents(self, suite: str = "paper") -> dict[str, dict[str, object]]:
        """run.json of every finished run, by `<cell>/seed-<k>`."""
        runs = self.path / "results" / suite / "runs"
        return {
            f"{p.parents[2].relative_to(runs)}/{p.parent.name}": json.loads(p.read_text())
            for p in runs.glob("*/*/*/*/*/*/run.json")
        }

    def commit(self, message: str) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--allow-empty", "-m", message)


def jobs_in(text: str) -> tuple[set[str], dict[str, int]]:
    """What Snakemake says, in a dry run or before it starts: the cells to train, and the jobs by rule (see `plan`)."""
    if "Nothing to be done" in text:
        return set(), {}
    table = text.rsplit("Job stats:", 1)[1]
    jobs = {m[1]: int(m[2]) for m in re.finditer(r"^(\w+)\s+(\d+)\s*$", table, re.MULTILINE)}
    cells = re.findall(
        r"^rule train:\n(?:.*\n)*?\s+wildcards: cell=([^,]+), digest=\w+, seeds=(.*), number=", text, re.MULTILINE
    )
    rest = {rule: count for rule, count in jobs.items() if rule not in ("all", "total", "available")}
    return {f"{cell} {seeds}" for cell, seeds in cells}, rest


def copy_repository(path: Path) -> None:
    """The files of the workflow as they are now, with a small suite in the paper's place."""
    path.mkdir()
    # With its bytecode, which hundreds of commands read.
    compileall.compile_dir(ROOT / "fp3o", quiet=1)
    for entry in COPIED:
        source = ROOT / entry
        if source.is_dir():
            shutil.copytree(source, path / entry)
        else:
            shutil.copy(source, path / entry)
    (path / ".dvc").mkdir()
    for entry in ("config", ".gitignore"):
        shutil.copy(ROOT / ".dvc" / entry, path / ".dvc" / entry)
    shutil.copytree(ROOT / ".dvc" / "plots", path / ".dvc" / "plots")
    suites = path / "benchmarks" / "suites"
    shutil.copy(HERE / "small_paper.yaml", suites / "paper.yaml")
    # What the small paper does not have the preview cannot leave out.
    preview = (suites / "preview.yaml").read_text().splitlines(keepends=True)
    absent = ("  reproduction-profiles:", "  reproduction-scatter:")
    (suites / "preview.yaml").write_text("".join(line for line in preview if not line.startswith(absent)))


def commands(folder: Path, path: Path) -> dict[str, str]:
    """An environment of one's own: fake trainer first, own home and temporary folder, no settings of the user."""
    binaries, home, temporary = (folder / name for name in ("bin", "home", "tmp"))
    for made in (binaries, home, temporary):
        made.mkdir(exist_ok=True)
    fake = binaries / "fp3o"
    fake.write_text(FAKE.format(python=sys.executable, folder=str(HERE)))
    fake.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FAKE_", "CUDA_", "SNAKEMAKE_", "DVC_", "GIT_"))}
    return {
        **kept,
        "PATH": os.pathsep.join([str(binaries), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(path),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(temporary),
        "DVC_NO_ANALYTICS": "1",
        "GIT_AUTHOR_NAME": "Nobody",
        "GIT_AUTHOR_EMAIL": "nobody@example.org",
        "GIT_COMMITTER_NAME": "Nobody",
        "GIT_COMMITTER_EMAIL": "nobody@example.org",
    }


def clone(checkout: Checkout, path: Path) -> Checkout:
    """What somebody else gets."""
    checkout.run("git", "clone", "--quiet", str(checkout.path), str(path))
    return Checkout(path, {**checkout.environment, "PYTHONPATH": str(path)})


def processes() -> set[int]:
    """Processes that are alive."""
    alive = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = entry.read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            alive.add(int(entry.parent.name))
    return alive
