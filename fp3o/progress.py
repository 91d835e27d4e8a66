"""Progress of long work: on a terminal one line that is redrawn, in a log file a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from fp3o.envs.interface import BatchEnv

_SECONDS_BETWEEN_LINES = 30.0  # in a log file, at least
_LEAST_BAR, _MOST_BAR = 8, 40  # width in columns


class Bar:
    """A progress bar: how much of a total is done, rate, time left. Use it in a `with` statement.

    The rate counts from `begin`, without what an earlier, interrupted process did.
    """

    def __init__(
        self,
        label: str,
        total: int,
        unit: str = "steps",
        *,
        at_most: bool = False,
        at_once: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """unit: in the plural. at_most: the work may end before the total, so the time left is an upper bound.

        at_once: a log file gets a line at the first `advance` and at the end; otherwise none in the first 30 s.
        """
        self.label, self.total, self.unit = label, total, unit
        self.note = ""
        """Further text, at the end of the line."""
        self.busy: Callable[[], str] | None = None
        """Returns a text that is shown instead of the rate, while something goes on that is not counted (compiling)."""
        self._eta = "ETA at most" if at_most else "ETA"
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live: Live | None = None
        self._done = 0
        self._begun = (0.0, 0)  # time in seconds, and how much was done then
        self._at_once = at_once
        self._last_line = -_SECONDS_BETWEEN_LINES

    def __enter__(self) -> Self:
        self._begun = (self._clock(), self._done)
        if not self._at_once:
            self._last_line = self._clock()
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            # The label has a line of its own: with it, a bar would not fit into 80 columns.
            self._console = Console(file=self._stream)
            self._console.print(self.label, markup=False, highlight=False, soft_wrap=True)
            self._live = Live(get_renderable=self._drawn, console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin(self, done: int) -> None:
        """Measure the rate from now on; `done`: how much is done already."""
        self._done = done
        self._begun = (self._clock(), done)

    def advance(self, done: int) -> None:
        """Set how much is done (in all, not since the last call)."""
        self._done = done
        if self._live is None and (self.due or (self._at_once and done >= self.total)):
            self._at_once, self._last_line = True, self._clock()
            share = f"{done:,} of {self.total:,} {self.unit} ({self._percent()})"
            parts = (share, self._rate_text(), self._eta_text(), self.note)
            self.say(f"{self.label}: {', '.join(part for part in parts if part)}")

    def refresh(self) -> None:
        """Show now what `busy` returns; in a log file at most every 30 seconds."""
        if self._live is not None:
            self._live.refresh()
        elif self.busy is not None and self.due:
            self._last_line = self._clock()
            self.say(f"{self.label}: {self.busy()}")

    @property
    def due(self) -> bool:
        """Whether the last line in a log file is old enough for another."""
        return self._clock() - self._last_line >= _SECONDS_BETWEEN_LINES

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._live is not None:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self._stream, flush=True)

    def line(self, width: int) -> tuple[str, str, str]:
        """The line on a terminal, in three parts: done part of the bar, open part, text. Fits into `width` columns.

        Percentage and time left are always there; the rate and the note where they fit.
        """
        eta = self._eta_text() or f"{self._eta} –"
        rate = self._rate_text() if self.busy is None else self.busy()
        wordings = [[self._percent(), rate, eta, self.note], [self._percent(), rate, eta], [self._percent(), eta]]
        texts = ["  ".join(part for part in parts if part) for parts in wordings]
        text = next((text for text in texts if len(text) + _LEAST_BAR + 1 <= width), texts[-1])
        room = max(0, min(_MOST_BAR, width - len(text) - 1))
        full = round(room * min(1.0, self._done / self.total)) if self.total else room
        return "━" * full, "─" * (room - full), text

    def _drawn(self) -> Text:
        from rich.text import Text

        done, left, text = self.line(self._console.width - 1)
        return Text.assemble((done, "green"), (left, "dim"), " ", text, no_wrap=True, overflow="crop")

    def _percent(self) -> str:
        return f"{100 * self._done / self.total if self.total else 100:.0f} %"

    def _rate(self) -> float | None:
        seconds = self._clock() - self._begun[0]
        done = self._done - self._begun[1]
        return done / seconds if seconds > 0 and done > 0 else None

    def _rate_text(self) -> str:
        rate = self._rate()
        if rate is None:
            return ""
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"

    def _eta_text(self) -> str:
        rate = self._rate()
        return "" if rate is None else f"{self._eta} {duration((self.total - self._done) / rate)}"


class Rounds:
    """A `watch` for `Evaluator.run`: advances a bar by one for every step that all environments take together."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._count = bar, 0

    def __call__(self, env: BatchEnv, actions: object) -> None:
        self._bar.total = max(env.spec.episode_limit, self._count)  # more if a lost episode is played again
        if self._count:
            self._bar.advance(self._count)
        self._count += 1


T = TypeVar("T")


def track(items: Collection[T], label: str, unit: str) -> Iterator[T]:
    """The items one after the other, with a bar that counts them."""
    return counted(items, len(items), label, unit)


def counted(items: Iterable[T], total: int, label: str, unit: str) -> Iterator[T]:
    """As `track`, for items without a len(); total: how many there are."""
    with Bar(label, total, unit) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.advance(done)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
