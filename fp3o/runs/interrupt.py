"""Stopping a run by a signal without losing work."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any, Self

ASKED = signal.SIGUSR1
"""Sent to the jobs of a sweep that is stopped (fp3o/workflow/stopping.py). Ctrl-C may have reached them already, and a
second of the other signals would stop them at once: this one never does."""


class Interrupted(Exception):
    """The run was asked to stop, has saved its state and can be resumed by the same command."""

    def __init__(self, signal_number: int, message: str = "") -> None:
        super().__init__(message or "stopped; the same command resumes it")
        self.exit_code = 128 + signal_number


class Stopped(Exception):
    """A callback asked to stop: the state is saved, and the same call resumes the run."""


class StoppedEarly(KeyboardInterrupt):
    """Stopped where there is nothing new to save. A KeyboardInterrupt, because compilers catch and wrap Exceptions."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def stopping_signals() -> list[signal.Signals]:
    """Ctrl-C, SIGTERM; SIGHUP, which a closed terminal sends, unless it is ignored (nohup); `ASKED`, unless a program
    that calls us uses it for something else."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    asked = signal.getsignal(ASKED)
    ours = asked is signal.SIG_DFL or isinstance(getattr(asked, "__self__", None), Interrupt)
    return [signal.SIGINT, signal.SIGTERM, *hung_up, *([ASKED] if ours else [])]


class Interrupt:
    """Handles the `stopping_signals` while it is entered as a context.

    Before `hold` a signal raises `StoppedEarly` at once. After it, the first signal prints a line and sets a flag that
    the training loop polls between iterations (`bool(interrupt)`); a second one raises `StoppedEarly`, unless it is
    `ASKED`. In a thread that is not the main one, which gets no signals, it does nothing.
    """

    def __init__(self, early: str = "stopped while starting; nothing was lost, the same command begins again") -> None:
        """early: what to say of a signal that comes before `hold`."""
        self.signal_number: int | None = None
        self._early = early
        self._held = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in stopping_signals() if threading.current_thread() is threading.main_thread() else ():
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._restore()

    def __bool__(self) -> bool:
        return self.signal_number is not None

    def hold(self) -> None:
        """From now on there is a state worth saving: the first signal only sets the flag."""
        self._held = True

    def raise_if_set(self, message: str = "") -> None:
        """Raise `Interrupted` if a signal came; to be called once the state is saved."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number, message)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            self._restore()
            raise StoppedEarly(number, self._early)
        if self.signal_number is not None:
            if number == ASKED:
                return
            self._restore()
            raise StoppedEarly(number, "stopped at once; the same command goes on from the last saved state")
        self.signal_number = number
        # Not print: the handler may have interrupted one.
        names = {signal.SIGINT: "Ctrl-C", ASKED: "the sweep stops"}
        name = names.get(signal.Signals(number), signal.Signals(number).name)
        again = "" if number == ASKED else "; again to stop at once"
        with contextlib.suppress(OSError):
            os.write(2, f"fp3o: {name}: saving after this iteration{again}\n".encode())

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
