"""Draw one figure of a suite with the script that it names: a module here, or a file, with a function `draw`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from fp3o.errors import UserError, as_command, unknown
from fp3o.registry import load_file


def scripts() -> tuple[str, ...]:
    """Names of the modules here that draw figures."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple(path.stem for path in files if "\ndef draw(request: Request)" in path.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    from paper_figures.drawing import arguments, request  # needs Matplotlib

    asked = request(arguments(__doc__ or "").parse_args(argv))
    script = asked.artefact.script
    where = f"figure {asked.artefact.name}"
    if script.endswith(".py"):
        module = load_file(asked.data.suite.file.parent / script, f"{where}, script:")
        if not callable(getattr(module, "draw", None)):
            raise UserError(f"{where}: {script} has no function draw(request)")
    elif script in scripts():
        module = import_module(f"paper_figures.{script}")
    else:
        raise unknown("script", script, (*scripts(), "the path of a .py file"), where)
    module.draw(asked)


if __name__ == "__main__":
    as_command(main)
