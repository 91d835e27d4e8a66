"""Callbacks: they watch a run in training and may stop it. Imports neither torch nor NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fp3o.config.metrics import PLACES

if TYPE_CHECKING:
    from fp3o.config.domains import Metric
    from fp3o.runs.records import Value

Record: TypeAlias = Mapping[str, "Value"]
Tensors: TypeAlias = Callable[[], Mapping[str, Any]]
PHASES = ("rollout", "update", "evaluation")
"""The parts of an iteration that are timed."""
STOPPING = ("iteration", "evaluation", "advance")
"""The methods that stop a run by returning True."""


class Callback:
    """Watches a run: override what you need. Seeds train side by side, so each is told about in turn.

    `iteration`, `evaluation` or `advance` stops the run by returning True, after the iteration it is told about: the
    state is saved, and the same call goes on from there; `finishes` ends the run instead. After a kill, iterations
    since the last save are done, and told about, again.
    """

    may_stop = False
    """Set to True if a method may return True: the run then stops after the very iteration that the method was told
    about. Otherwise evaluations may run while training goes on; what follows them is told about late, and a run that is
    stopped all the same stops as late."""

    finishes = False
    """Set to True if the run is to be finished where this callback stops it, with the status `stopped`, instead of
    waiting for the same call. `iteration` and `evaluation` then stop the seed they are told about, `advance` all."""

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
        """Seconds that an iteration took, by phase (see PHASES); evaluation is 0 if there was none. Of an evaluation
        in the background only the seconds that training waited for it."""

    def updated_policy(self, seed: int, iterations: int, env_steps: int, tensors: Tensors) -> None:
        """A seed has done so many iterations. `tensors()` copies its policy: the tensors of checkpoint.safetensors.
        Told at once, also while an evaluation is running."""

    def evaluated_policy(self, seed: int, records: Sequence[Record], tensors: Tensors) -> None:
        """An evaluation has ended; `tensors()`: the policy that was evaluated, records: as for `evaluation`."""

    def final(self, seed: int, records: Sequence[Record]) -> None:
        """A seed's rows of final.csv: the episodes of its final policy, where the settings ask for some."""

    def finished(self, seeds: Sequence[int], state: Path) -> None:
        """All seeds are done, and their runs are about to be published. state: the file of the last state."""

    def end(self) -> None:
        """Training has ended: finished, stopped or failed, perhaps before it began."""


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


class Callbacks(Callback):
    """Several callbacks as one. While an evaluation runs in the background, what comes after it is held back,
    so that they are told everything in the order of steps."""

    def __init__(self, members: Iterable[Callback]) -> None:
        self._members = tuple(members)
        self._held: list[tuple[str, tuple[Any, ...]]] | None = None
        self.may_stop = any(member.may_stop for member in self._members)
        self.stop = False
        """Whether one of them has asked to stop, until the same call goes on."""
        self.ended: dict[int | None, str] = {}
        """Seeds that one of them has finished (None: all), and its name."""

    def evaluating(self) -> None:
        """An evaluation has begun; `evaluated` follows."""
        self._held = []

    def evaluated(self, rows: Mapping[int, Sequence[Record]]) -> None:
        """The rows of every seed that was evaluated, and then all that was held back."""
        held, self._held = self._held or [], None
        for seed, records in rows.items():
            self._tell("evaluation", seed, records)
        for name, arguments in held:
            self._tell(name, *arguments)

    def _tell_in_turn(self, name: str, *arguments: Any) -> None:
        if self._held is None:
            self._tell(name, *arguments)
        else:
            self._held.append((name, arguments))

    def _tell(self, name: str, *arguments: Any) -> None:
        for member in self._members:
            answer = getattr(member, name)(*arguments)
            if name in STOPPING and answer and member.finishes:
                self.ended[None if name == "advance" else arguments[0]] = type(member).__name__
            else:
                self.stop |= name in STOPPING and bool(answer)


for _name in ("begin", "say", "compiling", "updated_policy", "evaluated_policy", "final", "finished", "end"):
    setattr(Callbacks, _name, partialmethod(Callbacks._tell, _name))
for _name in ("iteration", "advance", "timed"):
    setattr(Callbacks, _name, partialmethod(Callbacks._tell_in_turn, _name))


SCORE_COLUMNS: Mapping[Metric, str] = {"return": "return", "return_per_agent": "return_per_agent", "win_rate": "won"}
"""The column of evaluations.csv that a score is made of."""


def episode_means(records: Sequence[Record]) -> dict[str, float]:
    """Means over the episodes of one evaluation: return, return_per_agent, length, the environment's metrics, and
    "won" (the win rate) only where episodes are won or lost."""
    means = {}
    for name in dict.fromkeys(("return", "return_per_agent", "won", "length", *records[0])):
        if name in PLACES:
            continue
        values = [float(value) for record in records if (value := record[name]) is not None]
        if values:
            means[name] = sum(values) / len(values)
    return means
