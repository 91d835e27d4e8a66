"""Draw one figure of a suite with the script that the suite names: a module here with a function `draw`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from fp3o.errors import unknown
from fp3o.statistics.suites import as_command


def scripts() -> tuple[str, ...]:
    """Names of the modules here that draw figures."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple(path.stem for path in files if "\ndef draw(request: Request)" in path.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    from paper_figures.drawing import arguments, request  # needs Matplotlib

    asked = request(arguments(__doc__ or "").parse_args(argv))
    script = asked.artefact.script
    if script not in scripts():
        raise unknown("script", script, scripts(), f"figure {asked.artefact.name}")
    import_module(f"paper_figures.{script}").draw(asked)


if __name__ == "__main__":
    as_command(main)
