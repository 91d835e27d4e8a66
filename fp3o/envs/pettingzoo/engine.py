"""Any PettingZoo ParallelEnv as a BatchEnv: worker processes run the environments, arrays are in shared memory.

A worker that dies and an environment that raises are replaced and counted by cause; one that hangs, or loses too many
episodes, is a UserError. No failure blocks training for longer than the timeout.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
import weakref
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.config.metrics import written
from fp3o.config.options import PettingzooOptions
from fp3o.envs.checks import checked_choices, checked_reals, checked_seeds
from fp3o.envs.engine import Engine
from fp3o.envs.interface import ActionSpec, Doubles, EnvSpec, Episode, Seeds, Snapshot, Transition
from fp3o.envs.pettingzoo.child import Child
from fp3o.envs.pettingzoo.factory import located, parse_arguments, versions
from fp3o.envs.pettingzoo.memory import SharedArrays, SharedSnapshot, attach, unnamed_file
from fp3o.envs.pettingzoo.metrics import columns_of, requested
from fp3o.envs.pettingzoo.spaces import Description, Unfit
from fp3o.errors import UserError
from fp3o.machine import processors
from fp3o.registry import METRICS

# Timeout for importing a simulator and building environments, which may take longer than any step.
START_SECONDS = 120.0
# Failures of one slot in a row, without a finished episode in between, that are accepted.
PATIENCE = 3


class Worker:
    """A worker process and the pipe to it."""

    def __init__(self, number: int, slots: range, memory: int) -> None:
        self.number = number
        self.slots = slots
        ours, theirs = socket.socketpair()
        descriptors = (theirs.fileno(), memory)
        self.child = Child("fp3o.envs.pettingzoo.worker", *map(str, descriptors), descriptors=descriptors)
        theirs.close()
        self.pipe = Connection(ours.detach())

    def send(self, message: bytes) -> None:
        # A worker that has died is noticed when its reply is read.
        try:
            self.pipe.send_bytes(message)
        except OSError:
            return

    def exit_message(self) -> str:
        """How the process ended, and the last line it wrote."""
        return "closed its pipe" if self.child.wait(5.0) is None else self.child.exit_message()

    def stop(self, patience: float = 0.0) -> None:
        """End the process and those it started; `patience`: seconds it has to end by itself."""
        if patience:
            self.send(b"close")
            self.child.wait(patience)
        self.child.end()
        self.pipe.close()


def _stop_all(workers: list[Worker], memory: int, patience: float = 0.0) -> None:
    for worker in workers:
        worker.stop(patience)
    workers.clear()
    os.close(memory)


class PettingzooBatch(Engine):
    """N environments in worker processes. Their state cannot be saved: a resumed run starts new episodes."""

    domain = "pettingzoo"
    restarts = 0
    """Environments rebuilt and workers restarted so far."""

    def __init__(
        self, task: str, env: str, slots: int, auto_reset: bool, threads: int, options: PettingzooOptions
    ) -> None:
        super().__init__(task, slots, auto_reset, options)
        self.workers = min(slots, threads if threads > 1 else processors())
        """Processes among which the slots are divided."""
        self._env = env
        self._arguments = parse_arguments(options.env_args)
        self._memory = unnamed_file()
        self._workers: list[Worker] = []
        self._finalizer = weakref.finalize(self, _stop_all, self._workers, self._memory)
        self._returns = np.zeros(slots)
        self._lengths = np.zeros(slots, dtype=np.int64)
        self._running = np.zeros(slots, dtype=np.bool_)  # slots that were not frozen before the current command
        self._failures = np.zeros(slots, dtype=np.int64)
        self._ended = 0  # episodes that ended as they should
        self._lost: dict[str, tuple[str, int]] = {}  # by kind of failure: the first one in words, and how many
        edges = np.linspace(0, slots, self.workers + 1).astype(int)
        for number in range(self.workers):
            self._workers.append(Worker(number, range(edges[number], edges[number + 1]), self._memory))
        self._description, self._source = self._describe(self._workers)
        self._metrics = requested(options)
        try:
            self._columns = columns_of(self._metrics, self._description)
        except Unfit as error:
            raise self._give_up(str(error)) from None
        self._shared: SharedArrays = attach(self._memory, self._description, slots, self.workers, len(self._columns))
        self._build(self._workers)
        self.spec = self._make_spec()
        self._choices = self._make_choices()

    @property
    def name(self) -> str:
        return super().name if self._env == self.task else f"{super().name} ({self._env})"

    # --- Starting workers ---------------------------------------------------------------------------------------

    def _describe(self, workers: list[Worker]) -> tuple[Description, dict[str, str]]:
        """Tell workers which environment it is; returns its description, and the digest of its source."""
        for worker in workers:
            hello = {
                "env": located(self._env),
                "arguments": self._arguments,
                "path": sys.path,
            }
            worker.send(json.dumps(hello).encode())
        replies = [self._first_reply(worker) for worker in workers]
        descriptions = [Description.from_plain(reply["description"]) for reply in replies]
        if any(d != descriptions[0] for d in descriptions):
            raise self._give_up("its factory builds environments of different sizes")
        return descriptions[0], replies[0]["source"]

    def _build(self, workers: list[Worker]) -> None:
        """Let workers build the environments of their slots; after `_describe`."""
        order = {
            "slots": self.slots,
            "workers": self.workers,
            "limit": self.options.episode_limit,
            "auto_reset": self.auto_reset,
            "metrics": written(self._metrics),
            "metric_modules": [METRICS[metric.name].module for metric in self._metrics if not metric.over_steps],
        }
        for worker in workers:
            mine = {"worker": worker.number, "first": worker.slots.start, "last": worker.slots.stop}
            worker.send(json.dumps({**order, **mine}).encode())
        for worker in workers:
            self._first_reply(worker)

    def _first_reply(self, worker: Worker) -> Any:
        """The answer of a worker that is starting; UserError if it hangs, dies or cannot use the environment."""
        limit = max(START_SECONDS, self.options.timeout)
        if not worker.pipe.poll(limit):
            raise self._give_up(f"building and resetting it has taken more than {limit:g} s; it hangs")
        try:
            reply = json.loads(worker.pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._give_up(f"the process that builds it died, {worker.exit_message()}") from None
        if "unfit" in reply:
            raise self._give_up(reply["unfit"])
        return reply

    def _give_up(self, why: str) -> UserError:
        if self._finalizer.alive:
            self._finalizer()
        return UserError(f"{self.name}: {why}")

    def _make_spec(self) -> EnvSpec:
        described = self._description
        gaussian = described.kind == "gaussian"
        dimensions = tuple(c[0] for c in described.choices)
        uneven = gaussian and len(set(dimensions)) > 1
        agents = len(described.agents)
        return EnvSpec(
            agents=agents,
            observation_size=max(described.observations) + agents * self.options.agent_id,
            state_size=described.joint,
            action=ActionSpec(
                described.kind,
                described.sizes,
                dimensions if uneven else None,
                None if gaussian else described.choices,
            ),
            episode_limit=self.options.episode_limit,
            agent_types=described.types,
            agent_id=self.options.agent_id,
            observation_shape=described.shape,
            state_shape=described.state_shape,
            exact_resume=False,
            metrics=tuple(column.label for column in self._columns),
        )

    def _make_choices(self) -> NDArray[np.int64]:
        """Number of choices [N, A, sub-actions]; 1 where an agent lacks a sub-action."""
        parts = len(self._description.sizes)
        table = [[c[part] if part < len(c) else 1 for part in range(parts)] for c in self._description.choices]
        return np.tile(np.array(table, dtype=np.int64), (self.slots, 1, 1))

    # --- The interface ------------------------------------------------------------------------------------------

    def reset(self, seeds: Seeds) -> Snapshot:
        self._shared.seed[:] = checked_seeds(seeds, self.slots)
        self._shared.episode[:] = 0
        self._start_episodes()
        return self.snapshot()

    def _start_episodes(self) -> None:
        self._shared.running[:] = True
        self._shared.terminated[:] = False
        self._shared.truncated[:] = False
        self._running[:] = True
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._started = True
        for worker in self._workers:
            worker.send(json.dumps(list(worker.slots)).encode())
        self._collect(self._workers)

    def step(self, actions: NDArray[Any]) -> Transition:
        self._require_reset()
        shared = self._shared
        shared.action[:] = self._checked(actions)
        self._running = running = shared.running.copy()
        # Frozen slots: no worker writes these.
        shared.reward[~running] = 0.0
        shared.terminated[~running] = False
        shared.truncated[~running] = False
        at_work = [worker for worker in self._workers if running[worker.slots.start : worker.slots.stop].any()]
        for worker in at_work:
            worker.send(b"step")
        lost = self._collect(at_work)
        reward, score = self._rewards()
        self._returns += score
        self._lengths += running
        over = shared.terminated | shared.truncated
        ended = [slot for slot in np.flatnonzero(running & over).tolist() if slot not in lost]
        episodes = [self._episode(slot) for slot in ended]
        self._failures[ended] = 0
        self._ended += len(ended)
        for slot in (*ended, *lost):
            self._returns[slot] = 0.0
            self._lengths[slot] = 0
        final = self._seen(shared.final) if over.any() else None
        return Transition(self.snapshot(), reward, shared.terminated.copy(), shared.truncated.copy(), final, episodes)

    def _checked(self, actions: NDArray[Any]) -> NDArray[Any]:
        spec = self.spec
        if spec.action.kind == "gaussian":
            return checked_reals(actions, spec.agents, spec.action.sizes[0], self.slots)
        chosen = checked_choices(actions, self._choices)
        starts = np.concatenate([[0], np.cumsum(spec.action.sizes)[:-1]])
        legal = np.take_along_axis(self._shared.now.available, chosen + starts, axis=2)
        legal[~self._shared.running] = True
        if not legal.all():
            slot, agent, part = (int(i) for i in np.argwhere(~legal)[0])
            raise UserError(
                f"{self.name}: action {int(chosen[slot, agent, part])} of {self._description.agents[agent]} "
                f"in environment {slot} is not legal now; allowed: see its action mask"
            )
        return chosen

    def _rewards(self) -> tuple[Doubles, Doubles]:
        """Rewards that agents are trained on [N, A], and the part of the episode's return in this step [N]."""
        own = self._shared.reward.copy()
        total = own.sum(axis=1)
        if self.options.reward == "own":
            return own, total
        team = total / self.spec.agents if self.options.reward == "mean" else total
        return np.repeat(team[:, None], self.spec.agents, axis=1), team

    def _episode(self, slot: int) -> Episode:
        total = float(self._returns[slot])
        per_agent = total if self.options.reward == "mean" else total / self.spec.agents
        metrics = dict(zip(self.spec.metrics, self._shared.metrics[slot].tolist(), strict=True))
        return Episode(slot, total, per_agent, int(self._lengths[slot]), won=None, metrics=metrics)

    def _seen(self, shown: SharedSnapshot) -> Snapshot:
        agents = self.spec.agents
        observation = np.zeros((self.slots, agents, self.spec.observation_size), dtype=np.float32)
        width = shown.observation.shape[2]
        observation[:, :, :width] = shown.observation
        if self.options.agent_id:
            observation[:, :, width:] = np.eye(agents)
        available = None if self.spec.action.kind == "gaussian" else shown.available.copy()
        return Snapshot(observation, np.repeat(shown.state[:, None], agents, axis=1), shown.alive.copy(), available)

    def snapshot(self) -> Snapshot:
        return self._seen(self._shared.now)

    def _saved(self) -> dict[str, NDArray[Any]]:
        """Seeds and episode numbers: nothing more of a user-supplied environment can be saved."""
        return {"seeds": self._shared.seed, "episodes": self._shared.episode}

    def _restored(self) -> None:
        """Start the episode after the saved one in every slot."""
        self._shared.episode[:] += 1
        self._start_episodes()

    def identity(self) -> dict[str, Any]:
        return super().identity() | {
            "domain": self.domain,
            "engine": f"pettingzoo {self._env}",
            "versions": {"numpy": np.__version__, **versions(located(self._env)), **self._source},
            "agents": self.spec.agents,
            "agent_names": list(self._description.agents),
            "critic_input": "state()" if self._description.state else "all observations",
            "action_sizes": list(self.spec.action.sizes),
        }

    def close(self) -> None:
        """End all workers; harmless when repeated."""
        if self._finalizer.detach():
            _stop_all(self._workers, self._memory, patience=2.0)

    @property
    def lost_episodes(self) -> dict[str, int]:
        return dict(self._lost.values())

    # --- Answers, deaths, hangs ---------------------------------------------------------------------------------

    def _collect(self, workers: list[Worker]) -> set[int]:
        """Wait for the answers of these workers; returns the slots whose episode was lost by a failure."""
        lost: set[int] = set()
        for worker, reply in self._answers(workers):
            if reply is None:
                lost.update(self._replace(worker))
                continue
            for slot, why in json.loads(reply):
                self.restarts += 1
                self._count_failure([slot], why)
                lost.add(slot)
        return lost

    def _answers(self, workers: list[Worker]) -> list[tuple[Worker, bytes | None]]:
        """Each worker's answer, or None if it died. UserError if one makes no progress within the timeout."""
        answers: list[tuple[Worker, bytes | None]] = []
        pending: dict[Any, Worker] = {worker.pipe: worker for worker in workers}
        timeout = self.options.timeout
        seen = self._shared.progress[:, 0].copy()
        deadline = time.monotonic() + timeout
        while pending:
            ready = connection.wait(list(pending), timeout=max(0.0, deadline - time.monotonic()))
            for pipe in ready:
                worker = pending.pop(pipe)
                try:
                    answers.append((worker, worker.pipe.recv_bytes()))
                except (EOFError, OSError):
                    answers.append((worker, None))
            if ready or time.monotonic() < deadline:
                continue
            progress = self._shared.progress[:, 0].copy()
            stuck = [w for w in pending.values() if progress[w.number] == seen[w.number]]
            if stuck:
                slot = int(self._shared.progress[stuck[0].number, 1])
                raise self._give_up(f"environment {slot} has not responded for {timeout:g} s; it hangs")
            seen, deadline = progress, time.monotonic() + timeout
        return answers

    def _replace(self, worker: Worker) -> list[int]:
        """Replace a dead worker; its running episodes are lost, and other ones are started. Returns their slots."""
        words = worker.exit_message()
        worker.stop()
        self.restarts += 1
        lost = [n for n in worker.slots if self._running[n]]
        self._count_failure(lost, f"its process died, {words}")
        fresh = Worker(worker.number, worker.slots, self._memory)
        self._workers[worker.number] = fresh
        self._describe([fresh])
        self._build([fresh])
        for n in lost:
            self._shared.lose_episode(n)
            self._shared.running[n] = True
        fresh.send(json.dumps(lost).encode())
        self._collect([fresh])
        return lost

    def _count_failure(self, slots: list[int], why: str) -> None:
        kind = re.sub(r"[\d.]+", "0", why)  # failures that differ in numbers alone are of one kind
        words, count = self._lost.get(kind, (why, 0))
        self._lost[kind] = words, count + len(slots)
        lost = sum(self.lost_episodes.values())
        if lost > max(PATIENCE, self.options.lost_share * (self._ended + lost)):
            commonest = max(self.lost_episodes, key=self.lost_episodes.__getitem__)
            raise self._give_up(
                f"{lost} of {self._ended + lost} episodes were lost, most often because: {commonest}; fix the "
                f"environment, or raise lost_share = {self.options.lost_share:g}"
            )
        self._failures[slots] += 1
        worst = max(slots, key=lambda n: int(self._failures[n]))
        if self._failures[worst] > PATIENCE:
            raise self._give_up(
                f"environment {worst} failed {PATIENCE + 1} times without finishing an episode in between: {why}"
            )
