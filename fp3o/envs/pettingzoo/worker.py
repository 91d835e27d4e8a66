"""The process that holds some of the environments: `python -m fp3o.envs.pettingzoo.worker SOCKET MEMORY`.

Started as a program of its own, so that the caller's main module is never run twice. It ends when its socket closes or
its parent is gone.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.interface import episode_generator
from fp3o.envs.pettingzoo.child import end_own_group, leave_with_parent
from fp3o.envs.pettingzoo.factory import build, load_factory, one_line, provenance
from fp3o.envs.pettingzoo.memory import Board, attach
from fp3o.envs.pettingzoo.spaces import Description, Translator, Unfit, check_rewards, checked_numbers, describe


def episode_seed(slot_seed: int, episode: int) -> int:
    """What the environment's reset gets: 31 bits, because some environments choke on more."""
    return int(episode_generator(slot_seed, episode).integers(2**31 - 1))


class Slot:
    """One environment and its rows of the board."""

    def __init__(self, number: int, factory: Callable[[], Any], description: Description, board: Board) -> None:
        self._number = number
        self._factory = factory
        self._description = description
        self._board = board
        self._env = build(factory)
        self._translator = Translator(self._env, description)
        self._index = {agent: position for position, agent in enumerate(description.agents)}

    def begin(self) -> None:
        """Start the episode whose number the board says."""
        board, n = self._board, self._number
        seed = episode_seed(int(board.seed[n]), int(board.episode[n]))
        observations, infos = self._env.reset(seed=seed)
        board.length[n] = 0
        self._write(observations, infos, list(self._env.agents))

    def step(self, limit: int, auto_reset: bool) -> None:
        board, n = self._board, self._number
        acting = [a for a in self._description.agents if board.now.alive[n, self._index[a]]]
        actions = {a: self._translator.action(self._index[a], board.action[n, self._index[a]]) for a in acting}
        observations, rewards, terminations, truncations, infos = self._env.step(actions)
        check_rewards(rewards, self._description.agents)
        board.reward[n] = 0.0
        for agent, reward in rewards.items():
            board.reward[n, self._index[agent]] = reward
        board.length[n] += 1
        left = [a for a in acting if not (terminations.get(a, False) or truncations.get(a, False))]
        # An episode ends when nobody is left. If a time limit took any of the last, it was the limit that ended it.
        board.truncated[n] = (not left and any(truncations.get(a, False) for a in acting)) or (
            bool(left) and board.length[n] >= limit
        )
        board.terminated[n] = not left and not board.truncated[n]
        self._write(observations, infos, left)
        if board.terminated[n] or board.truncated[n]:
            self._keep_final()
            if auto_reset:
                board.episode[n] += 1
                self.begin()
            else:
                board.running[n] = False

    def fail(self, auto_reset: bool) -> None:
        """The episode is lost: a new environment, the next episode. Agents last saw what still stands on the board."""
        board, n = self._board, self._number
        self._keep_final()
        board.reward[n] = 0.0
        board.terminated[n] = False
        board.truncated[n] = auto_reset
        board.episode[n] += 1
        self.close()
        self._env = build(self._factory)
        self.begin()

    def close(self) -> None:
        # A broken environment may fail even here; nothing of it is needed any more.
        try:
            self._env.close()
        except Exception:
            return

    def _keep_final(self) -> None:
        for name in ("observation", "state", "alive", "available"):
            getattr(self._board.final, name)[self._number] = getattr(self._board.now, name)[self._number]

    def _write(self, observations: dict[str, Any], infos: dict[str, Any], alive: list[str]) -> None:
        """Put what agents see on the board, once all of it is known to be sound."""
        now, n, translator = self._board.now, self._number, self._translator
        strangers = set(alive) - set(self._index)
        if strangers:
            raise Unfit(f"agents appear that are not in possible_agents: {', '.join(sorted(map(str, strangers)))}")
        seen = {a: translator.observation(i, observations[a]) for a, i in self._index.items() if a in observations}
        state = self._state(alive)
        for agent, position in self._index.items():
            row = now.observation[n, position]
            now.alive[n, position] = agent in alive
            row[:] = 0.0  # also of those who have left
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
        """The environment's own state(); None if it has none now."""
        if not self._description.state:
            return None
        try:
            state = self._env.state()
        except Exception:
            # Some environments have no state once everybody has left; the last one then stands.
            if alive:
                raise
            return None
        return checked_numbers(state, self._description.state, "state()", "after the first reset it had")


class Crew:
    """The slots of this worker and the commands it understands."""

    def __init__(
        self, order: dict[str, Any], factory: Callable[[], Any], description: Description, memory: int
    ) -> None:
        self._board = attach(memory, description, order["slots"], order["workers"])
        self._limit, self._auto_reset, self._worker = order["limit"], order["auto_reset"], order["worker"]
        self._slots = {n: Slot(n, factory, description, self._board) for n in range(order["first"], order["last"])}

    def obey(self, command: str, numbers: list[int]) -> list[tuple[int, str]]:
        """Reset or step these slots; returns which failed, and how."""
        failures = []
        for n in numbers:
            self._board.progress[self._worker, 1] = n
            try:
                if command == "reset":
                    self._slots[n].begin()
                else:
                    self._slots[n].step(self._limit, self._auto_reset)
            except Exception as error:
                failures.append((n, one_line(error)))
                self._slots[n].fail(self._auto_reset)
            self._board.progress[self._worker, 0] += 1
        return failures

    def step(self) -> list[tuple[int, str]]:
        return self.obey("step", [n for n in self._slots if self._board.running[n]])

    def close(self) -> None:
        for slot in self._slots.values():
            slot.close()


def serve(line: Connection, memory: int) -> None:
    """Introduce the environment, then obey until the line closes."""
    hello = json.loads(line.recv_bytes())
    sys.path[:] = hello["path"]
    try:
        factory = load_factory(hello["env"], hello["arguments"])
        env = build(factory)
        description = describe(env)
        env.close()
        code = provenance(hello["env"]) if hello["provenance"] else {}
        line.send_bytes(json.dumps({"description": description.to_plain(), "code": code}).encode())
        crew = Crew(json.loads(line.recv_bytes()), factory, description, memory)
    except Exception as error:
        line.send_bytes(json.dumps({"unfit": one_line(error)}).encode())
        return
    line.send_bytes(b"[]")
    while True:
        command = line.recv_bytes()
        if command == b"close":
            crew.close()
            return
        failures = crew.step() if command == b"step" else crew.obey("reset", json.loads(command))
        line.send_bytes(json.dumps(failures).encode())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    leave_with_parent()
    try:
        serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
    except (EOFError, ConnectionError):
        end_own_group()  # the parent has closed the line: nothing is left to do


if __name__ == "__main__":
    main()
