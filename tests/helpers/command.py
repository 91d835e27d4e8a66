"""The `fp3o` command in this process."""

from __future__ import annotations

import pytest

from fp3o import cli


def call(*arguments: str) -> int:
    """Run the command; its exit code."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    return int(left.value.code or 0)
