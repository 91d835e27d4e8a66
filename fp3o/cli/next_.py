"""`fp3o next`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

from tyro.conf import arg

from fp3o import config
from fp3o.errors import UserError


def next_(
    *,
    minutes: Annotated[float, arg(help="How long you can train.")],
    device: Annotated[str, arg(help="Where: a device that runs were timed on, cpu or cuda.")] = "",
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
) -> int:
    """Suggest the missing cells that would decide most claims in so many minutes, with the command that trains them."""
    import torch

    from fp3o.runs import layout
    from fp3o.statistics import gathered, next_runs, rates
    from fp3o.statistics.suites import SuiteRuns

    if not minutes > 0:
        raise UserError(f"--minutes {minutes:g} is not allowed; allowed: a number above 0")
    chosen = config.load_suite(suite)
    if not chosen.of_the_paper:
        raise UserError(f"suite {suite} has no claims of the paper, by which runs are chosen")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    root = layout.suite_root(chosen.name)
    found = rates.Rates.on(rates.measured(root.parent), device)
    data = SuiteRuns(chosen, root / "runs")
    judged = gathered.whole(data)
    steps_of = {plan.cell.id: plan.settings.total_steps for plan, _ in chosen.runs()}

    def cost(cell: str) -> float | None:
        return found.minutes(cell, steps_of[cell])

    have = {name for name in data.cells if data.cells[name].runs}
    open_ones = next_runs.questions(data, gathered.tenth(data), judged)
    steps = next_runs.plan(open_ones, have, cost, minutes)
    # The plan comes last: the lines on more seeds are long, and its command is the one to copy.
    for name, more in next_runs.more_seeds(judged, cost).items():
        time = "not timed" if more.minutes is None else f"some {more.minutes:.0f} minutes more"
        print(f"{name}: all runs are there; {more.seeds} seeds per cell would decide it, {time}:")
        for source in gathered.at_full_budget(data):
            planned = {plan.cell.id: plan.digest for plan, _ in source.suite.runs()}
            cells = [cell for cell in more.cells if planned.get(cell) == judged.cells[cell].planned.digest]
            if cells:
                table = f"{{kind: table, seeds: 0-{more.seeds - 1}, cells: [{', '.join(cells)}]}}"
                print(f"    with artefacts: {{more-seeds: {table}}} in {source.suite.file.name},")
                print(f"    {_command(source.suite.name, cells)}")
    print("Continuing runs of a tenth of the steps would save a tenth of the minutes at most; no such plan is made.")
    hosts = " and ".join(found.hosts)
    print(f"{minutes:g} minutes on {device}, at the rates of {len(found.rates)} cells timed on {hosts}, one at a time:")
    texts = {question.name: question.text for question in open_ones}
    for step in steps:
        print(f"{step.minutes:8.1f} min  {', '.join(step.cells)}")
        print(f"              {step.gain:.3f} claims expected: {'; '.join(f'{n} {texts[n]}' for n in step.claims)}")
    if steps:
        cells = [cell for step in steps for cell in step.cells]
        total, gain = sum(step.minutes for step in steps), sum(step.gain for step in steps)
        print(f"{len(cells)} cells, {total:.0f} minutes, {gain:.2f} claims expected to be decided:")
        print(_command(suite, cells))
    else:
        print("No group of missing cells that a claim compares fits.")
    return 0


def _command(suite: str, cells: Sequence[str]) -> str:
    """That trains what is missing of these cells."""
    targets = [f"results/{suite}/cells/{cell}.json" for cell in cells]
    return shlex.join(["snakemake", *targets, *([] if suite == "paper" else ["--config", f"suite={suite}"])])
