"""`fp3o train`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from fp3o import config
from fp3o.cli.arguments import (
    CELL_HELP,
    SEEDS_HELP,
    SUITE_HELP,
    Imports,
    Values,
    check_folder_of,
    check_number,
    find_local_modules,
)
from fp3o.cli.roots import Roots
from fp3o.config.domains import DOMAINS
from fp3o.errors import UserError
from fp3o.execution.allocator import no_garbage_collection
from fp3o.execution.compute import Compute
from fp3o.runs import layout

if TYPE_CHECKING:
    from fp3o.training.callbacks import Callback

NOT_KEPT = "`fp3o train` with --keep-state does, and with --replace it trains finished runs again"
ON_THIS_MACHINE = Compute(threads=0)
GAME_OPTIONS = ("env", "env_args")  # Name the user's environment; not shown as deviations.


@dataclass(frozen=True)
class Watching:
    """What is recorded besides the run's own files."""

    tensorboard: bool = False
    """Also write TensorBoard events below scratch/ (needs the tensorboard package)."""
    wandb: bool = False
    """Also log to Weights & Biases (needs the wandb package; WANDB_MODE=offline sends nothing)."""
    timings: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write the seconds of every iteration by phase to FILE (CSV)."""


@dataclass(frozen=True)
class Keeping:
    """What is kept below scratch/ when the run is finished; nothing by default."""

    keep_state: bool = False
    """The last state, from which `fp3o continue` goes on."""
    checkpoint_every: Annotated[int, arg(metavar="K")] = 0
    """A checkpoint after every K-th iteration; 0: none."""
    keep_best: bool = False
    """The checkpoint of the best evaluation."""


@dataclass(frozen=True)
class Repeating:
    """What to do about runs that exist."""

    digest: Annotated[str, arg(metavar="DIGEST")] = ""
    """Refuse to train unless the settings resolve to this digest."""
    retrain: bool = False
    """Train runs that are in DVC and were not pulled."""
    replace: bool = False
    """Train finished runs again; the old ones are kept in replaced/ beside runs/."""
    mark: Annotated[Path | None, arg(metavar="FILE")] = None
    """When all seeds are finished, tell Snakemake so by FILE."""


def train(
    cell: Annotated[Positional[str], arg(metavar="CELL", help=CELL_HELP)],
    *,
    seeds: Annotated[str, arg(metavar="SEEDS", help=SEEDS_HELP)] = "0-4",
    suite: Annotated[str, arg(metavar="NAME", help=SUITE_HELP)] = "paper",
    out: Annotated[
        Path | None, arg(metavar="DIR", help="Write to DIR/<cell>/<digest>/seed-<k>/ instead, without a suite.")
    ] = None,
    import_: Imports = (),
    start_from: Annotated[
        Path | None, arg(metavar="RUN", help="Start from the networks of a finished run (a folder with run.json).")
    ] = None,
    computing: OmitArgPrefixes[Compute] = ON_THIS_MACHINE,
    watching: OmitArgPrefixes[Watching],
    keeping: OmitArgPrefixes[Keeping],
    repeating: OmitArgPrefixes[Repeating],
    settings: OmitArgPrefixes[Values],
) -> int:
    """Train a cell with the paper's values, or others by --set; the same command resumes an interrupted run."""
    chosen = config.load_suite(suite) if out is None else None  # First: its plug-ins may declare the cell's algorithm.
    values = settings.overrides()
    if start_from is not None:
        from fp3o.runs.verify import named_run

        values = {**values, "start_from": named_run(start_from, "--start-from")}
    plan = config.resolve(config.Cell.parse(cell), values, chosen)
    numbers = config.parse_seeds(seeds)
    check_number("threads", computing.threads, 0, 10_000)
    check_folder_of("timings", watching.timings)
    roots = Roots(plan, numbers, chosen, out)
    from fp3o.workflow import guard
    from fp3o.workflow.blocks import Block, check_digest

    check_digest(plan, repeating.digest)
    if repeating.mark is not None and (chosen is None or roots.foreign):
        raise UserError(f"--mark {repeating.mark}: not a run of a suite; allowed: a suite's cells, settings and seeds")
    if chosen is not None and not roots.foreign and not repeating.retrain and not repeating.replace:
        guard.check_training(chosen.name, plan, numbers)
    print(first_line(plan, seeds))
    if roots.foreign:
        print(f"{roots.foreign}: writing to {roots.runs}{os.sep}")
    run_training(plan, numbers, roots, computing, watching, keeping, replace=repeating.replace, start_from=start_from)
    if repeating.mark is not None and chosen is not None:
        Block(chosen.name, plan, tuple(numbers)).write_mark(repeating.mark)
    return 0


def first_line(plan: config.Plan, seeds: str) -> str:
    """What is going to be trained. `--seeds 5` is one seed, number 5: a hint is added, as five seeds may be meant."""
    named = f"seeds {seeds}" if len(config.parse_seeds(seeds)) > 1 else f"seed {seeds}"
    lone = seeds.isdecimal() and int(seeds) > 1
    hint = f" (one seed, the one numbered {seeds}; {seeds} seeds are 0-{int(seeds) - 1})" if lone else ""
    return f"{plan.cell.id} {plan.digest}: {named}{hint}, {plan.settings.total_steps:,} steps each"


def run_training(
    plan: config.Plan,
    numbers: Sequence[int],
    roots: Roots,
    computing: Compute,
    watching: Watching,
    keeping: Keeping,
    *,
    replace: bool = False,
    start_from: Path | None = None,
) -> None:
    """Train what is not finished (replace: and what is), print the results. start_from: as for `training.run.train`."""
    from fp3o.runs.folder import RunFolder
    from fp3o.workflow import replacing

    base, runs, scratch = roots.scratch.parent, roots.runs, roots.scratch
    origin = start_from or runs / plan.settings.start_from  # before `replace`, which trains elsewhere
    if replace:
        runs, scratch = (base / "replacing" / part for part in ("runs", "scratch"))

    label = f"{plan.cell.id} {plan.digest} seeds {config.seeds_text(numbers)}"
    folder = RunFolder(plan, numbers, runs, scratch)
    if not folder.unfinished():
        folder.tidy()
        print(f"{label}: already finished, nothing to do")
        if keeping.keep_state and not layout.kept_directory(roots.scratch, plan).exists():
            print(f"its state was not kept: {NOT_KEPT}")
    else:
        for line in deviation_lines(plan):
            print(line)
        find_local_modules()
        with no_garbage_collection():
            from fp3o.training.callbacks.checkpoints import ExtraCheckpoints
            from fp3o.training.callbacks.progress import Progress
            from fp3o.training.callbacks.tensorboard import TensorBoard
            from fp3o.training.callbacks.timings import Timings
            from fp3o.training.run import train as train_seeds

        # In scratch/, not in the run's folder, whose files are versioned: event files are not worth that.
        events = layout.scratch_directory(scratch, plan, numbers).with_name("tensorboard")
        callbacks: list[Callback] = []
        if watching.tensorboard:
            callbacks.append(TensorBoard(events))
            print(f"TensorBoard events: {events}")
        if watching.wandb:
            from fp3o.training.callbacks.wandb import WeightsAndBiases

            logs, group = events.with_name("wandb"), f"{plan.cell.id} {plan.digest}"
            callbacks.append(WeightsAndBiases(logs, group, plan.configuration()))
            print(f"Weights & Biases: group {group}, files in {logs}")
        if watching.timings is not None:
            callbacks.append(Timings(watching.timings))
        if keeping != Keeping():
            check_number("checkpoint-every", keeping.checkpoint_every, 0, 10**12)
            state, every, best = astuple(keeping)
            kept = ExtraCheckpoints(plan, roots.scratch, state=state, every=every, best=best)
            callbacks.append(kept)
        with Progress.of(plan, numbers) as progress:
            train_seeds(plan, numbers, runs, scratch, computing, [progress, *callbacks], origin)
        if keeping != Keeping():
            print(f"kept: {kept.folder}")
    if replace:
        print("\n".join(replacing.put_in_place(plan, numbers, base, roots.runs)))
    print_results(plan, numbers, roots.runs)


def deviation_lines(plan: config.Plan) -> list[str]:
    """One line per setting that differs from the paper's value (or the default, if the paper has none)."""
    head = "deviates from the paper" if DOMAINS[plan.cell.domain].published else "differs from the default"
    return [
        f"{'differs from the default, as the paper does' if change.to_the_papers else head}: {change}"
        for change in plan.deviations
        if change.name not in GAME_OPTIONS
    ]


def print_results(plan: config.Plan, seeds: Sequence[int], runs: Path) -> None:
    """Print the score of the finished runs, how it compares with the paper's, and the runs' folder."""
    from fp3o.statistics.compare import sentence
    from fp3o.statistics.scores import Planned, collect, scores_of_short_runs, scoring_of

    cell = collect(runs, [Planned(plan.cell.id, plan.digest, tuple(seeds))])[0]
    for run in cell.runs:
        if run.diverged:
            where = run.document["diverged"]
            print(
                f"warning: seed {run.seed} diverged in iteration {where['iteration']} ({where['quantity']})",
                file=sys.stderr,
            )
    print(f"{plan.cell.id}: {sentence(plan.cell.id, cell.scores(), plan.deviations)}")
    print("; ".join(filter(None, (f"score: {scoring_of(plan.cell.id).words}", scores_of_short_runs([cell])))))
    last = plan.iterations - 1
    if cell.runs and not plan.evaluates_after(last) and all(run.final is None for run in cell.runs):
        unseen = last % plan.settings.evaluation_interval
        print(f"the last {unseen} of {plan.iterations} iterations are not evaluated, as in the paper's schedule")
    print(f"runs: {layout.run_directory(runs, plan, seeds[0]).parent}")
