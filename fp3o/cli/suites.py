"""`fp3o new-suite` and `fp3o snakefile`: a suite of one's own, and what turns it into tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.errors import UserError


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
    start = (config.data_root() / "workflow" / "schemas" / "new-suite.yaml").read_text(encoding="utf-8")
    path.write_text(start.format(name=path.stem, command=command), encoding="utf-8")
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
