"""The one error a user should ever see: a line that names the thing and the allowed values."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class UserError(ValueError):
    """Bad input. The command line prints the message alone, exits non-zero and has changed nothing."""


@contextmanager
def more_said(before: str = "", after: str = "") -> Iterator[None]:
    """A UserError raised inside gets these words before and after its own."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{before}{error}{after}") from error


def unknown(kind: str, name: object, allowed: Iterable[object], where: str = "") -> UserError:
    """`unknown(…)` reads: unknown task 'ant' in mamujoco/…; allowed: ant-2x4, …; and asks about a name much like it."""
    place, names = f" in {where}" if where else "", [str(a) for a in allowed]
    meant = get_close_matches(str(name), names, 1)
    hint = f"; did you mean {meant[0]}?" if meant else ""
    return UserError(f"unknown {kind} {str(name)!r}{place}; allowed: {', '.join(names)}{hint}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, the one it was raised from, and so on: compilers and threads wrap what happened to them."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        yield link
        link = link.__cause__ or link.__context__


def first_of(names: Sequence[object], most: int = 5) -> str:
    """For messages: a, b, c; of many the first, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(str(name) for name in names[:most]) + more


def optional_module(name: str, advice: str) -> Any:
    """A module of a package that fp3o does without; UserError with this advice where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(advice) from None


FIGURE_PACKAGES = ("bokeh", "matplotlib")
"""Training does without them: the extra `figures` of pyproject.toml."""


def as_command(main: Callable[[], None]) -> None:
    """Call `main` as a program: a UserError, a missing file or package is one line and exit code 1."""
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} not found")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in FIGURE_PACKAGES:
            raise
        sys.exit(f"figures and the report need packages that are not here: pip install {' '.join(FIGURE_PACKAGES)}")
