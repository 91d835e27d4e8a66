"""A worker process, which runs some of the environments: `python -m fp3o.envs.pettingzoo.worker SOCKET MEMORY`.

SOCKET and MEMORY are inherited file descriptors. A program of its own (not multiprocessing), so that the caller's main
module is not imported again. It ends when its socket is closed or its parent is gone.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.config.metrics import parse_metrics
from fp3o.envs.interface import episode_generator
from fp3o.envs.pettingzoo.child import end_own_group, leave_with_parent
from fp3o.envs.pettingzoo.factory import build, load_factory, load_module, module_digest
from fp3o.envs.pettingzoo.memory import SharedArrays, attach
from fp3o.envs.pettingzoo.metrics import Column, EpisodeNumbers, columns_of
from fp3o.envs.pettingzoo.spaces import Description, Translator, Unfit, check_rewards, checked_numbers, describe
from fp3o.registry import failure


def episode_seed(slot_seed: int, episode: int) -> int:
    """The seed for the environment's reset(): 31 bits, because some environments fail with more."""
    return int(episode_generator(slot_seed, episode).integers(2**31 - 1))


class Slot:
    """One environment and its rows of the shared arrays."""

    def __init__(
        self,
        number: int,
        factory: Callable[[], Any],
        description: Description,
        shared: SharedArrays,
        columns: Sequence[Column],
    ) -> None:
        self._number = number
        self._numbers = EpisodeNumbers(columns)
        self._factory = factory
        self._description = description
        self._shared = shared
        self._env = build(factory)
        self._translator = Translator(self._env, description)
        self._index = {agent: position for position, agent in enumerate(description.agents)}

    def begin(self) -> None:
        """Start the episode whose number is in the shared arrays."""
        shared, n = self._shared, self._number
        seed = episode_seed(int(shared.seed[n]), int(shared.episode[n]))
        observations, infos = self._env.reset(seed=seed)
        shared.length[n] = 0
        self._numbers.begin()
        self._write(observations, infos, list(self._env.agents))

    def step(self, limit: int, auto_reset: bool) -> None:
        shared, n = self._shared, self._number
        acting = [a for a in self._description.agents if shared.now.alive[n, self._index[a]]]
        actions = {a: self._translator.action(self._index[a], shared.action[n, self._index[a]]) for a in acting}
        observations, rewards, terminations, truncations, infos = self._env.step(actions)
        check_rewards(rewards, self._description.agents)
        self._numbers.add(rewards, infos)
        shared.reward[n] = 0.0
        for agent, reward in rewards.items():
            shared.reward[n, self._index[agent]] = reward
        shared.length[n] += 1
        left = [a for a in acting if not (terminations.get(a, False) or truncations.get(a, False))]
        # An episode ends when no agent is left; it is truncated if any of the last agents was.
        shared.truncated[n] = (not left and any(truncations.get(a, False) for a in acting)) or (
            bool(left) and shared.length[n] >= limit
        )
        shared.terminated[n] = not left and not shared.truncated[n]
        self._write(observations, infos, left)
        if shared.terminated[n] or shared.truncated[n]:
            shared.keep_final(n)
            shared.metrics[n] = self._numbers.values()
            if auto_reset:
                shared.episode[n] += 1
                self.begin()
            else:
                shared.running[n] = False

    def fail(self) -> None:
        """After an error: the episode is lost (truncated); build a new environment and start the next episode.

        The last observations are still in the shared arrays and become the final ones.
        """
        self._shared.lose_episode(self._number)
        self.close()
        self._env = build(self._factory)
        self.begin()

    def close(self) -> None:
        # A broken environment may fail even here, which does not matter any more.
        try:
            self._env.close()
        except Exception:
            return

    def _write(self, observations: dict[str, Any], infos: dict[str, Any], alive: list[str]) -> None:
        """Write what agents see into the shared arrays, after all of it has been checked."""
        now, n, translator = self._shared.now, self._number, self._translator
        strangers = set(alive) - set(self._index)
        if strangers:
            raise Unfit(f"agents appear that are not in possible_agents: {', '.join(sorted(map(str, strangers)))}")
        unseen = [agent for agent in alive if agent not in observations]
        if unseen:
            raise Unfit(f"no observation of agents that still take part: {', '.join(unseen)}")
        seen = {a: translator.observation(i, observations[a]) for a, i in self._index.items() if a in observations}
        state = self._state(alive)
        for agent, position in self._index.items():
            row = now.observation[n, position]
            now.alive[n, position] = agent in alive
            row[:] = 0.0  # also for agents that have left
            if agent in seen:
                row[: len(seen[agent])] = seen[agent]
            if agent not in alive:
                now.available[n, position] = translator.only_first
                continue
            now.available[n, position] = translator.legal(position, observations.get(agent), infos.get(agent))
        if not self._description.state:
            sizes = self._description.observations
            now.state[n] = np.concatenate([now.observation[n, a, :size] for a, size in enumerate(sizes)])
        elif state is not None:
            now.state[n] = state

    def _state(self, alive: list[str]) -> NDArray[np.float32] | None:
        """The environment's own state(); None if there is none now."""
        if not self._description.state:
            return None
        try:
            state = self._env.state()
        except Exception:
            # Some environments have no state once all agents have left; the last one is kept then.
            if alive:
                raise
            return None
        return checked_numbers(state, self._description.state, "state()", "after the first reset it had")


class WorkerSlots:
    """The slots of this worker, and the commands it executes on them."""

    def __init__(
        self, order: dict[str, Any], factory: Callable[[], Any], description: Description, memory: int
    ) -> None:
        for name in order["metric_modules"]:
            load_module(name)
        columns = columns_of(parse_metrics(order["metrics"]), description)
        self._shared = attach(memory, description, order["slots"], order["workers"], len(columns))
        self._limit, self._auto_reset, self._worker = order["limit"], order["auto_reset"], order["worker"]
        numbers = range(order["first"], order["last"])
        self._slots = {n: Slot(n, factory, description, self._shared, columns) for n in numbers}

    def run(self, command: str, numbers: list[int]) -> list[tuple[int, str]]:
        """Reset or step these slots; returns those that failed, with the error's text."""
        failures = []
        for n in numbers:
            self._shared.progress[self._worker, 1] = n
            try:
                if command == "reset":
                    self._slots[n].begin()
                else:
                    self._slots[n].step(self._limit, self._auto_reset)
            except Exception as error:
                failures.append((n, failure(error)))
                self._slots[n].fail()
            self._shared.progress[self._worker, 0] += 1
        return failures

    def step(self) -> list[tuple[int, str]]:
        return self.run("step", [n for n in self._slots if self._shared.running[n]])

    def close(self) -> None:
        for slot in self._slots.values():
            slot.close()


def serve(pipe: Connection, memory: int) -> None:
    """Describe the environment, build it for every slot, then execute commands until the pipe is closed."""
    hello = json.loads(pipe.recv_bytes())
    sys.path[:] = hello["path"]
    try:
        factory = load_factory(hello["env"], hello["arguments"])
        env = build(factory)
        description = describe(env)
        env.close()
        reply = {"description": asdict(description), "source": module_digest(hello["env"])}
        pipe.send_bytes(json.dumps(reply).encode())
        slots = WorkerSlots(json.loads(pipe.recv_bytes()), factory, description, memory)
    except Exception as error:
        pipe.send_bytes(json.dumps({"unfit": failure(error)}).encode())
        return
    pipe.send_bytes(b"[]")
    while True:
        command = pipe.recv_bytes()
        if command == b"close":
            slots.close()
            return
        failures = slots.step() if command == b"step" else slots.run("reset", json.loads(command))
        pipe.send_bytes(json.dumps(failures).encode())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    leave_with_parent()
    try:
        serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
    except (EOFError, ConnectionError):
        end_own_group()  # the parent has closed the pipe


if __name__ == "__main__":
    main()
