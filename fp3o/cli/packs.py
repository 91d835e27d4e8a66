"""`fp3o pack` and `fp3o unpack`: runs that travel from one machine to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.storing import report


def pack(
    out: Annotated[Positional[Path], arg(metavar="OUT.tar", help="The file to write; .tgz is compressed.")],
    cells: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="CELL", help="Cells, parts (smac) or patterns ('mpe/*/full/*'); default: all."),
    ] = (),
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Only this suite; default: all but users' own.")] = "",
    states: Annotated[bool, arg(help="Also the resume states of interrupted runs.")] = False,
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
