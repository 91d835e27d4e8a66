"""Progress of a run, as a callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self, TextIO

from fp3o.config import Plan, seeds_text
from fp3o.config.domains import DOMAINS, Metric
from fp3o.progress import Bar
from fp3o.training.callbacks import SCORE_COLUMNS, Callback, Record, episode_means

# As the score at the end is worded.
_WORDS: dict[Metric, str] = {"return": "return", "return_per_agent": "return per agent", "win_rate": "win rate"}

MOST_AGENTS = 4  # whose returns are shown


class Progress(Callback):
    """Progress of one seed block, counted in environment steps per seed. Use as a context."""

    def __init__(
        self,
        label: str,
        total_steps: int,
        metric: Metric = "return",
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """metric: of evaluations, what the domain's scores are computed from."""
        self._bar = Bar(label, total_steps, at_once=True, stream=stream, clock=clock)
        self._clock = clock
        self._metric: Metric = metric
        self._compiling: tuple[float, int] | None = None  # since when, and the number of the program
        # The last evaluation: its step, scores by seed and column.
        self._scores: tuple[object, dict[int, dict[str, float]]] = (None, {})

    @classmethod
    def of(cls, plan: Plan, seeds: Sequence[int]) -> Self:
        """For the seeds of a plan; counts whole iterations, which is what a run really does of total_steps."""
        steps = plan.iterations * plan.settings.rollout_length * plan.settings.rollout_threads
        label = f"{plan.cell.id} {plan.digest} seeds {seeds_text(seeds)}"
        return cls(label, steps, DOMAINS[plan.cell.domain].scoring.metric)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._bar.__exit__(kind, error, trace)

    def begin(self, env_steps: int) -> None:
        """Set the number of steps per seed that a resumed run starts from."""
        self._bar.begin(env_steps)

    def compiling(self, number: int) -> None:
        """Show that the program with this number is being compiled; rates do not count the iteration that needs it."""
        since = self._clock() if self._compiling is None else self._compiling[0]
        self._compiling = since, number
        self._bar.busy = self._compiling_text
        self._bar.refresh()

    def advance(self, env_steps: int) -> None:
        """Set the number of steps per seed."""
        if self._compiling is not None:
            self._compiling = self._bar.busy = None
            self._bar.begin(env_steps)
        self._bar.advance(env_steps)

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        """The mean over the seeds evaluated at the same step is shown with the next step forward."""
        steps, means = records[0]["env_steps"], episode_means(records)
        name, column = _WORDS[self._metric], SCORE_COLUMNS[self._metric]
        if column not in means:  # a game of wins that was neither won nor lost
            return
        # Returns of single agents, where they differ, say more than their sum.
        agents = [other for other in means if other.startswith("return/")][:MOST_AGENTS]
        scores = self._scores[1] if self._scores[0] == steps else {}
        scores[seed] = {other: means[other] for other in agents or (column,)}
        self._scores = steps, scores
        shown = []
        for part in agents or (column,):
            mean = sum(score[part] for score in scores.values()) / len(scores)
            value = f"{100 * mean:.1f} %" if column == "won" else f"{mean:.5g}"
            shown.append(f"{part.partition('/')[2]} {value}".strip())
        self._bar.note = f"{name} {', '.join(shown)} at {steps:,}"

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.say(text)

    def _compiling_text(self) -> str:
        assert self._compiling is not None
        since, number = self._compiling
        return f"compiling (program {number}), {self._clock() - since:.0f} s"
