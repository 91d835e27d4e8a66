"""`fp3o train`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from fp3o import config
from fp3o.cli.arguments import CELL_HELP, Imports, check_number, find_local_modules, parse_overrides, settings_help
from fp3o.runs import layout

if TYPE_CHECKING:
    from fp3o.training.callbacks import Callback


def train(
    cell: Annotated[Positional[str], arg(metavar="CELL", help=CELL_HELP)],
    *,
    seeds: Annotated[str, arg(metavar="SEEDS", help="Like 0-4, 3 or 0-4,7; all are trained side by side.")] = "0-4",
    suite: Annotated[
        str,
        arg(
            metavar="NAME",
            help="Suite whose overrides apply; its runs go to results/NAME/, other settings, seeds or cells to runs/.",
        ),
    ] = "paper",
    out: Annotated[
        Path | None, arg(metavar="DIR", help="Write to DIR/<cell>/<digest>/seed-<k>/ instead, without a suite.")
    ] = None,
    set_: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help=settings_help())] = (),
    import_: Imports = (),
    device: Annotated[
        Literal["auto", "cpu", "cuda"], arg(help="Where updates run; auto takes a GPU if there is one.")
    ] = "auto",
    path: Annotated[
        Literal["auto", "eager", "compiled"],
        arg(help="How updates run; auto compiles where a compiler exists and the run is long enough to repay it."),
    ] = "auto",
    allow_path_change: Annotated[
        bool, arg(help="Resume although device, path, threads or the torch version changed; no longer bit-exact.")
    ] = False,
    threads: Annotated[
        int,
        arg(metavar="K", help="CPU threads of the simulators; 0: what pays on this machine. Results do not change."),
    ] = 0,
    tensorboard: Annotated[
        bool, arg(help="Also write TensorBoard events below scratch/ (needs the tensorboard package).")
    ] = False,
    timings: Annotated[
        Path | None, arg(metavar="FILE", help="Also write the seconds of every iteration by phase to FILE (CSV).")
    ] = None,
    digest: Annotated[
        str, arg(metavar="DIGEST", help="Refuse to train unless the settings resolve to this digest.")
    ] = "",
    retrain: Annotated[bool, arg(help="Train runs that are in DVC and were not pulled.")] = False,
    replace: Annotated[
        bool, arg(help="Train finished runs again; the old ones are kept in replaced/ beside runs/.")
    ] = False,
) -> int:
    """Train a cell with the paper's values; the same command resumes an interrupted run."""
    chosen = config.load_suite(suite) if out is None else None  # Its plug-ins may have the cell's algorithm.
    plan = config.resolve(config.Cell.parse(cell), parse_overrides(set_), chosen)
    numbers = config.parse_seeds(seeds)
    check_number("threads", threads, 0, 10_000)
    roots = Roots(plan, numbers, chosen, out)
    if roots.foreign:
        print(f"{roots.foreign}: writing to {roots.runs}{os.sep}")
    from fp3o.runs.folder import RunFolder
    from fp3o.workflow import guard, replacing
    from fp3o.workflow.blocks import check_digest

    check_digest(plan, digest)
    if chosen is not None and not roots.foreign and not retrain and not replace:
        guard.check_training(suite, plan, numbers)
    base, runs, scratch = roots.scratch.parent, roots.runs, roots.scratch
    if replace:
        runs, scratch = (base / "replacing" / part for part in ("runs", "scratch"))

    label = f"{plan.cell.id} {plan.digest} seeds {config.seeds_text(numbers)}"
    folder = RunFolder(plan, numbers, runs, scratch)
    if not folder.unfinished():
        folder.tidy()
        print(f"{label}: already finished, nothing to do")
    else:
        for line in plan.deviations:
            print(f"deviates from the paper: {line}")
        find_local_modules()
        from fp3o.training.loop import train as run_training
        from fp3o.training.progress import Progress
        from fp3o.training.tensorboard import TensorBoard

        # Beside the files in progress: declared outputs are versioned, event files are not worth it.
        events = layout.scratch_directory(scratch, plan, numbers).with_name("tensorboard")
        watching: list[Callback] = []
        if tensorboard:
            watching.append(TensorBoard(events))
            print(f"TensorBoard events: {events}")
        with Progress.of(plan, numbers) as progress:
            run_training(
                plan,
                numbers,
                runs,
                scratch,
                device=device,
                mode=path,
                threads=threads,
                allow_path_change=allow_path_change,
                callbacks=[progress, *watching],
                timings=timings,
            )
    if replace:
        print("\n".join(replacing.put_in_place(plan, numbers, base, roots.runs)))
    print_results(plan, numbers, roots.runs)
    return 0


class Roots:
    """The folders for finished runs and runs in progress: results/<suite> for runs that the suite plans, else another.

    Runs in a suite's folder are part of its tables and, for the paper suite, are saved to DVC.
    """

    def __init__(self, plan: config.Plan, seeds: Sequence[int], suite: config.Suite | None, out: Path | None) -> None:
        self.foreign = "" if suite is None else why_not_planned(suite, plan, seeds)
        """Why the suite's folder is not used; "" if it is, or if another folder was asked for."""
        if suite is not None and not self.foreign:
            self.runs, self.scratch = (layout.suite_root(suite.name) / part for part in ("runs", "scratch"))
        else:
            self.runs = layout.own_root() if out is None else out
            self.scratch = self.runs / "scratch"


def why_not_planned(suite: config.Suite, plan: config.Plan, seeds: Sequence[int]) -> str:
    """Why these runs are not among those that the suite plans; "" if they are."""
    planned = {each.cell.id: (each.digest, wanted) for each, wanted in suite.runs()}
    if plan.cell.id not in planned:
        return f"suite {suite.name} has no such cell"
    digest, wanted = planned[plan.cell.id]
    if digest != plan.digest:
        return f"other settings than suite {suite.name} plans"
    others = [seed for seed in seeds if seed not in wanted]
    return f"suite {suite.name} has seeds {config.seeds_text(wanted)}" if others else ""


def print_results(plan: config.Plan, seeds: Sequence[int], runs: Path) -> None:
    """Print the score of the finished runs, how it compares with the paper's, and the runs' folder."""
    from fp3o.statistics.compare import sentence
    from fp3o.statistics.scores import Planned, collect, scoring_of

    cell = collect(runs, [Planned(plan.cell.id, plan.digest, tuple(seeds))])[0]
    for run in cell.runs:
        if run.diverged:
            where = run.document["diverged"]
            print(
                f"warning: seed {run.seed} diverged in iteration {where['iteration']} ({where['quantity']})",
                file=sys.stderr,
            )
    print(f"{plan.cell.id}: {sentence(plan.cell.id, cell.scores(), plan.deviations)}")
    print(f"score: {scoring_of(plan.cell.id).words}")
    last = plan.iterations - 1
    if cell.runs and not plan.evaluates_after(last) and all(run.final is None for run in cell.runs):
        unseen = last % plan.settings.evaluation_interval
        print(f"the last {unseen} of {plan.iterations} iterations are not evaluated, as in the paper's schedule")
    print(f"runs: {layout.run_directory(runs, plan, seeds[0]).parent}")
