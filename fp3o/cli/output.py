"""Standard output and error of a command that may outlive its reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from fp3o.errors import UserError


class _Guarded:
    """A stream whose write errors are reported as its own, or ignored."""

    def __init__(self, stream: TextIO, name: str, survives: bool) -> None:
        self._stream, self._name, self._survives = stream, name, survives

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if not self._survives:
            if isinstance(error, BrokenPipeError):
                raise error
            raise UserError(f"cannot write to {self._name}: {error.strerror}") from error
        # From now on nobody reads it; what Python still holds for it goes there, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        if self._name == "stdout":
            print(f"fp3o: stdout is lost ({error.strerror}); the work goes on without it", file=sys.stderr)


@contextmanager
def guarded_output(survives: bool) -> Iterator[None]:
    """survives: output that cannot be written is dropped, and the command goes on."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, _Guarded(before[0], "stdout", survives))
    sys.stderr = cast(TextIO, _Guarded(before[1], "stderr", survives))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = before
