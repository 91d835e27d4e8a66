"""`fp3o list`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, shown_default
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import Settings
from fp3o.errors import UserError
from fp3o.fields import declared, meanings
from fp3o.registry import ALGORITHMS, ENVIRONMENTS, own_settings

Listed = Literal["cells", "tasks", "algorithms", "variants", "settings", "suites"]


def list_names(
    what: Annotated[Positional[Listed], arg(help="What to list.")] = "cells",
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Cells of this suite only, with digest and seeds.")] = "",
    match: Annotated[
        str, arg(metavar="PATTERN", help="Only names fitting this pattern, for example '*/none/fp3o*'.")
    ] = "",
    import_: Imports = (),
) -> int:
    """List what exists, one name per line."""
    from fnmatch import fnmatchcase

    lines: list[tuple[str, ...]]
    if suite and what != "cells":
        raise UserError(f"--suite belongs to `fp3o list cells`, not {what}")
    if what == "cells" and suite:
        runs = config.load_suite(suite).runs()
        lines = [(plan.cell.id, plan.digest, config.seeds_text(seeds)) for plan, seeds in runs]
    elif what == "cells":
        lines = [
            (f"{domain}/{task}/{sharing}/{algorithm}",)
            for domain in config.domains()
            for task in config.tasks(domain)
            for sharing in config.SHARINGS
            for algorithm in config.algorithms()
        ]
    elif what == "tasks":
        lines = [(f"{domain}/{task}",) for domain in config.domains() for task in config.tasks(domain)]
        lines += [
            (f"pettingzoo/{name}", f"plug-in {game.file}" if game.file else f"pip install '{game.package}'")
            for name, game in ENVIRONMENTS.items()
            if (f"pettingzoo/{name}",) not in lines
        ]
    elif what == "algorithms":
        entries = [(name, ALGORITHMS[name]) for name in config.algorithms()]
        lines = [(name, one.title, f"plug-in {one.file}") if one.file else (name,) for name, one in entries]
    elif what == "variants":
        lines = [
            (f"{algorithm}-{name}", about)
            for algorithm in config.algorithms()
            for name, about in config.variants(algorithm).items()
        ]
    elif what == "settings":
        kinds: tuple[type[Any], ...] = (Settings, *OPTIONS.values())
        lines = [
            (field.name, field.allowed, shown_default(field.default), text)
            for kind in kinds
            for field, text in zip(declared(kind).values(), meanings(kind).values(), strict=True)
        ]
        own = [pair for algorithm in config.algorithms() for pair in own_settings(algorithm).values()]
        lines += [(field.name, field.allowed, shown_default(field.default), text) for field, text in own]
        lines = list(dict.fromkeys(lines))  # Some settings belong to several algorithms.
    else:
        lines = [(name, str(config.load_suite(name).raw["title"])) for name in config.suite_names()]
    fitting = [line for line in lines if not match or fnmatchcase(line[0], match)]
    if match and not fitting:
        whose = f" of suite {suite}" if suite else ""
        raise UserError(f"none of the {len(lines)} {what}{whose} fits --match {match!r}; without it all are listed")
    for line in fitting:
        print("\t".join(line))
    return 0
