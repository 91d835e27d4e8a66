"""Callbacks: they watch a run in training and may stop it. Imports neither torch nor NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fp3o.envs.domains import Metric
    from fp3o.runs.records import Value

Record: TypeAlias = Mapping[str, "Value"]
PHASES = ("rollout", "update", "evaluation")
"""The parts of an iteration that are timed."""


class Callback:
    """Watches a run: override what you need. Seeds train side by side, so each is told about in turn.

    A method that returns True stops the run after the iteration it is told about: the state is saved, and the same
    call goes on from there. After a kill, iterations since the last save are done, and told about, again.
    """

    def begin(self, env_steps: int) -> None:
        """Training begins, or goes on, at this many environment steps per seed."""

    def say(self, text: str) -> None:
        """A line about the run, such as where and how updates are computed."""

    def compiling(self, number: int) -> None:
        """The compiled program with this number is being built, which takes a while."""

    def iteration(self, seed: int, record: Record) -> bool | None:
        """A seed's row of iterations.csv, after every iteration: steps, training return, losses, KL …"""
        return None

    def evaluation(self, seed: int, records: Sequence[Record]) -> bool | None:
        """A seed's rows of evaluations.csv, after every evaluation: one per episode."""
        return None

    def advance(self, env_steps: int) -> bool | None:
        """All seeds have done an iteration and are now at this many environment steps each."""
        return None

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        """Seconds that an iteration took, by phase (see PHASES); evaluation is 0 if there was none."""

    def end(self) -> None:
        """Training has ended: finished, stopped or failed."""


class Numbers(Callback):
    """Passes on all numbers of a run: every column of iterations.csv, and the means of every evaluation."""

    def iteration(self, seed: int, record: Record) -> None:
        values = {name: value for name, value in record.items() if name not in ("iteration", "env_steps")}
        self._numbers(seed, record["env_steps"], "training", values)

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        self._numbers(seed, records[0]["env_steps"], "evaluation", episode_means(records))

    def _numbers(self, seed: int, steps: Value, group: str, values: Record) -> None:
        """The numbers of a seed at this many environment steps; group: "training" or "evaluation"."""
        raise NotImplementedError


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, members: Iterable[Callback]) -> None:
        self._members = tuple(members)
        self.stop = False
        """Whether one of them has asked to stop."""

    def begin(self, env_steps: int) -> None:
        for member in self._members:
            member.begin(env_steps)

    def say(self, text: str) -> None:
        for member in self._members:
            member.say(text)

    def compiling(self, number: int) -> None:
        for member in self._members:
            member.compiling(number)

    def iteration(self, seed: int, record: Record) -> None:
        for member in self._members:
            self.stop |= bool(member.iteration(seed, record))

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        for member in self._members:
            self.stop |= bool(member.evaluation(seed, records))

    def advance(self, env_steps: int) -> None:
        for member in self._members:
            self.stop |= bool(member.advance(env_steps))

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        for member in self._members:
            member.timed(iteration, seconds)

    def end(self) -> None:
        for member in self._members:
            member.end()


SCORE_COLUMNS: Mapping[Metric, str] = {"return": "return", "return_per_agent": "return_per_agent", "win_rate": "won"}
"""The column of evaluations.csv that a score is made of."""


def episode_means(records: Sequence[Record]) -> dict[str, float]:
    """Means over the episodes of one evaluation; "won" (the win rate) only where episodes are won or lost."""
    means = {}
    for name in ("return", "return_per_agent", "won", "length"):
        values = [float(value) for record in records if (value := record[name]) is not None]
        if values:
            means[name] = sum(values) / len(values)
    return means
