"""`fp3o save`, `pull`, `merge`, `prune`: runs of suites under DVC; `pack`, `unpack`: runs for another machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.errors import unknown

if TYPE_CHECKING:
    from fp3o.runs.store import Outcome

Cells: TypeAlias = Annotated[
    Positional[tuple[str, ...]],
    arg(metavar="CELL", help="Cells, parts (smac) or patterns ('mpe/*/full/*'); default: all."),
]


def save(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Only this suite; default: all under DVC.")] = "",
    message: Annotated[str, arg(aliases=("-m",), metavar="TEXT", help="Commit what is staged in git with this.")] = "",
    again: Annotated[
        tuple[str, ...],
        arg(
            metavar="CELL",
            help="Save runs of these cells again, by the rules in the suite's file: smaller, fewer checkpoints.",
        ),
    ] = (),
) -> int:
    """Put finished runs into DVC and its store, and stage the rest in git; removes nothing.

    New runs are saved compressed; which checkpoints are kept is said in the suite's file (docs/workflow.md). If DVC has
    a remote `checkpoints`, the others go there.
    """
    from fp3o.workflow import saving

    config.repository()
    return report(saving.save(message, under_dvc(suite), again))


def pull(
    cells: Cells = (),
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Only this suite; default: all under DVC.")] = "",
    checkpoints: Annotated[
        bool, arg(help="Also the checkpoints that are in DVC's remote `checkpoints` (docs/workflow.md).")
    ] = False,
) -> int:
    """Fetch saved runs that are not here, verified byte by byte; never touches an existing file."""
    from fp3o.workflow import pulling

    config.repository()
    return report(pulling.pull(cells, under_dvc(suite), checkpoints))


def merge(
    revision: Annotated[
        Positional[str], arg(metavar="COMMIT", help="Add the runs that this commit saved; default: resolve conflicts.")
    ] = "",
    *,
    prefer: Annotated[
        Literal["", "ours", "theirs"], arg(help="Whose runs to take where both sides saved the same run differently.")
    ] = "",
) -> int:
    """Unite the saved runs of both sides, after a git merge that stopped at conflicts in dvc.lock or manifests.

    Refuses only where both sides saved the same run differently; the commit is left to you.
    """
    from fp3o.workflow import merging

    config.repository()
    return report(merging.merge(prefer, revision))


def prune(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    delete: Annotated[bool, arg(help="Remove what is listed; without it nothing is touched.")] = False,
    kept: Annotated[bool, arg(help="With --delete: also what --keep-state, --keep-best and the like kept.")] = False,
) -> int:
    """List (and with --delete remove) superseded and replaced runs, leftovers and stored objects nothing needs.

    States and checkpoints that runs kept on request are listed too, and stay unless --kept is given. Runs of cells that
    the suite does not have are named, and always stay.
    """
    from fp3o.workflow import prune as pruning
    from fp3o.workflow.status import dropped

    chosen = config.load_suite(suite)
    if not chosen.own:
        config.repository()
    lines = pruning.prune(chosen, delete, kept) or [f"nothing to prune{pruning.stored(chosen)}"]
    print("\n".join((*lines, *dropped(chosen))))
    return 0


def pack(
    out: Annotated[Positional[Path], arg(metavar="OUT.tar", help="The file to write; .tgz is compressed.")],
    cells: Cells = (),
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Only this suite; default: all but users' own.")] = "",
    states: Annotated[
        bool, arg(help="Also the states of stopped runs, and the last saved ones of runs in training.")
    ] = False,
    saved: Annotated[bool, arg(help="Also runs that are saved in DVC, which every clone can pull.")] = False,
    small: Annotated[bool, arg(help="As the suite saves them: CSV files compressed, few checkpoints.")] = False,
) -> int:
    """Put finished runs into one file with checksums, for `fp3o unpack` on another machine; removes nothing."""
    from fp3o.workflow import packing

    suites = [config.load_suite(name) for name in ([suite] if suite else config.suite_names())]
    return report(packing.pack(out, suites, cells, states, saved, small))


def unpack(
    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE", help="Packs, or tar files of results/.")],
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Only this suite's runs; needed for one of your own.")] = "",
) -> int:
    """Take the runs of packs that the suites plan and that are not here, each verified; never replaces a file.

    A truncated or altered pack is refused as a whole; a run that does not belong here is named and left out.
    """
    from fp3o.workflow import packing

    return report(packing.unpack(files, config.load_suite(suite) if suite else None))


def under_dvc(suite: str) -> tuple[str, ...]:
    """The suite as the only one, or all that are under DVC for ""; UserError for another."""
    from fp3o.runs.store import TRACKED

    if suite and suite not in TRACKED:
        raise unknown("suite", suite, TRACKED, "DVC")
    return (suite,) if suite else tuple(TRACKED)


def report(outcome: Outcome) -> int:
    """Print what was done and what could not be."""
    print("\n".join(outcome.lines))
    for line in outcome.problems:
        print(f"fp3o: {line}", file=sys.stderr)
    return 1 if outcome.problems else 0
