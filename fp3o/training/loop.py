"""The training loop of a seed block: collect, update, evaluate, record, save.

A resumed run equals an uninterrupted one bit for bit, given the same execution (fp3o/training/execution.py) and type of
processor. While a run is going its files are in the scratch folder; at the end they are published, run.json last.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fp3o.config import Plan, check_agents
from fp3o.envs import make
from fp3o.envs.ahead import compile_beside
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.errors import UserError
from fp3o.networks.sharing import sharing
from fp3o.runs import checkpoint, records, verify
from fp3o.runs.folder import RunFolder, now
from fp3o.runs.interrupt import Interrupt, Stopped
from fp3o.runs.records import CsvLog, Value
from fp3o.training import memory
from fp3o.training.allocator import reuse_freed_memory
from fp3o.training.callbacks import PHASES, Callback, Callbacks
from fp3o.training.compiling import WORK
from fp3o.training.evaluate import Background, Evaluator, Pending
from fp3o.training.execution import Execution, choose
from fp3o.training.keeping import Keep, Keeper
from fp3o.training.randomness import Draws
from fp3o.training.rollout import Collected, Collector
from fp3o.training.state import named, overwrite
from fp3o.training.update import Learner

RESTARTED = "environments restarted since the last resume"
SECONDS_BETWEEN_SAVES = 90.0  # kill -9 loses at most this much work, or one iteration


class RunResult(NamedTuple):
    """How the run of one seed ended."""

    seed: int
    folder: Path
    status: str


def train(
    plan: Plan,
    seeds: Sequence[int],
    runs_root: Path,
    scratch_root: Path,
    *,
    device: str = "auto",
    mode: str = "auto",
    threads: int = 1,
    allow_path_change: bool = False,
    callbacks: Sequence[Callback] = (),
    keep: Keep | None = None,
) -> list[RunResult]:
    """Train all seeds side by side, from the start or from the saved state.

    device, mode: the options --device and --path of `fp3o train`; threads: CPU threads of the simulators; keep: what
    to keep beside the runs' files.
    """
    torch.set_num_threads(1)
    reuse_freed_memory()
    with Interrupt() as interrupt, RunFolder(plan, seeds, runs_root, scratch_root) as folder:
        if folder.seeds:
            told = Callbacks(callbacks)
            trainer = BlockTrainer(plan, folder, choose(plan, device, mode, threads), allow_path_change, told, keep)
            try:
                trainer.go(interrupt)
            finally:
                trainer.close()
                told.end()
            folder.discard_scratch()
        results = []
        for seed in folder.requested:
            status = records.read_run(folder.output(seed) / records.RUN)["status"]
            results.append(RunResult(seed, folder.output(seed), status))
        return results


class BlockTrainer:
    """Trains the seeds of one block side by side."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        execution: Execution,
        allow_path_change: bool,
        told: Callbacks,
        keep: Keep | None = None,
    ) -> None:
        """told: who learns of every iteration and evaluation; keep: what is kept beside the runs' files."""
        self.plan, self.folder, self.settings, self.told = plan, folder, plan.settings, told
        self.seeds = folder.seeds
        self.keeper = Keeper(keep, plan)
        self.git = records.git_state()  # now, as the code is loaded now
        notes: list[str] = []
        saved = None
        if folder.resume_path.exists():
            with _start_afresh_by_deleting(folder.block):
                saved = checkpoint.load(folder.resume_path)
                checkpoint.require(saved[1], self._identity(), folder.resume_path)
            execution = self._same_execution(execution, saved[1]["path"], allow_path_change, notes)
        self.execution = execution
        cell, settings = plan.cell, plan.settings
        memory.check_environments(plan, len(self.seeds))
        self.env = make(
            cell.domain,
            cell.task,
            len(self.seeds) * settings.rollout_threads,
            threads=execution.threads,
            options=plan.options,
        )
        try:
            check_agents(plan, self.env.spec.agents)
            memory.check(plan, self.env.spec, len(self.seeds), execution.device)
        except UserError:
            self.env.close()
            raise
        owners = sharing(cell.sharing, self.env.spec.agent_types)
        self.learner = Learner.fresh(
            self.env.spec,
            owners,
            cell.algorithm,
            settings,
            self.seeds,
            device=execution.device,
            compiler=execution.compiler,
            stepper=execution.stepper,
        )
        self.collector = Collector(self.env, self.learner, settings, execution.acting, execution.policy)
        self.background = Background(self.env, 1 if told.may_stop else execution.threads, execution.policy)
        self.evaluator = Evaluator(
            cell,
            plan.options,
            self.learner.actor,
            len(self.seeds),
            settings.evaluation_episodes,
            execution.threads,
            execution.acting,
            execution.policy,
            self.background,
        )
        self.pending: Pending | None = None
        self.iteration = 0
        self.spent: dict[str, float] = {}  # Seconds of this iteration by phase.
        self.diverged: dict[int, dict[str, Any]] = {}
        self.volatile: dict[str, Any] = {
            "seconds": dict.fromkeys((*PHASES, "total"), 0.0),
            "resumes": 0,
            "memory_mib": 0.0,
            "peak_gpu_mib": None,
            "started": now(),
            "notes": notes,
        }
        WORK.tell = told.compiling
        if execution.mode == "graph":
            compile_beside(self.env, cell.domain, cell.task)
            self.learner.rehearse(self.collector.blank(), Draws(self.seeds, 0, self.learner.device))
        if saved is None:
            self._open_logs({}, {})
            self.env.reset(self._slot_seeds(0))
        else:
            self._restore(*saved)

    # Training --------------------------------------------------------------------------------------------------------

    def go(self, interrupt: Interrupt) -> None:
        """Train to the end, then publish every seed's run."""
        settings, started, saved_at = self.settings, time.monotonic(), time.monotonic()
        steps_each = settings.rollout_length * settings.rollout_threads
        begun = self.volatile["seconds"]["total"]
        self.told.begin(self.iteration * steps_each)
        resumed = f"; goes on after iteration {self.iteration}" if self.iteration else ""
        self.told.say(f"updates {self.execution.mode} on {self.execution.device}: {self.execution.reason}{resumed}")
        while self.iteration < self.plan.iterations and len(self.diverged) < len(self.seeds):
            self.spent = dict.fromkeys(PHASES, 0.0)
            with self._timed("rollout"):
                collected = self.collector.collect(self.seeds, self.iteration)
            with self._timed("update"):
                draws = Draws(self.seeds, self.iteration, self.learner.device)
                numbers = {k: v.tolist() for k, v in self.learner.update(collected.rollout, draws).items()}
            self._record(collected, numbers, steps_each)
            if self.plan.evaluates_after(self.iteration):
                with self._timed("evaluation"):
                    self._evaluate((self.iteration + 1) * steps_each)
            if self.pending is not None and self.pending.played.done():
                self._take_in()
            self.told.timed(self.iteration, self.spent)
            self.iteration += 1
            done = self.iteration * steps_each
            for place, seed in enumerate(self.seeds):
                if seed not in self.diverged:
                    self.keeper.iterated(seed, self.iteration, done, partial(self._policy, place))
            interrupt.hold()  # From now on there is something to save.
            self.told.advance(done)
            stop = self.told.stop and self.iteration < self.plan.iterations
            self.volatile["seconds"]["total"] = begun + time.monotonic() - started
            if interrupt or stop or time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                self._save()
                saved_at = time.monotonic()
                where = f"stopped after iteration {self.iteration} of {self.plan.iterations}"
                interrupt.raise_if_set(f"{where}; the same command resumes it")
                if stop:
                    raise Stopped(f"{where} by a callback; the same call resumes it")
        with self._timed("evaluation"):
            self._take_in()
            self._final()
        self._save()
        self.keeper.finished(self.seeds, self.folder.resume_path)
        self._publish()

    def _record(self, collected: Collected, numbers: dict[str, list[float]], steps_each: int) -> None:
        """Append a row to each seed's iterations.csv; a replica with a number that is not finite is marked diverged."""
        running = self.learner.stepper.running.tolist()
        for replica, seed in enumerate(self.seeds):
            if seed in self.diverged:
                continue
            row: dict[str, Value] = {"iteration": self.iteration, "env_steps": (self.iteration + 1) * steps_each}
            returns = [episode.total_return for episode in collected.episodes[replica]]
            row |= {"episodes": len(returns), "train_return": float(np.mean(returns)) if returns else None}
            row |= {name: values[replica] for name, values in numbers.items()}
            self.iterations[seed].append([row])
            self.told.iteration(seed, row)
            quantity = collected.broken.get(replica)
            if quantity is None and not running[replica]:
                bad = (name for name, values in numbers.items() if not np.isfinite(values[replica]))
                quantity = next(bad, "gradient norm")
            if quantity is not None:
                self.diverged[seed] = {"iteration": self.iteration, "quantity": quantity}
                self.learner.stepper.running[replica] = False

    def _evaluate(self, env_steps: int) -> None:
        """Evaluate the policies as they are now, perhaps while training goes on; `_take_in` records the result."""
        self._take_in()
        policies = [self._policy(place) for place in range(len(self.seeds))]
        trunks, heads = (torch.stack([p[name] for p in policies]) for name in ("actor.trunk", "actor.head"))
        play = partial(self.evaluator.run, trunks, heads, self.seeds, "evaluation", self.iteration)
        rehearse = partial(self.evaluator.rehearse, trunks, heads, self.seeds)
        evaluated = {s: p for s, p in zip(self.seeds, policies, strict=True) if s not in self.diverged}
        self.pending = Pending(self.iteration, env_steps, evaluated, self.background.start(play, rehearse))
        self.told.evaluating()

    def _take_in(self) -> None:
        """Record the evaluation that was started last; waits for it."""
        if self.pending is None:
            return
        (iteration, env_steps, policies, played), self.pending = self.pending, None
        told: dict[int, list[dict[str, Value]]] = {}
        for seed, episodes in zip(self.seeds, played.result(), strict=True):
            if seed in policies and self._finite(seed, episodes, iteration):
                told[seed] = records.evaluation_rows(env_steps, iteration, episodes)
                self.evaluations[seed].append(told[seed])
                self.keeper.evaluated(seed, told[seed], partial(policies.__getitem__, seed))
        self.told.evaluated(told)

    def _final(self) -> None:
        """Play the episodes of final.csv with the final policies, where the settings ask for it."""
        count = self.settings.final_episodes
        if not verify.has_final(asdict(self.settings)) or len(self.diverged) == len(self.seeds):
            return
        evaluator = Evaluator(
            self.plan.cell,
            self.plan.options,
            self.learner.actor,
            len(self.seeds),
            count,
            self.execution.threads,
            policy=self.execution.policy,
        )
        parameters = self.learner.stepper.parameters
        results = evaluator.run(parameters.trunk, parameters.head, self.seeds, "final", 0)
        evaluator.close()
        for seed, episodes in zip(self.seeds, results, strict=True):
            if seed not in self.diverged and self._finite(seed, episodes, self.plan.iterations - 1):
                log = CsvLog(self.folder.scratch(seed) / records.FINAL, records.FINAL_COLUMNS)
                log.append(records.final_rows(episodes))
                log.flush()
                log.close()

    def _finite(self, seed: int, episodes: Sequence[Episode], iteration: int) -> bool:
        """Whether all returns are finite; otherwise the seed is marked diverged."""
        if all(np.isfinite(episode.total_return) for episode in episodes):
            return True
        self.diverged[seed] = {"iteration": iteration, "quantity": "evaluation"}
        self.learner.stepper.running[self.seeds.index(seed)] = False
        return False

    # Saving and resuming ---------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {"cell": self.plan.cell.id, "digest": self.plan.digest, "seeds": list(self.seeds)}

    def _save(self) -> None:
        """Write the resume file atomically, after forcing the CSV files to disk."""
        self._take_in()
        self._measure()
        tensors: dict[str, Any] = dict(named(self.learner.stepper.state))
        tensors |= {f"collector.{k}": v for k, v in self.collector.state_dict().items()}
        if self.env.spec.exact_resume:
            tensors |= {f"environment.{k}": v for k, v in self.env.state_dict().items()}
        offsets = {str(s): [self.iterations[s].flush(), self.evaluations[s].flush()] for s in self.seeds}
        checksums = {str(s): [self.iterations[s].checksum, self.evaluations[s].checksum] for s in self.seeds}
        metadata = self._identity() | {
            "iteration": self.iteration,
            "offsets": offsets,
            "checksums": checksums,
            "diverged": {str(seed): where for seed, where in self.diverged.items()},
            "path": asdict(self.execution),
            "git": self.git,
            "volatile": self.volatile,
        }
        checkpoint.save(self.folder.resume_path, tensors, metadata)

    def _measure(self) -> None:
        """Update peak memory and the note on restarted environments in `volatile`."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.volatile["memory_mib"] = max(self.volatile["memory_mib"], round(peak, 1))
        if self.execution.device == "cuda":
            gpu = round(torch.cuda.max_memory_allocated() / 2**20, 1)
            self.volatile["peak_gpu_mib"] = max(self.volatile["peak_gpu_mib"] or 0.0, gpu)
            # All that is taken of the GPU: of this process, context included, if it is alone there.
            free, total = torch.cuda.mem_get_info()
            taken = round((total - free) / 2**20, 1)
            self.volatile["process_gpu_mib"] = max(self.volatile.get("process_gpu_mib", 0.0), taken)
        if restarts := getattr(self.env, "restarts", 0):
            others = [note for note in self.volatile["notes"] if not note.endswith(RESTARTED)]
            self.volatile["notes"] = [*others, f"{restarts} {RESTARTED}"]

    def _restore(self, tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.iteration = metadata["iteration"]
        self.diverged = {int(seed): where for seed, where in metadata["diverged"].items()}
        notes = self.volatile["notes"]
        self.volatile |= metadata["volatile"]
        self.volatile["resumes"] += 1
        before = metadata.get("git")
        if before is not None and before != self.git:
            name = before["commit"] + ("+" if before["dirty"] else "")
            notes.append(f"code changed at a resume: commit {name} up to iteration {self.iteration}")
        self.volatile["notes"] = self.volatile["notes"] + notes
        overwrite(self.learner.stepper.state, tensors)
        parts = {
            prefix: {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            for prefix in ("collector.", "environment.")
        }
        self.collector.load_state_dict(parts["collector."])
        if self.env.spec.exact_resume:
            self.env.load_state_dict(parts["environment."])
        else:
            # The simulator cannot save its state: start new episodes and reset the GRU states.
            self.env.reset(self._slot_seeds(self.iteration))
            self.collector.restart()
        with _start_afresh_by_deleting(self.folder.block):
            self._open_logs(metadata["offsets"], metadata.get("checksums", {}))

    def _open_logs(self, offsets: dict[str, list[int]], checksums: dict[str, list[str]]) -> None:
        """Start new CSV files or (with offsets) continue those of the saved state; older states have no checksums."""

        def log(seed: int, name: str, place: int, columns: Sequence[str] | None) -> CsvLog:
            where, key = self.folder.scratch(seed) / name, str(seed)
            if not offsets:
                return CsvLog(where, columns)
            checksum = checksums[key][place] if key in checksums else None
            return CsvLog.resume(where, offsets[key][place], columns, checksum)

        self.iterations = {s: log(s, records.ITERATIONS, 0, None) for s in self.seeds}
        self.evaluations = {s: log(s, records.EVALUATIONS, 1, records.EVALUATION_COLUMNS) for s in self.seeds}

    def _same_execution(self, chosen: Execution, saved: dict[str, Any], allow: bool, notes: list[str]) -> Execution:
        """The execution that the run began with; UserError if it is not possible here, unless a change is allowed.

        Another type of processor may change the last bits too, but would stop jobs that a cluster moves: it is noted.
        """
        begun = Execution(**saved)
        if begun.possible:
            if begun.processor not in ("", chosen.processor):
                notes.append(f"processor changed at a resume: {begun.processor} before")
            return replace(begun, threads=chosen.threads, processor=chosen.processor)
        acting = "" if begun.acts_on == "cpu" else f", acting on {begun.acts_on},"
        was = f"{begun.mode} on {begun.device}{acting} with torch {begun.torch}"
        if not allow:
            raise UserError(
                f"{self.plan.cell.id} began {was}, which is not to be had here; "
                "--allow-path-change goes on without bit-exactness"
            )
        notes.append(f"path changed at a resume: {was} before")
        return chosen

    def _slot_seeds(self, iteration: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        count = self.settings.rollout_threads
        return np.concatenate([slot_seeds(seed, "training", count, iteration) for seed in self.seeds])

    # Publishing ------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        for place, seed in enumerate(self.seeds):
            scratch = self.folder.scratch(seed)
            tensors = self._policy(place)
            identity = {"cell": self.plan.cell.id, "digest": self.plan.digest, "seed": seed}
            checkpoint.save(scratch / records.CHECKPOINT, tensors, identity)
            self.folder.publish(seed, self._document(seed, scratch))

    def _policy(self, place: int) -> dict[str, torch.Tensor]:
        """The tensors of checkpoint.safetensors, copied: actor, critic and value normaliser of one replica."""
        stepper = self.learner.stepper
        trunk, head, critic = (p[place].detach().cpu().clone() for p in stepper.parameters)
        tensors = {"actor.trunk": trunk, "actor.head": head, "critic": critic}
        return tensors | {f"normaliser.{k}": v[place].cpu().clone() for k, v in stepper.normaliser._asdict().items()}

    def _document(self, seed: int, scratch: Path) -> dict[str, Any]:
        where = self.diverged.get(seed)
        configuration = self.plan.configuration()
        return {
            "schema": records.SCHEMA_VERSION,
            "cell": self.plan.cell.id,
            "digest": self.plan.digest,
            "seed": seed,
            "status": "finished" if where is None else "diverged",
            **({} if where is None else {"diverged": where}),
            "settings": configuration["settings"],
            "options": configuration["options"],
            **({"plugins": configuration["plugins"]} if "plugins" in configuration else {}),
            "protocol": self.plan.protocol,
            "revision": self.plan.revision,
            "deviations": [str(change) for change in self.plan.deviations],
            "environment": self.env.identity(),
            "versions": records.installed_versions(),
            "git": self.git,
            "path": self.execution.record(),
            "exact_resume": self.env.spec.exact_resume,
            "score": records.score_summary(
                scratch / records.EVALUATIONS, scratch / records.FINAL if where is None else None
            ),
            "volatile": {
                **self.volatile,
                "host": machine_kind(),
                "ended": now(),
                "stacked_seeds": list(self.seeds),
            },
        }

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        seconds = time.monotonic() - begun
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        self.volatile["seconds"][phase] += seconds

    def close(self) -> None:
        for close in self._closers():
            close()

    def _closers(self) -> list[Callable[[], None]]:
        logs = [*self.iterations.values(), *self.evaluations.values()]
        return [self.background.close, *(log.close for log in logs), self.evaluator.close, self.env.close]


@contextmanager
def _start_afresh_by_deleting(folder: Path) -> Iterator[None]:
    """Add to a UserError how to start without the saved state, which cannot be used."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{error}; delete {folder} to start afresh") from error


def machine_kind() -> str:
    """`host` of run.json: cores, architecture and GPU, without the machine's name."""
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{os.cpu_count()} cores {platform.machine()}{gpu}"
