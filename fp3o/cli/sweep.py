"""`fp3o status` and `fp3o rerun`: the progress of a suite, and training one of its cells again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import CELL_HELP
from fp3o.cli.storing import report
from fp3o.errors import UserError


def status(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    all_: Annotated[bool, arg(name="all", help="Show every cell, also those wholly done or wholly missing.")] = False,
    verify: Annotated[bool, arg(help="Also check every file of every run here against its checksum.")] = False,
    remote: Annotated[bool, arg(help="Also ask DVC's remote (or artifacts/) for every saved file.")] = False,
) -> int:
    """Show the progress of a suite: done, diverged, resumable, in DVC but not pulled, failed, missing, stale."""
    from fp3o.runs.store import Outcome
    from fp3o.workflow import guard
    from fp3o.workflow.status import damaged, dropped, examine, lines, not_stored

    chosen = config.load_suite(suite)
    text = lines(examine(chosen), all_) + dropped(chosen)
    problems: list[str] = []
    (problems if verify else text).extend(guard.notices(chosen))
    if verify:
        count, found = damaged(chosen.name)
        text.append(f"{count} runs checked, {len(found)} damaged")
        problems += found
    if remote:
        found = not_stored(chosen.name)
        text.append("files are missing in the store" if found else "every saved file is in the store")
        problems += found
    return report(Outcome(text, problems))


def rerun(
    cell: Annotated[Positional[str], arg(metavar="CELL", help=CELL_HELP)],
    *,
    seed: Annotated[int | None, arg(metavar="K", help="Only the block of seeds that holds this one.")] = None,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    dry_run: Annotated[bool, arg(help="Only show what Snakemake would do.")] = False,
) -> int:
    """Train a cell of a suite again, by the Snakemake commands it prints; the old runs are kept in replaced/."""
    import subprocess
    from importlib.util import find_spec

    from fp3o.workflow.blocks import RETRAIN, blocks_of

    chosen = config.load_suite(suite)
    home = Path.cwd() if chosen.own else config.repository()
    if find_spec("snakemake") is None:
        raise UserError("Snakemake is not installed: pip install 'snakemake>=9.27'")

    name = config.Cell.parse(cell).id
    blocks = [block for block in blocks_of(chosen, name) if seed is None or seed in block.seeds]
    if not blocks:
        _, seeds = chosen.run(name)
        raise UserError(f"seed {seed} of {name} is not in suite {suite}; allowed: {config.seeds_text(seeds)}")
    # Snakemake runs in the repository's folder (or the user's own) and knows files by their names from there.
    folder = Path("results") / chosen.name
    marks = [str(folder / block.next_mark(RETRAIN).relative_to(block.root)) for block in blocks]
    for targets in (marks, [str(folder / "cells" / f"{name}.json")]):
        # Targets first: several of Snakemake's options take all words that follow.
        command = ["snakemake", *targets]
        if not (home / "Snakefile").is_file():
            command += ["--snakefile", str(config.data_root() / "Snakefile")]
        command += ["--config", f"suite={chosen.argument}", *(("--dry-run",) if dry_run else ())]
        print(shlex.join(command), flush=True)
        # -P: in a user's folder, a file of theirs must not be imported instead of an installed module.
        python = [sys.executable, *(("-P",) if chosen.own else ())]
        code = subprocess.run([*python, "-m", *command], check=False, cwd=home).returncode
        if code:
            return code
    return 0
