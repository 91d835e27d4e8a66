"""The `fp3o` command. Heavy imports stand inside the commands, so that `fp3o list` answers at once."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, UseAppendAction, arg
from tyro.extras import SubcommandApp

from fp3o import config
from fp3o.config.settings import Settings
from fp3o.envs.domains import OPTIONS
from fp3o.errors import UserError
from fp3o.fields import declared, meanings, shown
from fp3o.runs import layout
from fp3o.runs.atomic import disk_trouble
from fp3o.runs.interrupt import StoppedEarly

if TYPE_CHECKING:
    from fp3o.training.callbacks import Callback
    from fp3o.workflow.store import Outcome

app = SubcommandApp()

CELL_HELP = "<domain>/<task>/<sharing>/<algorithm>[-<variant>], for example mamujoco/ant-2x4/partial/fp3o."


def settings_help() -> str:
    """Every name `--set` knows, with its meaning: settings of the learner, then options of each domain."""
    lines = ["Override one value; every departure from the paper is recorded. Settings:"]
    texts = meanings(Settings)
    for name, field in declared(Settings).items():
        only = f" Only {', '.join(field.readers)}." if field.readers else ""
        lines.append(f"• {name} ({field.allowed}): {texts[name]}{only}")
    for domain, kind in OPTIONS.items():
        texts = meanings(kind)
        if texts:
            lines.append(f"Options of {domain} environments:")
        for name, field in declared(kind).items():
            lines.append(f"• {name} ({field.allowed}; default {_shown(field.default)}): {texts[name]}")
    return "\n".join(lines)


def _shown(default: object) -> str:
    return "(none)" if default == "" else shown(default)


def check_number(name: str, value: int, least: int, greatest: int) -> None:
    """UserError for a number of the command line that is out of bounds."""
    if not least <= value <= greatest:
        raise UserError(f"--{name} {shown(value)} is not allowed; allowed: {least} … {greatest}")


def parse_overrides(pairs: Sequence[str]) -> dict[str, config.Scalar]:
    """The values of --set, from texts `name=value`; UserError if a name is given twice."""
    overrides: dict[str, config.Scalar] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UserError(f"--set {pair!r} not understood; allowed: name=value")
        if name in overrides:
            raise UserError(f"--set {name} is given twice: {overrides[name]} and {value}")
        overrides[name] = value
    return overrides


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


@app.command
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
    the_cell = config.Cell.parse(cell)
    chosen = config.load_suite(suite) if out is None else None
    plan = config.resolve(the_cell, parse_overrides(set_), chosen)
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


@app.command
def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    episodes: Annotated[int, arg(metavar="N", help="Deterministic episodes, one per environment.")] = 32,
    seed: Annotated[int, arg(metavar="S", help="Of the episodes' start states; not the run's seed.")] = 0,
    out: Annotated[Path | None, arg(metavar="FILE", help="Also write the episodes as CSV.")] = None,
    trust: Annotated[bool, arg(help="Import the environment's code that run.json names (module:factory).")] = False,
) -> int:
    """Evaluate the final policy of a finished run again."""
    from fp3o.runs import records, verify

    document = records.read_run(run / records.RUN)
    if (named := verify.foreign_code(document)) and not trust:
        raise UserError(f"{run / records.RUN} wants to run code of yours or of a package, {named}; --trust allows it")
    check_number("episodes", episodes, 1, 100_000)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}")
    find_local_modules()
    from fp3o.training.evaluate import evaluate_run

    results = evaluate_run(run, episodes, seed)
    rows = records.final_rows(results)
    if out is not None:
        log = records.CsvLog(out, records.FINAL_COLUMNS)
        log.append(rows)
        log.close()
    print(f"{document['cell']} seed {document['seed']}, {len(results)} episodes from seed {seed}")
    count = len(results)
    returns = sorted(episode.total_return for episode in results)
    print(f"return            {sum(returns) / count:.6g}  (least {returns[0]:.6g}, greatest {returns[-1]:.6g})")
    print(f"return per agent  {sum(episode.return_per_agent for episode in results) / count:.6g}")
    wins = [episode.won for episode in results if episode.won is not None]
    if wins:
        print(f"win rate          {100 * sum(wins) / len(wins):.1f} %")
    print(f"length            {sum(episode.length for episode in results) / count:.6g}")
    return 0


@app.command
def render(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    out: Annotated[Path, arg(metavar="FILE", help="What to write: .webp, .gif, .png or .mp4.")] = Path("episode.webp"),
    seed: Annotated[int, arg(metavar="S", help="Of the start state; not the run's seed.")] = 0,
    every: Annotated[int, arg(metavar="K", help="Draw every K-th step.")] = 2,
    width: Annotated[int, arg(metavar="PIXELS", help="Of the picture.")] = 320,
    height: Annotated[int, arg(metavar="PIXELS", help="Of the picture.")] = 240,
) -> int:
    """Draw one episode of a finished run's final policy (MAMuJoCo and SMAC)."""
    check_number("every", every, 1, 1_000_000)
    check_number("width", width, 2, 8192)
    check_number("height", height, 2, 8192)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    from fp3o.render import render_run

    episode, count = render_run(run, out, seed, every, width, height)
    print(f"{out}: {count} pictures, return {episode.total_return:.6g}, {episode.length} steps")
    return 0


Listed = Literal["cells", "tasks", "algorithms", "variants", "settings", "suites"]


@app.command(name="list")
def list_names(
    what: Annotated[Positional[Listed], arg(help="What to list.")] = "cells",
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Cells of this suite only, with digest and seeds.")] = "",
    match: Annotated[
        str, arg(metavar="PATTERN", help="Only names fitting this pattern, for example '*/none/fp3o*'.")
    ] = "",
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
    elif what == "algorithms":
        lines = [(name,) for name in config.algorithms()]
    elif what == "variants":
        lines = [
            (f"{algorithm}-{name}", about)
            for algorithm in config.algorithms()
            for name, about in config.variants(algorithm).items()
        ]
    elif what == "settings":
        kinds: tuple[type[Any], ...] = (Settings, *OPTIONS.values())
        lines = [
            (field.name, field.allowed, _shown(field.default), text)
            for kind in kinds
            for field, text in zip(declared(kind).values(), meanings(kind).values(), strict=True)
        ]
    else:
        lines = [(name, str(config.load_suite(name).raw["title"])) for name in config.suite_names()]
    for line in lines:
        if not match or fnmatchcase(line[0], match):
            print("\t".join(line))
    return 0


@app.command
def doctor() -> int:
    """Check this machine: what is there, what is missing, and how to get it."""
    from fp3o.doctor import examine, report

    checks = examine()
    print(report(checks))
    return 1 if any(check.required and not check.found for check in checks) else 0


@app.command
def check_env(
    factory: Annotated[
        Positional[str], arg(metavar="MODULE:FACTORY", help="Import path of a function returning a ParallelEnv.")
    ],
    *,
    env_args: Annotated[
        str, arg(metavar="NAME=VALUE,…", help="What the factory is called with; in training --set env_args=….")
    ] = "",
) -> int:
    """Say what of a PettingZoo environment fits this program and what does not."""
    find_local_modules()
    from fp3o.envs.pettingzoo import check

    report = check(factory, env_args)
    print("\n".join(report.lines))
    return 0 if report.fits else 1


@app.command
def status(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    all_: Annotated[bool, arg(name="all", help="Show every cell, also those wholly done or wholly missing.")] = False,
    verify: Annotated[bool, arg(help="Also check every file of every run here against its checksum.")] = False,
) -> int:
    """Show how far a suite has come: done, diverged, resumable, in DVC but not pulled, failed, missing, stale."""
    from fp3o.workflow.status import damaged, examine, lines
    from fp3o.workflow.store import Outcome

    text = lines(examine(config.load_suite(suite)), all_)
    problems: list[str] = []
    if verify:
        count, problems = damaged(suite)
        text.append(f"{count} runs checked, {len(problems)} damaged")
    return _report(Outcome(text, problems))


@app.command
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

    home = config.repository()
    if find_spec("snakemake") is None:
        raise UserError("Snakemake is not installed: pip install 'snakemake>=9.10'")

    chosen = config.load_suite(suite)
    name = config.Cell.parse(cell).id
    blocks = [block for block in blocks_of(chosen, name) if seed is None or seed in block.seeds]
    if not blocks:
        _, seeds = chosen.run(name)
        raise UserError(f"seed {seed} of {name} is not in suite {suite}; allowed: {config.seeds_text(seeds)}")
    # Snakemake runs in the repository's folder and knows files by their names from there.
    folder = Path("results") / suite
    marks = [str(folder / block.next_mark(RETRAIN).relative_to(block.root)) for block in blocks]
    for targets in (marks, [str(folder / "cells" / f"{name}.json")]):
        # Targets first: several of Snakemake's options swallow what follows them.
        command = ["snakemake", *targets, "--config", f"suite={suite}", *(("--dry-run",) if dry_run else ())]
        print(shlex.join(command), flush=True)
        code = subprocess.run([sys.executable, "-m", *command], check=False, cwd=home).returncode
        if code:
            return code
    return 0


@app.command
def save(
    *,
    message: Annotated[str, arg(aliases=("-m",), metavar="TEXT", help="Commit what is staged in git with this.")] = "",
) -> int:
    """Put the paper suite's finished runs into DVC and its store, and stage the rest in git; removes nothing."""
    from fp3o.workflow import store

    config.repository()
    return _report(store.save(message))


@app.command
def pull(
    cells: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="CELL", help="Cells, parts (smac) or patterns ('mpe/*/full/*'); default: all."),
    ] = (),
) -> int:
    """Bring saved runs of the paper suite that are not here, checked byte by byte; never touches a file that is."""
    from fp3o.workflow import store

    config.repository()
    return _report(store.pull(cells))


def _report(outcome: Outcome) -> int:
    """Print what was done and what could not be."""
    print("\n".join(outcome.lines))
    for line in outcome.problems:
        print(f"fp3o: {line}", file=sys.stderr)
    return 1 if outcome.problems else 0


@app.command
def prune(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    delete: Annotated[bool, arg(help="Remove what is listed; without it nothing is touched.")] = False,
) -> int:
    """List (and with --delete remove) superseded and replaced runs, leftovers and stored objects nothing needs."""
    from fp3o.workflow.prune import prune as superseded

    config.repository()
    lines = superseded(config.load_suite(suite), delete)
    print("\n".join(lines) if lines else "nothing to prune")
    return 0


def find_local_modules() -> None:
    """Make modules in the current folder importable, for a user's `module:factory`; installed ones come first."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: a mistake of the user is one line and exit code 2, an interruption 128 + signal."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with interruptible():
            code = app.cli(
                prog="fp3o",
                description="Reproduce the FP3O paper: train, evaluate and compare its cells.",
                args=given,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
        sys.stdout.flush()
    except UserError as error:
        print(f"fp3o: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt as error:
        print(f"fp3o: {error or 'stopped'}", file=sys.stderr)
        code = getattr(error, "exit_code", 128 + signal.SIGINT)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is not None:
            print(f"fp3o: {error}", file=sys.stderr)
            print(f"resume with: {shlex.join(['fp3o', *given])}", file=sys.stderr)
        elif trouble := disk_trouble(error):
            print(f"fp3o: {trouble}", file=sys.stderr)
            code = 2
        else:
            raise
    sys.exit(code)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM as Ctrl-C: one line and the exit code of the signal, wherever it comes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise StoppedEarly(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
