"""Being asked to stop: Ctrl-C and SIGTERM, from the start of a command to its end."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupted(Exception):
    """The run was asked to stop, has saved its state and can be resumed by the same command."""

    def __init__(self, signal_number: int, message: str = "") -> None:
        super().__init__(message or "stopped; the same command resumes it")
        self.exit_code = 128 + signal_number


class StoppedEarly(KeyboardInterrupt):
    """Asked to stop where nothing new is to be saved. Not an Exception: compilers wrap those into errors of theirs."""

    def __init__(self, signal_number: int, message: str = "stopped") -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class Interrupt:
    """Ctrl-C and SIGTERM: leave at once until `hold` is called, then a flag the loop polls between iterations.

    The first signal is acknowledged at once, a second one is not held back.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._held = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in self._SIGNALS:
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def __bool__(self) -> bool:
        return self.signal_number is not None

    def hold(self) -> None:
        """From now on there is something worth saving: keep signals until the loop asks."""
        self._held = True

    def raise_if_set(self, message: str = "") -> None:
        """Leave by `Interrupted`; to be called once the state is saved."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number, message)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            self._restore()
            raise StoppedEarly(number, "stopped while starting; nothing was lost, the same command begins again")
        if self.signal_number is not None:
            self._restore()
            raise StoppedEarly(number, "stopped at once; the same command goes on from the last saved state")
        self.signal_number = number
        # Not print: the handler may have interrupted one.
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        with contextlib.suppress(OSError):
            os.write(2, f"fp3o: {name}: saving after this iteration; again to stop at once\n".encode())

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
