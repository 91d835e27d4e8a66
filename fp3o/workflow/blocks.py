"""Seed blocks, each trained by one job: which are finished, and the marks that tell Snakemake so. Imports no torch.

Snakemake deletes a job's outputs before it starts and after it fails, so a run's files must not be outputs of a rule.
The only output of a training job is a mark, a small file that is written last:

    results/<suite>/marks/<cell>/<digest>-s0-4.train-1      sha256 of the run.json of each seed

Finished runs are inputs that no rule makes, wherever they come from (a job, `fp3o train` by hand, a pull). For a block
that is not finished Snakemake is asked for a mark with a number that was not used before; so a lost file is trained
again although an older mark exists. Nothing is written while Snakemake builds its job graph.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import safetensors

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import compressed, layout, records
from fp3o.runs.atomic import write_atomically

TRAIN, RETRAIN = "train", "retrain"
"""The rules that write marks; the second one trains finished runs again (`fp3o rerun`)."""


@dataclass(frozen=True)
class Block:
    """Seeds of one cell that one job trains together."""

    suite: str
    plan: config.Plan
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """Beginning of the names of its marks and logs: `0123456789-s0-4`."""
        return f"{self.plan.digest}-s{config.seeds_text(self.seeds)}"

    @property
    def root(self) -> Path:
        """results/<suite>."""
        return layout.suite_root(self.suite)

    def document(self, seed: int) -> Path:
        """run.json of a seed."""
        return layout.run_directory(self.root / "runs", self.plan, seed) / records.RUN

    def finished(self, seed: int) -> bool:
        """Whether run.json and the files it names exist. Their content is checked where it is read."""
        path = self.document(seed)
        try:
            names = set(json.loads(path.read_bytes())["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            return False  # A damaged run.json is not overwritten: `fp3o train` refuses to, and says why.
        return all(compressed.has(path.parent, name) for name in names | set(layout.RUN_FILES))

    def complete(self) -> bool:
        """Whether every seed is finished."""
        return all(self.finished(seed) for seed in self.seeds)

    def marks(self) -> dict[int, Path]:
        """The block's marks by number; the last one is the newest."""
        return self._numbered(self.root / "marks" / self.plan.cell.id, "")

    def last_log(self) -> Path:
        """The log of the block's newest job; if there was none, the (missing) log of its first."""
        folder = self.root / "logs" / "train" / self.plan.cell.id
        logs = list(self._numbered(folder, ".log.all").values())
        return logs[-1].with_suffix("") if logs else folder / f"{self.name}.{TRAIN}-1.log"

    def _numbered(self, folder: Path, end: str) -> dict[int, Path]:
        """The files of its jobs in a folder, `<name>.<rule>-<number><end>`, by number."""
        pattern = re.compile(rf"{re.escape(self.name)}\.(?:{TRAIN}|{RETRAIN})-(\d+){re.escape(end)}")
        paths = folder.iterdir() if folder.is_dir() else ()
        return dict(sorted((int(m[1]), path) for path in paths if (m := pattern.fullmatch(path.name))))

    def resumable_from(self) -> int | None:
        """The iteration from which its training would resume; None if it has no saved state."""
        folder = layout.scratch_directory(self.root / "scratch", self.plan, self.seeds)
        try:
            with safetensors.safe_open(folder / "resume.safetensors", framework="numpy") as file:
                return int(json.loads(file.metadata()["fp3o"])["metadata"]["iteration"])
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
            return None  # There is none, it is not ours, or it is damaged: the trainer will say so.

    def next_mark(self, rule: str = TRAIN) -> Path:
        """A mark that does not exist yet: asking Snakemake for it starts a job of this rule."""
        name = f"{self.name}.{rule}-{max(self.marks(), default=0) + 1}"
        return self.root / "marks" / self.plan.cell.id / name

    def mark_text(self) -> str:
        """The content of a mark for the runs as they are now."""
        return "".join(f"seed-{seed} {records.sha256_of(self.document(seed))}\n" for seed in self.seeds)

    def sources(self) -> list[Path]:
        """Input files for rules that use the finished runs: the newest mark if it is up to date, else each run.json."""
        marks = list(self.marks().values())
        if marks and marks[-1].read_text() == self.mark_text():
            return [marks[-1]]
        return [self.document(seed) for seed in self.seeds]

    def write_mark(self, path: Path) -> None:
        """At the end of a job: verify every run, then write the mark. UserError if a seed is not finished."""
        from fp3o.runs.folder import RunFolder

        left = RunFolder(self.plan, self.seeds, self.root / "runs", self.root / "scratch").unfinished()
        if left:
            raise UserError(f"{self.plan.cell.id}: seeds {config.seeds_text(left)} are not finished")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.mark_text().encode())


def blocks_of(suite: config.Suite, cell: str) -> list[Block]:
    """The blocks of a cell, in the order of their seeds."""
    plan, seeds = suite.run(cell)
    return [Block(suite.name, plan, block) for block in config.seed_blocks(seeds, suite.seed_block)]


class Sweep:
    """The runs that one call of Snakemake needs. Each block is examined once, so that all rules see the same state."""

    def __init__(self, suite: config.Suite, available: bool = False) -> None:
        self.suite = suite
        self.available = available
        """Whether artefacts are made of the runs that exist, training nothing."""
        self.missing: dict[tuple[str, int], config.Plan] = {}
        """(cell, seed) → plan of the runs that are needed and do not exist here."""
        self.jobs: dict[tuple[str, str], tuple[config.Plan, int]] = {}
        """Of every block that is not finished, by cell and seeds: its plan, and how many of its seeds are missing."""
        self._needs: dict[str, list[str]] = {}

    def needs(self, cells: Iterable[str]) -> list[str]:
        """Input files of a table or figure with these cells."""
        files = []
        for cell in cells:
            if cell not in self._needs:
                self._needs[cell] = [
                    str(path) for block in blocks_of(self.suite, cell) for path in self._of_block(block)
                ]
            files += self._needs[cell]
        return files

    def _of_block(self, block: Block) -> list[Path]:
        finished = [seed for seed in block.seeds if block.finished(seed)]
        if len(finished) == len(block.seeds):
            return block.sources()
        key = block.plan.cell.id, config.seeds_text(block.seeds)
        self.jobs[key] = block.plan, len(block.seeds) - len(finished)
        self.missing |= {(block.plan.cell.id, seed): block.plan for seed in block.seeds if seed not in finished}
        return [block.document(seed) for seed in finished] if self.available else [block.next_mark()]


def plans_digest(suite: config.Suite, cells: Sequence[str], said: object = None) -> str:
    """A hash of the plans and seeds of these cells, and of `said`: whatever else the suite says about an artefact.

    A parameter of the rules that make artefacts: Snakemake makes them again when it changes.
    """
    content = [said, [[*_values(plan), seeds] for plan, seeds in map(suite.run, cells)]]
    return hashlib.sha256(config.canonical_json(content).encode()).hexdigest()


@cache
def _values(plan: config.Plan) -> tuple[dict[str, Any], list[str]]:
    return plan.configuration(), [str(deviation) for deviation in plan.deviations]


def check_digest(plan: config.Plan, planned: str) -> None:
    """UserError if a job's settings have changed since Snakemake planned it, with this digest ("": unknown)."""
    if planned not in ("", plan.digest):
        raise UserError(
            f"{plan.cell.id} resolves to {plan.digest}, this job was planned for {planned}: its settings changed in "
            "between; undo the change, or call snakemake again"
        )
