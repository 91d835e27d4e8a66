"""`fp3o new-suite` and `fp3o snakefile`: a suite of one's own, and what turns it into tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.errors import UserError

START = """\
# A suite of your own. It is trained and turned into tables, figures and a report in results/{name}/ by
#   {command}
# Everything a suite can say: workflow/schemas/suite.schema.yaml in the repository.
title: {name}
seeds: 0-1 # five (0-4) give intervals that mean something

# Plug-ins with algorithms or environments of yours; paths from this file's folder.
# imports: [shy.py]

# Where values differ from those of each task (fp3o list settings); later entries win.
overrides:
  - cells: "matrix/*"
    set: {{total_steps: 2560, evaluation_interval: 1}}

artefacts:
  # A row per task and sharing, a column per algorithm. Each is compared with the baseline, seed by seed.
  table-games:
    kind: table
    caption: Three algorithms on a small game
    baseline: mappo
    cells: &games
      - {{domain: matrix, tasks: [climbing], sharing: [full, none], algorithms: [mappo, happo, fp3o]}}
  figure-games:
    kind: figure
    caption: Learning curves
    cells: *games

  # Every combination of the values of some settings, as a table and as a figure.
  table-sweep:
    kind: table
    caption: Clip and epochs of MAPPO
    cells: &sweep
      - domain: matrix
        tasks: [climbing]
        sharing: [full]
        algorithms: [mappo]
        grid: {{clip: [0.1, 0.2], epochs: [5, 10]}}
  figure-sweep:
    kind: figure
    script: sweep # or a Python file of yours with a function draw(request)
    caption: Clip and epochs of MAPPO
    cells: *sweep
"""


def new_suite(
    path: Annotated[Positional[Path], arg(metavar="FILE", help="The suite to write; its name ends with .yaml.")],
) -> int:
    """Write a commented suite of your own to start from; it works as it is."""
    if path.exists():
        raise UserError(f"{path} is there already; allowed: the name of a new file")
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"{path}: a suite's name ends with .yaml")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    here = config.checkout() == Path.cwd()
    command = f"snakemake{'' if here else ' --snakefile $(fp3o snakefile)'} --config suite={path}"
    path.write_text(START.format(name=path.stem, command=command), encoding="utf-8")
    try:
        config.load_suite(str(path))
    except UserError:
        path.unlink()
        raise
    print(f"{path}: edit it, then {command}")
    return 0


def snakefile() -> int:
    """Print where the workflow is, for folders without a checkout: snakemake --snakefile $(fp3o snakefile)."""
    print(config.data_root() / "Snakefile")
    return 0
