"""A seed block: all that the seeds of one cell train with, side by side in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fp3o.config import Plan, check_agents
from fp3o.envs import make
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.envs.native.ahead import compile_in_background
from fp3o.errors import UserError
from fp3o.execution.background import Background
from fp3o.execution.choice import Execution
from fp3o.learner.randomness import Draws
from fp3o.learner.state import named, overwrite
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing
from fp3o.rollout.collector import Collected, Collector
from fp3o.rollout.evaluation import Evaluator
from fp3o.rollout.policy import MakePolicy
from fp3o.runs.records import Value
from fp3o.training import memory


class Saved(NamedTuple):
    """What training goes on from."""

    tensors: dict[str, Any]
    iteration: int
    diverged: dict[int, dict[str, Any]]
    stopped: dict[int, dict[str, Any]] = {}  # noqa: RUF012 (never changed)


class Pending(NamedTuple):
    """An evaluation that was started, and may still be running."""

    iteration: int
    env_steps: int
    policies: dict[int, dict[str, torch.Tensor]]
    """The tensors of each evaluated seed's checkpoint, as they were."""
    played: Future[list[list[Episode]]]


class Block:
    """Environments, learner and evaluator of the seeds of one block, and how far they have come."""

    def __init__(self, plan: Plan, seeds: Sequence[int], execution: Execution, in_step: bool) -> None:
        """in_step: evaluations are played at once, not while training goes on."""
        self.plan, self.seeds, self.execution = plan, tuple(seeds), execution
        cell, settings, replicas, threads = plan.cell, plan.settings, len(seeds), execution.threads
        self.steps_per_iteration = settings.rollout_length * settings.rollout_threads
        self.iteration = 0
        self.diverged: dict[int, dict[str, Any]] = {}
        self.stopped: dict[int, dict[str, Any]] = {}
        """Seeds that a callback has finished before the budget is spent: when, and which callback."""
        self.pending: Pending | None = None
        self.lost_in_final: Mapping[str, int] = {}
        """Episodes lost by the environments that play the final episodes, by cause."""
        self._named_failures: set[str] = set()
        memory.check_environments(plan, replicas)
        slots = replicas * settings.rollout_threads
        self.env = make(cell.domain, cell.task, slots, threads=threads, options=plan.options)
        try:
            check_agents(plan, self.env.spec.agents)
            memory.check(plan, self.env.spec, replicas, execution.device, execution.mode == "graph")
        except UserError:
            self.env.close()
            raise
        wrap = execution.steps
        if execution.step_threads > 1 and not memory.holds_both(plan, self.env.spec, replicas):
            wrap = lambda stepper: stepper  # noqa: E731 (the same numbers, one after the other)
        owners = sharing(cell.sharing, self.env.spec.agent_types)
        how = {"device": execution.device, "wrap": wrap}
        self.learner = Learner.fresh(self.env.spec, owners, cell.algorithm, settings, self.seeds, **how)
        self.collector = Collector(self.env, self.learner, settings, execution.policy, execution.replayed)
        self.background = Background(self.env, 1 if in_step else threads, execution.acts_on != "cpu")
        threads = self.background.simulator_threads(threads)
        self.evaluator = self.new_evaluator(settings.evaluation_episodes, threads, execution.policy)

    def new_evaluator(self, episodes: int, threads: int, policy: MakePolicy) -> Evaluator:
        plan, actor = self.plan, self.learner.actor
        return Evaluator(plan.cell, plan.options, actor, len(self.seeds), episodes, threads, policy)

    def begin(self, saved: Saved | None) -> None:
        """Begin, or go on from the saved state; on a GPU compile first what can be compiled without a rollout."""
        if self.execution.mode == "graph":
            compile_in_background(self.env, self.plan.cell.domain, self.plan.cell.task)
            self.learner.rehearse(self.collector.blank(), Draws(self.seeds, 0, self.learner.device))
        if saved is None:
            self.env.reset(self._slot_seeds())
        else:
            self._restore(saved)

    @property
    def env_steps(self) -> int:
        """Environment steps of each seed in the iterations done."""
        return self.iteration * self.steps_per_iteration

    @property
    def goes_on(self) -> bool:
        """Whether there are iterations left, and seeds that still learn."""
        return self.iteration < self.plan.iterations and bool(self.learning)

    @property
    def learning(self) -> list[tuple[int, int]]:
        """Place and number of every seed that has neither diverged nor been stopped."""
        return [(place, seed) for place, seed in self.sound if seed not in self.stopped]

    @property
    def sound(self) -> list[tuple[int, int]]:
        """Place and number of every seed that has not diverged."""
        return [(place, seed) for place, seed in enumerate(self.seeds) if seed not in self.diverged]

    def policy(self, place: int) -> dict[str, torch.Tensor]:
        """The tensors of a seed's checkpoint as they are now, copied."""
        return self.learner.stepper.state.policy(place)

    def rows(
        self, collected: Collected, numbers: Mapping[str, Sequence[float]]
    ) -> Iterator[tuple[int, dict[str, Value]]]:
        """Each seed's row of iterations.csv; a seed with a number that is not finite is then marked diverged."""
        running = self.learner.stepper.running.tolist()
        for place, seed in self.learning:
            returns = [episode.total_return for episode in collected.episodes[place]]
            row: dict[str, Value] = {
                "iteration": self.iteration,
                "env_steps": self.env_steps + self.steps_per_iteration,
                "episodes": len(returns),
                "train_return": float(np.mean(returns)) if returns else None,
            }
            yield seed, row | {name: values[place] for name, values in numbers.items()}
            quantity = collected.broken.get(place)
            if quantity is None and not running[place]:
                bad = (name for name, values in numbers.items() if not np.isfinite(values[place]))
                quantity = next(bad, "gradient norm")
            if quantity is not None:
                self.mark_diverged(seed, self.iteration, quantity)

    def stop(self, ended: Mapping[int | None, str]) -> None:
        """Finish seeds (None: all) after the iteration that was done last, for these callbacks: their policies stay."""
        for place, seed in self.learning:
            if seed in ended or None in ended:
                self.stopped[seed] = {"iteration": self.iteration - 1, "by": ended.get(seed) or ended[None]}
                self.learner.stepper.running[place] = False

    def mark_diverged(self, seed: int, iteration: int, quantity: str) -> None:
        self.diverged[seed] = {"iteration": iteration, "quantity": quantity}
        self.learner.stepper.running[self.seeds.index(seed)] = False

    def finite(self, seed: int, episodes: Sequence[Episode], iteration: int) -> bool:
        """Whether all returns of an evaluation are finite; otherwise the seed is marked diverged."""
        finite = all(np.isfinite(episode.total_return) for episode in episodes)
        if not finite:
            self.mark_diverged(seed, iteration, "evaluation")
        return finite

    def new_failures(self) -> Iterator[str]:
        """A line for every kind of failure of the environments that was not named yet."""
        for why in self.lost_episodes.keys() - self._named_failures:
            self._named_failures.add(why)
            yield f"an episode was lost, and its environment is built anew: {why}"

    @property
    def lost_episodes(self) -> Counter[str]:
        """Episodes of training and evaluation that failures of the environment ended, by cause."""
        parts = (self.env.lost_episodes, self.evaluator.env.lost_episodes, self.lost_in_final)
        return sum(map(Counter, parts), Counter())

    def state(self) -> Saved:
        tensors: dict[str, Any] = dict(named(self.learner.stepper.state))
        tensors |= {f"collector.{k}": v for k, v in self.collector.state_dict().items()}
        if self.env.spec.exact_resume:
            tensors |= {f"environment.{k}": v for k, v in self.env.state_dict().items()}
        return Saved(tensors, self.iteration, self.diverged, self.stopped)

    def close(self) -> None:
        for part in (self.background, self.evaluator, self.env):
            part.close()

    def _restore(self, saved: Saved) -> None:
        tensors, self.iteration, self.diverged, self.stopped = saved
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

    def _slot_seeds(self) -> NDArray[np.uint64]:
        """Of the environments, for the episodes that start in this iteration."""
        count = self.plan.settings.rollout_threads
        return np.concatenate([slot_seeds(seed, "training", count, self.iteration) for seed in self.seeds])
