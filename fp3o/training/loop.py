"""The training loop of a seed block: collect, update, evaluate, record, save.

A resumed run equals an uninterrupted one bit for bit, given the same execution (fp3o/execution/choice.py) and type of
processor. What it writes, and when that counts as a run, is in fp3o/training/block_files.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fp3o.config import Plan, check_agents
from fp3o.envs import make
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.envs.native.ahead import compile_in_background
from fp3o.errors import UserError
from fp3o.execution import driver
from fp3o.execution.allocator import no_garbage_collection, reuse_freed_memory
from fp3o.execution.choice import Execution, PairedStepper, choose
from fp3o.execution.program_cache import WORK, cache_folder
from fp3o.learner.randomness import Draws
from fp3o.learner.state import named, overwrite
from fp3o.learner.step import Compiler, Stepper
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing
from fp3o.rollout.collector import Collected, Collector
from fp3o.rollout.evaluation import Background, Evaluator, Pending
from fp3o.runs import records, verify
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import Interrupt, Stopped
from fp3o.runs.records import Value
from fp3o.training import memory
from fp3o.training.block_files import BlockFiles, Saved
from fp3o.training.callbacks import PHASES, Callback, Callbacks
from fp3o.training.callbacks.checkpoints import Keep, Keeper

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

    device, mode: the options --device and --path of `fp3o train`; threads: CPU threads of the simulators and, with two
    or more, of eager updates; keep: what to keep beside the runs' files.
    """
    torch.set_num_threads(1)
    reuse_freed_memory()
    with Interrupt() as interrupt, RunFolder(plan, seeds, runs_root, scratch_root) as folder:
        if folder.seeds:
            told = Callbacks(callbacks)
            if device != "cpu":
                driver.wake()
                cache_folder()  # of the first kernel too, or Triton would choose another
            with no_garbage_collection():
                trainer = BlockTrainer(plan, folder, choose(plan, device, mode, threads), allow_path_change, told, keep)
            try:
                with no_garbage_collection():
                    trainer.prepare()
                trainer.go(interrupt)
            finally:
                WORK.tell = None
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
        self.plan, self.settings, self.told = plan, plan.settings, told
        self.seeds = folder.seeds
        self.keeper = Keeper(keep, plan)
        self.files = BlockFiles(plan, folder, execution, allow_path_change)
        self.account = self.files.account
        self.execution = execution = self.files.execution
        cell, settings, replicas, threads = plan.cell, plan.settings, len(self.seeds), execution.threads
        memory.check_environments(plan, replicas)
        slots = replicas * settings.rollout_threads
        self.env = make(cell.domain, cell.task, slots, threads=threads, options=plan.options)
        try:
            check_agents(plan, self.env.spec.agents)
            memory.check(plan, self.env.spec, replicas, execution.device, execution.mode == "graph")
        except UserError:
            self.env.close()
            raise
        owners = sharing(cell.sharing, self.env.spec.agent_types)
        stepper = execution.stepper
        if stepper is PairedStepper and not memory.holds_both(plan, self.env.spec, replicas):
            stepper = Stepper  # the same numbers
        how = {"device": execution.device, "compiler": execution.compiler, "stepper": stepper}
        self.learner = Learner.fresh(self.env.spec, owners, cell.algorithm, settings, self.seeds, **how)
        self.collector = Collector(self.env, self.learner, settings, execution.acting, execution.policy)
        self.background = Background(self.env, 1 if told.may_stop else threads, execution.policy)
        self.evaluator = self._evaluator(settings.evaluation_episodes, execution.acting, self.background)
        self.pending: Pending | None = None
        self.iteration = 0
        self.diverged: dict[int, dict[str, Any]] = {}

    def prepare(self) -> None:
        """Compile what can be compiled before there is a rollout, then begin, or go on from the saved state."""
        WORK.tell = self.told.compiling
        if self.execution.mode == "graph":
            compile_in_background(self.env, self.plan.cell.domain, self.plan.cell.task)
            self.learner.rehearse(self.collector.blank(), Draws(self.seeds, 0, self.learner.device))
        saved = self.files.open()
        if saved is None:
            self.env.reset(self._slot_seeds())
        else:
            self._restore(saved)

    def go(self, interrupt: Interrupt) -> None:
        """Train to the end, then publish every seed's run."""
        settings, account, saved_at = self.settings, self.account, time.monotonic()
        steps_each = settings.rollout_length * settings.rollout_threads
        account.begin()
        self.told.begin(self.iteration * steps_each)
        resumed = f"; goes on after iteration {self.iteration}" if self.iteration else ""
        self.told.say(f"updates {self.execution.mode} on {self.execution.device}: {self.execution.reason}{resumed}")
        while self.iteration < self.plan.iterations and len(self.diverged) < len(self.seeds):
            account.spent = dict.fromkeys(PHASES, 0.0)
            with account.timed("rollout"), self.background.paused():
                collected = self.collector.collect(self.seeds, self.iteration)
            with account.timed("update"):
                draws = Draws(self.seeds, self.iteration, self.learner.device)
                numbers = {k: v.tolist() for k, v in self.learner.update(collected.rollout, draws).items()}
            self._record(collected, numbers, steps_each)
            if self.plan.evaluates_after(self.iteration):
                with account.timed("evaluation"):
                    self._evaluate((self.iteration + 1) * steps_each)
            if self.pending is not None and self.pending.played.done():
                self._take_in()
            self.told.timed(self.iteration, account.spent)
            self.iteration += 1
            done = self.iteration * steps_each
            for place, seed in enumerate(self.seeds):
                if seed not in self.diverged:
                    self.keeper.iterated(seed, self.iteration, done, partial(self.learner.stepper.state.policy, place))
            interrupt.hold()  # From now on there is something to save.
            self.told.advance(done)
            stop = self.told.stop and self.iteration < self.plan.iterations
            account.count()
            if interrupt or stop or time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                self._save()
                saved_at = time.monotonic()
                where = f"stopped after iteration {self.iteration} of {self.plan.iterations}"
                interrupt.raise_if_set(f"{where}; the same command resumes it")
                if stop:
                    raise Stopped(f"{where} by a callback; the same call resumes it")
        with account.timed("evaluation"):
            self._take_in()
            self._final()
        self._save()
        self.keeper.finished(self.seeds, self.files.folder.resume_path)
        self.files.publish(self.env, self.learner.stepper.state, self.diverged)

    def close(self) -> None:
        for member in (self.background, self.files, self.evaluator, self.env):
            member.close()

    # Recording -------------------------------------------------------------------------------------------------------

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
            self.files.iterations[seed].append([row])
            self.told.iteration(seed, row)
            quantity = collected.broken.get(replica)
            if quantity is None and not running[replica]:
                bad = (name for name, values in numbers.items() if not np.isfinite(values[replica]))
                quantity = next(bad, "gradient norm")
            if quantity is not None:
                self._mark_diverged(seed, self.iteration, quantity)

    def _mark_diverged(self, seed: int, iteration: int, quantity: str) -> None:
        self.diverged[seed] = {"iteration": iteration, "quantity": quantity}
        self.learner.stepper.running[self.seeds.index(seed)] = False

    # Evaluating ------------------------------------------------------------------------------------------------------

    def _evaluator(
        self, episodes: int, compiler: Compiler = lambda function: function, beside: Background | None = None
    ) -> Evaluator:
        how, actor, replicas = self.execution, self.learner.actor, len(self.seeds)
        return Evaluator(
            self.plan.cell, self.plan.options, actor, replicas, episodes, how.threads, compiler, how.policy, beside
        )

    def _evaluate(self, env_steps: int) -> None:
        """Evaluate the policies as they are now, perhaps while training goes on; `_take_in` records the result."""
        self._take_in()
        policies = [self.learner.stepper.state.policy(place) for place in range(len(self.seeds))]
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
                self.files.evaluations[seed].append(told[seed])
                self.keeper.evaluated(seed, told[seed], partial(policies.__getitem__, seed))
        self.told.evaluated(told)

    def _final(self) -> None:
        """Play the episodes of final.csv with the final policies, where the settings ask for it."""
        if not verify.has_final(asdict(self.settings)) or len(self.diverged) == len(self.seeds):
            return
        evaluator = self._evaluator(self.settings.final_episodes)
        parameters = self.learner.stepper.parameters
        results = evaluator.run(parameters.trunk, parameters.head, self.seeds, "final", 0)
        evaluator.close()
        for seed, episodes in zip(self.seeds, results, strict=True):
            if seed not in self.diverged and self._finite(seed, episodes, self.plan.iterations - 1):
                self.files.write_final(seed, episodes)

    def _finite(self, seed: int, episodes: Sequence[Episode], iteration: int) -> bool:
        """Whether all returns are finite; otherwise the seed is marked diverged."""
        finite = all(np.isfinite(episode.total_return) for episode in episodes)
        if not finite:
            self._mark_diverged(seed, iteration, "evaluation")
        return finite

    # Saving and resuming ---------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._take_in()
        self.account.measure(self.env, self.execution.device)
        tensors: dict[str, Any] = dict(named(self.learner.stepper.state))
        tensors |= {f"collector.{k}": v for k, v in self.collector.state_dict().items()}
        if self.env.spec.exact_resume:
            tensors |= {f"environment.{k}": v for k, v in self.env.state_dict().items()}
        self.files.save(Saved(tensors, self.iteration, self.diverged))

    def _restore(self, saved: Saved) -> None:
        tensors, self.iteration, self.diverged = saved
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
            self.env.reset(self._slot_seeds())
            self.collector.restart()

    def _slot_seeds(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Of the environments, for the episodes that start in this iteration."""
        count = self.settings.rollout_threads
        return np.concatenate([slot_seeds(seed, "training", count, self.iteration) for seed in self.seeds])
