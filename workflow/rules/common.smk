# Names and helpers of all rules; nothing is decided here that fp3o.config does not decide.
import base64
import json
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, workflow.basedir)

from fp3o.config import load_suite, resolve, seed_blocks, seeds_text
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.workflow import cost, jobs, manifest
from fp3o.statistics.columns import cells_of

jobs.reach_commands()

PYTHON = sys.executable
SUITE = config["suite"]
ROOT = str(layout.suite_root(SUITE))
try:
    suite = load_suite(SUITE)
    planned = suite.runs()
except UserError as error:
    raise WorkflowError(str(error)) from None

# Parts of a job's command line that do not belong to any rule.
JOB = f"{PYTHON} -m fp3o.workflow.jobs --gpus {config['gpus']} --per-gpu {config['jobs_per_gpu']}"


wildcard_constraints:
    cell=r"[^/]+/[^/]+/[^/]+/[^/]+",
    digest=r"[0-9a-f]{10}",
    artefact=r"[a-z0-9-]+",


def run_file(resolved, seed, name):
    return f"{ROOT}/runs/{resolved.cell.id}/{resolved.digest}/seed-{seed}/{name}"


def artefact_names(*kinds):
    return [artefact.name for artefact in suite.artefacts if artefact.kind in kinds]


def only_available():
    """Whether `snakemake available` was asked for. Known only once the DAG is built: call from input functions."""
    return "available" in workflow.dag_settings.targets


def documents(cells):
    """run.json of every planned run of these cells, or of those that exist."""
    names = [
        run_file(resolved, seed, "run.json")
        for resolved, seeds in (suite.run(cell) for cell in cells)
        for seed in seeds
    ]
    return [name for name in names if os.path.exists(name)] if only_available() else names


def runs_of_cell(wildcards):
    return documents([wildcards.cell])


def runs_of_artefact(wildcards):
    # A table of the paper also shows our equal-budget control.
    return documents([cell.id for cell in cells_of(suite, suite.artefact(wildcards.artefact))])


def runs_of_suite(wildcards):
    return documents([resolved.cell.id for resolved, _ in planned])


def cost_runs(wildcards):
    cells = [cell for artefact in suite.artefacts if artefact.kind == "cost" for cell in artefact.cells]
    names = [str(cost.measurement_path(SUITE, resolve(cell, suite=suite))) for cell in cells]
    return [name for name in names if os.path.exists(name)] if only_available() else names


def plan_file(name):
    return f"{ROOT}/plan/{name}.json"


def write_plans():
    """What each artefact is made of, as files: a changed plan is a changed input, an equal one keeps its time."""
    for artefact in suite.artefacts:
        if artefact.kind == "cost":
            cells = [(resolve(cell, suite=suite), artefact.seeds) for cell in artefact.cells]
        else:
            cells = [suite.run(cell.id) for cell in cells_of(suite, artefact)]
        content = {
            "artefact": artefact.name,
            "kind": artefact.kind,
            "caption": artefact.caption,
            "paper": artefact.paper,
            "cells": [[resolved.cell.id, resolved.digest, list(seeds)] for resolved, seeds in cells],
        }
        path = Path(plan_file(artefact.name))
        text = json.dumps(content, indent=1, sort_keys=True)
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(text)
            part.replace(path)


def stop_unless_pulled():
    if not config["retrain"] and (message := manifest.guard_message(suite)):
        raise WorkflowError(message)


def trust_finished_runs():
    """Drop Snakemake's marks of interrupted jobs from runs that are complete: run.json is written last.

    Otherwise a run finished by hand after an interrupted job would be deleted and trained again.
    """
    marks = Path(".snakemake/incomplete")
    for mark in [path for path in marks.rglob("*") if path.is_file()]:
        # The marked path in base 64; a long one is cut into folders, each with an @ in front.
        name = "".join(part.removeprefix("@") for part in mark.relative_to(marks).parts)
        path = Path(os.fsdecode(base64.urlsafe_b64decode(name)))
        if path.is_relative_to(f"{ROOT}/runs") and (path.parent / "run.json").exists():
            mark.unlink(missing_ok=True)


def summarise_failures():
    for line in manifest.report_failures(suite):
        print(line, file=sys.stderr)


write_plans()
trust_finished_runs()

ALL_PLANS = [plan_file(artefact.name) for artefact in suite.artefacts]
RUNS = [run_file(resolved, seed, name) for resolved, seeds in planned for seed in seeds for name in layout.RUN_FILES]
STATISTICS_CODE = sorted(str(p) for p in Path("fp3o/statistics").glob("*.py"))
FIGURE_CODE = sorted(str(p) for p in Path("paper_figures").glob("*.*"))
REPORT_CODE = sorted(str(p) for p in Path("fp3o/report").glob("*.*"))
FIGURE_KINDS = ("pdf", "png", "csv")
REPRODUCTION = ("forest", "scatter", "profiles")
PUBLISHED = sorted(str(p) for p in Path("benchmarks/published").glob("*.csv"))
TABLES = [f"{ROOT}/tables/{name}.{kind}" for name in artefact_names("table") for kind in ("csv", "md", "tex")]
COST = [f"{ROOT}/cost.csv"] if artefact_names("cost") else []
COST_TABLES = [f"{ROOT}/tables/table-cost.{kind}" for kind in ("csv", "md") if COST]
SUMMARIES = [f"{ROOT}/{name}" for name in ("manifest.json", "metrics.json", "scorecard.json")]
SCORES = [f"{ROOT}/scores/{name}" for name in ("scores.csv", "marl_eval.json")]
FIGURE_NAMES = [
    *artefact_names("figure"),
    *(f"reproduction-{view}" for view in REPRODUCTION),
    *(["cost"] if COST else []),
]
FIGURES = [f"{ROOT}/figures/{name}.{kind}" for name in FIGURE_NAMES for kind in FIGURE_KINDS]
ARTEFACTS = [*TABLES, *COST_TABLES, *FIGURES, *SUMMARIES, *SCORES, f"{ROOT}/report/index.html"]
