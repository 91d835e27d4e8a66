"""Runs tutorials: python run_pages.py FOLDER PAGE … , each page in a folder of its own, its blocks in their order.

    ```python title="x.py"     written to that file
    ```python                  run; all of a page share their names
    ```console                 lines with "$ ": commands of the program, run in this process; below each what it prints
    ```text                    what the block before it printed

"…" stands for any text, a number with decimals for any such number. Blocks of other kinds are for readers. A page that
prints something else ends the program.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fp3o.cli

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def same(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed: "…" is anything, several lines too, and a number with decimals any such
    number, since training on another processor gives others."""
    wanted = re.escape(shown.strip()).replace("…", ".*")
    wanted = re.sub(r"(?:\\-)?\d+\\\.\d+", lambda _: r"-?\d+\.\d+", wanted)
    return re.fullmatch(wanted, printed.strip(), re.DOTALL) is not None


def printed_by(action: Callable[[], Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as caught:
        try:
            action()
        except SystemExit as left:
            if left.code:
                raise
    return caught.getvalue()


def commands(text: str) -> list[tuple[str, str]]:
    """Every command of a console block with what is shown below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def run(page: Path) -> int:
    """How many outputs were compared."""
    names: dict[str, Any] = {"__name__": "page"}
    compared, printed = 0, ""

    def compare(shown: str, by: str) -> None:
        if not same(shown, printed):
            sys.exit(f"{page.name}: {by}\nshows:\n{shown}\nprints:\n{printed}")

    for kind, title, text in BLOCK.findall(page.read_text()):
        if title:
            Path(title).write_text(text)
        elif kind == "python":
            printed = printed_by(partial(exec, compile(text, str(page), "exec"), names))
        elif kind == "text":
            compare(text, "a Python block")
            compared += 1
        elif kind == "console":
            for command, shown in commands(text):
                program, *arguments = shlex.split(command)
                assert program == "fp3o", command
                printed = printed_by(partial(fp3o.cli.main, arguments))
                compare(shown, f"$ {command}")
                compared += 1
    return compared


def main() -> None:
    folder = Path(sys.argv[1])
    for page in map(Path, sys.argv[2:]):
        place = folder / page.stem
        place.mkdir()
        os.chdir(place)
        print(page.stem, run(page), flush=True)


if __name__ == "__main__":
    main()
