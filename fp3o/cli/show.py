"""`fp3o show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from fp3o import config
from fp3o.cli.arguments import CELL_HELP, SEEDS_HELP, SUITE_HELP, Imports, Values, aligned
from fp3o.cli.roots import Roots
from fp3o.config.provenance import comment_on
from fp3o.fields import shown
from fp3o.registry import ALGORITHMS, ENVIRONMENTS
from fp3o.runs import layout


def show(
    cell: Annotated[Positional[str], arg(metavar="CELL", help=CELL_HELP)],
    *,
    seeds: Annotated[str, arg(metavar="SEEDS", help=SEEDS_HELP)] = "0-4",
    suite: Annotated[str, arg(metavar="NAME", help=SUITE_HELP)] = "paper",
    out: Annotated[Path | None, arg(metavar="DIR", help="As for `fp3o train`: without a suite.")] = None,
    import_: Imports = (),
    settings: OmitArgPrefixes[Values],
) -> int:
    """Show what `fp3o train` with these arguments would do: every value with its source, digest, budget, folder."""
    from fp3o.runs.records import RUN

    chosen = config.load_suite(suite) if out is None else None  # First: its plug-ins may declare the cell's algorithm.
    the_cell, overrides = config.Cell.parse(cell), settings.overrides()
    plan = config.resolve(the_cell, overrides, chosen)
    numbers = config.parse_seeds(seeds)
    roots = Roots(plan, numbers, chosen, out)
    folders = [layout.run_directory(roots.runs, plan, seed) for seed in numbers]
    finished = sum((folder / RUN).is_file() for folder in folders)
    print(f"{plan.cell.id} {plan.digest}")
    print("\n".join(budget(plan)))
    print(f"seeds        {config.seeds_text(numbers)}: {finished} of {len(numbers)} finished")
    print(f"runs         {folders[0].parent}" + (f" ({roots.foreign})" if roots.foreign else ""))
    print("\n".join(table(plan, config.origins(the_cell, overrides, chosen))))
    return 0


def budget(plan: config.Plan) -> list[str]:
    """How long a run is, per seed."""
    settings, last = plan.settings, plan.iterations - 1
    evaluations = 1 + last // settings.evaluation_interval
    evaluations += bool(last % settings.evaluation_interval) and plan.evaluates_after(last)
    lines = [
        f"steps        {settings.total_steps:,} per seed",
        f"iterations   {plan.iterations:,} of {settings.rollout_length:,} steps × "
        f"{settings.rollout_threads:,} environments",
        f"evaluations  {evaluations:,} of {settings.evaluation_episodes:,} episodes",
    ]
    if settings.final_episodes > settings.evaluation_episodes:
        lines.append(f"final score  {settings.final_episodes:,} episodes")
    return lines


def table(plan: config.Plan, origins: Mapping[str, config.Origin]) -> list[str]:
    """Settings, then environment options, a line each: name, value, source; * marks what differs from the paper."""
    values = {name: getattr(plan.settings, name) for name in config.setting_names(plan.cell)}
    changed = {change.name for change in plan.deviations}
    lines = []
    for title, part in (("settings", values), ("options of the environments", asdict(plan.options))):
        rows = [
            (f"{'*' if name in changed else ' '} {name}", shown(value), source(origins.get(name)))
            for name, value in part.items()
        ]
        lines += [title, *aligned(rows)] if rows else []
    return [*lines, *(["* other than the paper's or the default"] if changed else [])]


def source(origin: config.Origin | None) -> str:
    """Where a value is from, in words: the task file's place and what it says about the paper, a suite, --set …"""
    if origin is None:
        return "default"
    if origin.label:
        return origin.label
    *names, _ = origin.place
    if names[0] == "algorithms" and ALGORITHMS[names[1]].file:
        return f"plug-in {names[1]}"
    if names[0] == "domains" and names[3:4] and names[3] in ENVIRONMENTS and ENVIRONMENTS[names[3]].file:
        return f"plug-in {names[3]}"
    words = " ".join(name for name in names if name not in ("domains", "tasks", "algorithms", "settings", "options"))
    said = comment_on(origin.place)
    return f"tasks.yaml, {words}" + (f" ({said})" if said else "")
