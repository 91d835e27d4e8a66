# Names and helpers of all rules; nothing is decided here that fp3o does not decide, and nothing is written.
import functools
import os
import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

if os.path.isdir(os.path.join(workflow.basedir, "fp3o")):  # A checkout; an installed copy finds itself.
    sys.path.insert(0, workflow.basedir)

from fp3o import machine
from fp3o.config import data_root, load_suite, resolve
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.runs.compressed import lacks_checkpoint
from fp3o.workflow import code, cost, guard, jobs, manifest, missing, resources, stopping, watch
from fp3o.workflow.blocks import Sweep, plans_digest
from fp3o.workflow.options import checked_options
from fp3o.statistics import claim_sources
from fp3o.statistics.tables.columns import cells_of

jobs.reach_commands()


def quoted(text):
    """As one word of a rule's command: for the shell, and for Snakemake, which formats the command."""
    return shlex.quote(str(text)).replace("{", "{{").replace("}", "}}")


try:
    config.update(checked_options(config))
    suite = load_suite(config["suite"])
    planned = suite.runs()
    # Snakemake tells its rules no targets; the words on its command line do.
    sweep = Sweep(suite, available="available" in sys.argv[1:])
    of_a_cell = re.compile(rf"{re.escape(str(layout.suite_root(suite.name)))}/cells/(.+)\.json")
    for word in sys.argv[1:]:
        if asked := of_a_cell.fullmatch(os.path.normpath(word)):
            suite.run(asked[1])  # In an input function, its error would be a traceback.
except UserError as error:
    raise WorkflowError(str(error)) from None

PYTHON = quoted(sys.executable)
SUITE = suite.name
SUITE_ARGUMENT = quoted(suite.argument)
IMPORTS = "".join(f" --import {quoted(file)}" for file in suite.imports)
ROOT = str(layout.suite_root(SUITE))
GPUS = jobs.devices(str(config["gpus"]))
MEMORY_MB = machine.memory_bytes() >> 20
JOBS_PER_GPU = resources.jobs_per_gpu(config["jobs_per_gpu"], machine.processors(), machine.has_mps())

# Parts of a job's command line that do not belong to any rule. The profile hides the blocks of jobs, and with them the
# logs of those that fail: their commands show the end of them.
SHOW_LOG = "tail -n 20 {log:q} >&2"
OR_SHOW_LOG = f" || {{{{ code=$?; {SHOW_LOG}; exit $code; }}}}"
LOGGED = f" > {{log:q}} 2>&1{OR_SHOW_LOG}"
JOB = f"{PYTHON} -m fp3o.workflow.jobs --gpus {quoted(config['gpus'])} --per-gpu {JOBS_PER_GPU}"


wildcard_constraints:
    cell=r"[^/]+/[^/]+/[^/]+/[^/]+",
    digest=r"[0-9a-f]{10}",
    seeds=r"[0-9,-]+",
    number=r"\d+",
    artefact=r"[a-z0-9-]+",


def artefact_names(kind):
    return [artefact.name for artefact in suite.artefacts if artefact.kind == kind]


def runs_of_cell(wildcards):
    return sweep.needs([wildcards.cell])


def runs_of_artefact(wildcards):
    # A table of the paper also shows our equal-budget control.
    return sweep.needs([cell.id for cell in cells_of(suite, suite.artefact(wildcards.artefact))])


def runs_of_suite(wildcards):
    return sweep.needs([plan.cell.id for plan, _ in planned])


def runs_of_others(wildcards):
    """Runs of other suites that claims read where they exist; none of them is trained for that."""
    return [near(path) for path in claim_sources.existing_runs(suite)]


def numbers_read(wildcards):
    """The table from whose numbers a figure is drawn."""
    reads = suite.artefact(wildcards.artefact).reads
    return [f"{ROOT}/{suite.artefact(reads).numbers}"] if reads else []


def near(path):
    """As Snakemake knows files: by their names from here, where they lie below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def code_of(module):
    """An input function, called for planned jobs alone, because reading imports takes a third of a second."""
    return lambda wildcards: [near(path) for path in code.files_of(module)]


def code_of_figure(wildcards):
    script = suite.artefact(wildcards.artefact).script
    if script.endswith(".py"):
        return [*code_of("paper_figures")(wildcards), near(suite.file.parent / script)]
    return sorted({*code_of("paper_figures")(wildcards), *code_of(f"paper_figures.{script}")(wildcards)})


def cost_runs(wildcards):
    cells = [cell for artefact in suite.artefacts if artefact.kind == "cost" for cell in artefact.cells]
    names = [str(cost.measurement_path(SUITE, resolve(cell, suite=suite))) for cell in cells]
    names += filter(os.path.exists, [str(cost.interleaved_path(SUITE))])
    return [name for name in names if os.path.exists(name)] if sweep.available else names


def run_of_film(cell):
    """The run whose episode is shown: that of the cell's first seed."""
    plan, seeds = suite.run(cell)
    return layout.run_directory(Path(ROOT) / "runs", plan, seeds[0])


def has_film(cell):
    """Whether the run will be there, with the checkpoint that plays."""
    run = run_of_film(cell)
    return not lacks_checkpoint(run) and (not sweep.available or (run / "run.json").exists())


def films(wildcards):
    return [f"{ROOT}/films/{cell}.webp" for cell in suite.films if has_film(cell)]


def plan_of_cell(wildcards):
    return plans_digest(suite, [wildcards.cell])


def plan_of_artefact(wildcards):
    artefact = suite.artefact(wildcards.artefact)
    cells = [cell.id for cell in artefact.cells]
    said = [artefact.name, artefact.caption, artefact.paper, artefact.script, artefact.reads, cells, artefact.seeds]
    said += [artefact.baseline] * bool(artefact.baseline)
    if artefact.states_facts:  # Like tables of facts: what it shows may follow any setting.
        return plans_digest(suite, [plan.cell.id for plan, _ in planned], said)
    return plans_digest(suite, [cell.id for cell in cells_of(suite, artefact)], said)


def plan_of_facts(wildcards):
    artefact = suite.artefact(wildcards.artefact)
    said = [artefact.name, artefact.caption, artefact.paper]
    return plans_digest(suite, [plan.cell.id for plan, _ in planned], said)


def plan_of_suite(wildcards):
    return plans_digest(suite, [plan.cell.id for plan, _ in planned], suite.raw)


def work_of_jobs():
    """Processor seconds of every block that is missing, by its cell and seeds. Known once all inputs are."""
    return {key: resources.work_seconds(plan, seeds) for key, (plan, seeds) in sweep.jobs.items()}


@functools.cache
def division(known):
    """Work and threads of all jobs; known: how many there are so far, so that it is computed once for them all."""
    cores = workflow.cores or 1  # None: a cluster, where a job sees its own allocation
    at_once = min(cores, len(GPUS) * JOBS_PER_GPU) if GPUS else cores
    found = work_of_jobs()
    return found, resources.threads_of_jobs(found, cores, at_once)


def work(wildcards):
    """The longest jobs first, so that none is left alone at the end; last those that train finished runs again."""
    return division(len(sweep.jobs))[0].get((wildcards.cell, wildcards.seeds), 0.0)


def threads(wildcards):
    return division(len(sweep.jobs))[1].get((wildcards.cell, wildcards.seeds), 1)


def memory_mb(wildcards, attempt):
    return resources.needed_mb("memory_mib", wildcards.cell, attempt)


def memory_share(wildcards, attempt):
    return resources.memory_share(resources.needed_mb("memory_mib", wildcards.cell, attempt), MEMORY_MB)


@functools.cache
def gpu_mb():
    """Asked for when a job is planned, and once: nvidia-smi may take seconds."""
    return machine.gpu_memory_mib(GPUS)


def device_slots(wildcards, attempt):
    return resources.device_slots(resources.needed_mb("gpu_mib", wildcards.cell, attempt), gpu_mb(), JOBS_PER_GPU)


def device_share(wildcards, attempt):
    return resources.device_share(device_slots(wildcards, attempt), len(GPUS), JOBS_PER_GPU)


def artefacts_of_what_exists(wildcards):
    if not sweep.available:  # Asked for by other means than the command line: jobs would train what is missing.
        raise WorkflowError("`available` works on the command line only: snakemake available")
    return ARTEFACTS


def stop_unless_pulled():
    try:
        message = guard.refusal(SUITE, sweep.missing, training=not sweep.available)
        for line in guard.notices(suite):
            print(line, file=sys.stderr)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    if message and not config["retrain"]:
        raise WorkflowError(message)


def dry_run():
    """Whether this is `snakemake -n`; while files are read, only the command line knows."""
    return any(re.fullmatch(r"--dry-?run|-[a-zA-Z]*n[a-zA-Z]*", word) for word in sys.argv[1:])


def describe_what_is_missing():
    """Before the plan of a dry run."""
    for line in missing.summary(suite, workflow.cores or machine.processors(), len(GPUS)):
        print(line, file=sys.stderr)


def watch_jobs():
    """Say how far all jobs are, once a minute; and how a GPU that they share is used well."""
    if (jobs_left := work_of_jobs()) and not sweep.available:
        if GPUS and not machine.has_mps():
            print("MPS is off: jobs take turns on a GPU; start it with: nvidia-cuda-mps-control -d", file=sys.stderr)
        watch.Watch(jobs_left, Path(ROOT) / "logs/train").start()


def stop_jobs_with_us():
    """Jobs on a cluster are the cluster's."""
    if workflow.local_exec:
        stopping.Stopping().start()


def look_for_jobs_when_one_ends():
    """And at no other time. To start at most 100 jobs a second, Snakemake (9.27) also looks once a second for every job
    that has ended: 157 times for 17 jobs. The limit is for clusters, which keep it."""
    scheduler = getattr(workflow, "scheduler", None)  # Not documented: without it, only time is lost.
    if workflow.local_exec and scheduler is not None:
        scheduler.job_rate_limiter = None


def summarise_failures():
    for line in manifest.report_failures(suite):
        print(line, file=sys.stderr)


PUBLISHED = sorted(near(path) for path in (data_root() / "benchmarks/published").glob("*.*"))
TABLES = [f"{ROOT}/tables/{name}.{kind}" for name in artefact_names("table") for kind in ("csv", "md", "tex")]
FACTS = [f"{ROOT}/tables/{name}.{kind}" for name in artefact_names("facts") for kind in ("csv", "md", "tex")]
ORDERS = [f"{ROOT}/tables/{name}.{kind}" for name in artefact_names("orders") for kind in ("csv", "md", "tex")]
COST = [f"{ROOT}/cost.csv"] if artefact_names("cost") else []
ROBUSTNESS = [f"{ROOT}/tables/robustness.{kind}" for kind in ("csv", "md")]
COST_TABLES = [f"{ROOT}/tables/table-cost.{kind}" for kind in ("csv", "md", "tex") if COST]
SUMMARIES = [f"{ROOT}/{name}" for name in ("manifest.json", "metrics.json", "curves", "scorecard.json")]
SCORES = [f"{ROOT}/scores/{name}" for name in ("scores.csv", "marl_eval.json")]
FIGURES = [f"{ROOT}/figures/{name}.{kind}" for name in artefact_names("figure") for kind in ("pdf", "png", "csv")]
ARTEFACTS = [
    *TABLES,
    *FACTS,
    *ORDERS,
    *ROBUSTNESS,
    *COST_TABLES,
    *FIGURES,
    *SUMMARIES,
    *SCORES,
    f"{ROOT}/report/index.html",
]
