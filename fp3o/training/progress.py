"""Progress of a run: a bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from fp3o.config import Plan, seeds_text
from fp3o.training.callbacks import Callback, Record, episode_means

# Of a log file.
_SECONDS_BETWEEN_LINES = 30.0


class Progress(Callback):
    """Progress of one seed block, counted in environment steps per seed. Use as a context."""

    def __init__(
        self,
        label: str,
        total_steps: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = label
        self.total_steps = total_steps
        self._stream = stream or sys.stderr
        self._clock = clock
        self._bar: RichProgress | None = None
        self._last_evaluation = ""
        self._steps = 0
        self._begun = (0.0, 0)  # time and steps at which this process started (steps > 0 in a resumed run)
        self._compiling: tuple[float, int] | None = None  # since when, and the number of the program
        self._last_line = -_SECONDS_BETWEEN_LINES
        self._scores: tuple[object, dict[int, float]] = (None, {})  # the last evaluation: its step, scores by seed

    @classmethod
    def of(cls, plan: Plan, seeds: Sequence[int]) -> Self:
        """For the seeds of a plan; counts whole iterations, which is what a run really does of total_steps."""
        steps = plan.iterations * plan.settings.rollout_length * plan.settings.rollout_threads
        return cls(f"{plan.cell.id} {plan.digest} seeds {seeds_text(seeds)}", steps)

    def __enter__(self) -> Self:
        self._begun = (self._clock(), self._steps)
        if self._stream.isatty():
            columns: list[ProgressColumn] = [
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TaskProgressColumn(),
                _RateColumn(self._rate_text),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[evaluation]}"),
            ]
            self._bar = RichProgress(*columns, console=Console(file=self._stream), speed_estimate_period=120)
            self._task = self._bar.add_task(self.label, total=self.total_steps, evaluation="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, env_steps: int) -> None:
        """Set the number of steps per seed that a resumed run starts from."""
        self._steps = env_steps
        self._begun = (self._clock(), env_steps)
        if self._bar is not None:
            self._bar.reset(self._task, completed=env_steps, total=self.total_steps)

    def compiling(self, number: int) -> None:
        """Show that the program with this number is being compiled; rates do not count the iteration that needs it."""
        since = self._clock() if self._compiling is None else self._compiling[0]
        self._compiling = since, number
        if self._bar is not None:
            self._bar.refresh()
        elif self._clock() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = self._clock()
            self.say(f"{self.label}: {self._rate_text()}")

    def advance(self, env_steps: int) -> None:
        """Set the number of steps per seed."""
        self._steps = steps = env_steps
        if self._compiling is not None:
            self._compiling = None
            self._begun = (self._clock(), steps)
            if self._bar is not None:
                self._bar.reset(self._task, completed=steps, total=self.total_steps)
        if self._bar is not None:
            self._bar.update(self._task, completed=steps, evaluation=self._last_evaluation)
        elif self._clock() - self._last_line >= _SECONDS_BETWEEN_LINES or steps >= self.total_steps:
            self._last_line = self._clock()
            left = self._seconds_left()
            parts = (
                f"{self.label}: {steps:,} of {self.total_steps:,} steps ({100 * steps / self.total_steps:.0f} %)",
                self._rate_text(),
                f"ETA {_duration(left)}" if left is not None else "",
                self._last_evaluation,
            )
            self.say(", ".join(part for part in parts if part))

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        """The mean over the seeds evaluated at the same step is shown with the next step forward."""
        steps, means = records[0]["env_steps"], episode_means(records)
        scores = self._scores[1] if self._scores[0] == steps else {}
        scores[seed] = means.get("won", means["return"])
        self._scores = steps, scores
        name = "win rate" if "won" in means else "return"
        self._last_evaluation = f"{name} {sum(scores.values()) / len(scores):.5g} at {steps:,}"

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self._stream, flush=True)

    def _rate(self) -> float | None:
        seconds = self._clock() - self._begun[0]
        steps = self._steps - self._begun[1]
        return steps / seconds if seconds > 0 and steps > 0 else None

    def _rate_text(self) -> str:
        if self._compiling is not None:
            since, number = self._compiling
            return f"compiling (program {number}), {self._clock() - since:.0f} s"
        rate = self._rate()
        return "" if rate is None else f"{rate:,.0f} steps/s"

    def _seconds_left(self) -> float | None:
        rate = self._rate()
        return None if rate is None else (self.total_steps - self._steps) / rate


class _RateColumn(ProgressColumn):
    """A column of the bar whose text is computed whenever it is drawn."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True))
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
