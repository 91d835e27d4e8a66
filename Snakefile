# The whole reproduction. `snakemake` trains what is missing and builds every table, figure and the report;
# `snakemake available` builds them from the runs that exist and trains nothing; `snakemake -n` says what would be done.
# Suite: `snakemake --config suite=quick`, or the path of a suite of your own.
from snakemake.utils import min_version

min_version("9.27")  # Whose priorities may be functions


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/cost.smk"


# The runs are listed by themselves: a table that looks fresh would hide a run that is missing below it.
rule all:
    default_target: True
    input:
        runs_of_suite,
        ARTEFACTS,
    message:
        "all tables and figures"


rule runs:
    input:
        runs_of_suite,
    message:
        "all runs"


# Inputs of the statistics are then the runs that exist: common.smk.
rule available:
    input:
        artefacts_of_what_exists,
    message:
        "all tables and figures of the runs that exist"


if dry_run():
    describe_what_is_missing()


onstart:
    stop_unless_pulled()
    watch_jobs()
    stop_jobs_with_us()
    look_for_jobs_when_one_ends()


onerror:
    summarise_failures()


onsuccess:
    summarise_failures()
