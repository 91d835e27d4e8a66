"""Starting, watching and ending the processes that run user-supplied code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO

from fp3o.errors import UserError
from fp3o.processes import command

CHILD = "FP3O_CHILD"
"""Environment variable that is set in such a process."""
# How many of the last bytes that a process writes to stderr are kept.
KEPT = 64 * 1024


class Child:
    """A module of this package run in a process of its own, which is ended together with all processes it started."""

    def __init__(
        self, module: str, *arguments: str, descriptors: Sequence[int] = (), output: IO[bytes] | None = None
    ) -> None:
        if CHILD in os.environ:  # Each process would start more of them, without end.
            raise UserError(
                "the file of an environment trains or plays when it is imported; "
                "allowed: that under `if __name__ == '__main__':`, or in another file"
            )
        self._process = subprocess.Popen(
            command(module, *arguments),
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # a process group of its own, to be ended as one
        )
        self.pid = self._process.pid
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        with stream:
            while piece := os.read(stream.fileno(), KEPT):
                self._written = (self._written + piece)[-KEPT:]

    def wait(self, seconds: float) -> int | None:
        """The exit status, or None if it still runs after that time."""
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def exit_message(self) -> str:
        """How the process ended (see `how_it_ended`); to be called after its end."""
        self._reader.join(timeout=1.0)  # a process that it started may hold the stream open
        return how_it_ended(self._process.returncode, self._written)

    def end(self) -> None:
        """Kill the process and all processes of its group, and wait for its end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; on macOS, only a zombie
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def end_own_group() -> None:
    """For a child whose parent is gone: end this process and every process that it started."""
    os.killpg(0, signal.SIGKILL)


def leave_with_parent() -> None:
    """End this process when its parent ends. By a thread: a hanging environment keeps the main thread from noticing."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        end_own_group()

    threading.Thread(target=watch, daemon=True).start()


def _environment() -> dict[str, str]:
    """Environment variables of a child: one thread, no window, no pygame banner."""
    return {
        **os.environ,
        CHILD: "1",
        "OMP_NUM_THREADS": "1",
        "PYGAME_HIDE_SUPPORT_PROMPT": "1",
        "SDL_VIDEODRIVER": os.environ.get("SDL_VIDEODRIVER", "dummy"),
    }


def how_it_ended(code: int, errors: bytes) -> str:
    """`killed by signal 11`, or `exit status 1: RuntimeError: the last line it wrote`."""
    lines = errors.decode(errors="replace").strip().splitlines()
    ended = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    return f"{ended}: {lines[-1].strip()}" if lines else ended
