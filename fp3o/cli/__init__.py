"""The `fp3o` command, one file per command or two that belong together; `entry.py` lists them.

Heavy imports stand inside the commands, so that `fp3o list` answers at once.
"""

from fp3o.cli.entry import main

__all__ = ["main"]
