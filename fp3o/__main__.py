"""The `fp3o` command, and `python -m fp3o`: the same command of this interpreter."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from fp3o import __version__


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
    from fp3o import cli

    cli.main()


if __name__ == "__main__":
    # `-m` puts the current folder before installed packages: a torch.py in it would be imported instead of torch.
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    main()
