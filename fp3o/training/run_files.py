"""What a block of seeds writes: rows of CSV files, the state that it is resumed from, at the end its runs.

While a run is going its files are in the scratch folder; at the end they are published, run.json last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fp3o import machine
from fp3o.config import Plan
from fp3o.envs.interface import BatchEnv
from fp3o.errors import UserError, more_said
from fp3o.execution.choice import Execution
from fp3o.learner.state import LearnerState
from fp3o.runs import checkpoint, records
from fp3o.runs.folder import RunFolder, now
from fp3o.runs.records import CsvLog, Value
from fp3o.training.block import Saved
from fp3o.training.run_stats import RunStats


class RunFiles:
    """The files of the seeds that are trained together, from the first row to the published runs."""

    def __init__(self, plan: Plan, folder: RunFolder, chosen: Execution, allow_path_change: bool) -> None:
        """Reads the saved state, if there is one. chosen: the execution of a new run; a resumed one keeps its own."""
        self.plan, self.folder, self.execution = plan, folder, chosen
        self.stats = RunStats()
        self.iterations: dict[int, CsvLog] = {}
        self.evaluations: dict[int, CsvLog] = {}
        self._metrics: tuple[str, ...] = ()
        self._git = records.git_state()  # now, as the code is loaded now
        self._saved: tuple[dict[str, Any], dict[str, Any]] | None = None
        if folder.resume_path.exists():
            with more_said(after=f"; delete {self.folder.block} to start afresh"):
                self._saved = checkpoint.load(folder.resume_path)
                checkpoint.require(self._saved[1], self._identity(), folder.resume_path)
            self.execution = self._same_execution(Execution(**self._saved[1]["path"]), allow_path_change)

    def open(self, metrics: Sequence[str]) -> Saved | None:
        """Open the CSV files: new ones, or those of the saved state, which is returned. metrics: of the environment."""
        self._metrics = tuple(metrics)
        if self._saved is None:
            self._open_logs({}, {})
            return None
        (tensors, metadata), self._saved = self._saved, None
        before = metadata.get("git")
        if before is not None and before != self._git:
            name = before["commit"] + ("+" if before["dirty"] else "")
            self.stats.note(f"code changed at a resume: commit {name} up to iteration {metadata['iteration']}")
        self.stats.resume(metadata["volatile"])
        with more_said(after=f"; delete {self.folder.block} to start afresh"):
            self._open_logs(metadata["offsets"], metadata.get("checksums", {}))
        diverged, stopped = (
            {int(seed): where for seed, where in metadata.get(status, {}).items()} for status in ("diverged", "stopped")
        )
        return Saved(tensors, metadata["iteration"], diverged, stopped)

    def save(self, state: Saved) -> None:
        """Write the resume file atomically, after forcing the CSV files to disk."""
        logs = {str(seed): (self.iterations[seed], self.evaluations[seed]) for seed in self.folder.seeds}
        metadata = self._identity() | {
            "iteration": state.iteration,
            "offsets": {seed: [log.flush() for log in both] for seed, both in logs.items()},
            "checksums": {seed: [log.checksum for log in both] for seed, both in logs.items()},
            "diverged": {str(seed): where for seed, where in state.diverged.items()},
            "stopped": {str(seed): where for seed, where in state.stopped.items()},
            "path": asdict(self.execution),
            "git": self._git,
            "volatile": self.stats.volatile,
        }
        checkpoint.save(self.folder.resume_path, state.tensors, metadata)

    def write_final(self, seed: int, rows: Sequence[Mapping[str, Value]]) -> None:
        """Write final.csv."""
        log = CsvLog(self.folder.scratch(seed) / records.FINAL, (*records.FINAL_COLUMNS, *self._metrics))
        log.append(rows)
        log.flush()
        log.close()

    def publish(
        self,
        env: BatchEnv,
        state: LearnerState,
        diverged: Mapping[int, dict[str, Any]],
        stopped: Mapping[int, dict[str, Any]],
    ) -> None:
        """Write the checkpoints, then publish every seed's run."""
        for place, seed in enumerate(self.folder.seeds):
            scratch = self.folder.scratch(seed)
            identity = {"cell": self.plan.cell.id, "digest": self.plan.digest, "seed": seed}
            checkpoint.save(scratch / records.CHECKPOINT, state.policy(place), identity)
            status = "diverged" if seed in diverged else "stopped" if seed in stopped else "finished"
            where = diverged.get(seed) or stopped.get(seed)
            self.folder.publish(seed, self._document(seed, scratch, env, status, where))

    def close(self) -> None:
        for log in (*self.iterations.values(), *self.evaluations.values()):
            log.close()

    def _identity(self) -> dict[str, Any]:
        return {"cell": self.plan.cell.id, "digest": self.plan.digest, "seeds": list(self.folder.seeds)}

    def _open_logs(self, offsets: dict[str, list[int]], checksums: dict[str, list[str]]) -> None:
        """Start new CSV files or (with offsets) continue those of the saved state; older states have no checksums."""

        def log(seed: int, name: str, place: int, columns: Sequence[str] | None) -> CsvLog:
            where, key = self.folder.scratch(seed) / name, str(seed)
            if not offsets:
                return CsvLog(where, columns)
            checksum = checksums[key][place] if key in checksums else None
            return CsvLog(where, columns, offsets[key][place], checksum)

        for seed in self.folder.seeds:
            self.iterations[seed] = log(seed, records.ITERATIONS, 0, None)
        columns = (*records.EVALUATION_COLUMNS, *self._metrics)
        for seed in self.folder.seeds:
            self.evaluations[seed] = log(seed, records.EVALUATIONS, 1, columns)

    def _same_execution(self, begun: Execution, allow: bool) -> Execution:
        """The execution that the run began with; UserError if it is not possible here, unless a change is allowed.

        Another type of processor may change the last bits too, but would stop jobs that a cluster moves: it is noted.
        """
        chosen = self.execution
        if begun.possible:
            if begun.processor not in ("", chosen.processor):
                self.stats.note(f"processor changed at a resume: {begun.processor} before")
            return replace(begun, threads=chosen.threads, processor=chosen.processor)
        acting = "" if begun.acts_on == "cpu" else f", acting on {begun.acts_on},"
        was = f"{begun.mode} on {begun.device}{acting} with torch {begun.torch}"
        if not allow:
            raise UserError(
                f"{self.plan.cell.id} began {was}, which this machine cannot reproduce; "
                "--allow-path-change goes on without bit-exactness"
            )
        self.stats.note(f"path changed at a resume: {was} before")
        return chosen

    def _document(
        self, seed: int, scratch: Path, env: BatchEnv, status: str, where: dict[str, Any] | None
    ) -> dict[str, Any]:
        """run.json, without the checksums. where: of a run that ended before its budget was spent."""
        configuration = self.plan.configuration()
        final = scratch / records.FINAL if status != "diverged" else None
        volatile = {
            "host": machine.host(),
            "threads": self.execution.threads,
            "ended": now(),
            "stacked_seeds": list(self.folder.seeds),
        }
        return {
            "schema": records.SCHEMA_VERSION,
            "cell": self.plan.cell.id,
            "digest": self.plan.digest,
            "seed": seed,
            "status": status,
            **({} if where is None else {status: where}),
            "settings": configuration["settings"],
            "options": configuration["options"],
            **({"plugins": configuration["plugins"]} if "plugins" in configuration else {}),
            "protocol": self.plan.protocol,
            "revision": self.plan.revision,
            "deviations": [str(change) for change in self.plan.deviations],
            "environment": env.identity(),
            "versions": records.installed_versions(),
            "git": self._git,
            "path": self.execution.record(),
            "exact_resume": env.spec.exact_resume,
            "score": records.score_summary(scratch / records.EVALUATIONS, final),
            "volatile": self.stats.volatile | volatile,
        }
