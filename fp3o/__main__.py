"""The `fp3o` command, and `python -m fp3o`: the same command of this interpreter."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from fp3o import __version__
from fp3o.caches import folder_for


def main() -> None:
    """Start the command; a signal during its imports ends it with one line, as a later one does."""

    def leave(number: int, frame: FrameType | None) -> None:
        os.write(2, b"fp3o: stopped\n")
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    if sys.argv[1:] == ["--version"]:
        print(f"fp3o {__version__}")
        return
    keep_bytecode()
    # When Python ends it looks for garbage: among torch's objects that takes a quarter of a second.
    atexit.register(gc.freeze)
    from fp3o import cli

    cli.main()


def keep_bytecode() -> None:
    """Let Python keep the bytecode of imported modules in our cache, where torch's has none and none may be written
    beside it (PYTHONDONTWRITEBYTECODE in a container, an environment of another user).

    Importing torch and its compiler then takes 4 s instead of 11 from the second start on.
    """
    torch = find_spec("torch")
    if torch is None or torch.cached is None or sys.pycache_prefix is not None or Path(torch.cached).exists():
        return
    if not sys.dont_write_bytecode and os.access(Path(torch.cached).parent.parent, os.W_OK):
        return
    if folder := folder_for("bytecode"):
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder)
        # For the processes that we start, too: torch's compiler works in several.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


if __name__ == "__main__":
    # `-m` puts the current folder before installed packages: a torch.py in it would be imported instead of torch.
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    main()
