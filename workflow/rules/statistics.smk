# From runs to numbers. An artefact's code is an input and its plan a parameter, so that an edit rebuilds what it concerns.
# `message` here and in the targets: without it Snakemake would print the names of all the runs that a job reads.
localrules:
    cell,
    table,
    facts,
    orders,
    manifest,
    metrics,
    curves,
    scorecard,
    robustness,
    scores,


rule cell:
    input:
        runs_of_cell,
        code_of("fp3o.workflow.manifest"),
    output:
        f"{ROOT}/cells/{{cell}}.json",
    log:
        f"{ROOT}/logs/cell/{{cell}}.log",
    wildcard_constraints:
        cell=CELLS,
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_cell,
    message:
        "cell {wildcards.cell}"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest cell {{wildcards.cell:q}} --suite {SUITE_ARGUMENT}{LOGGED}"


rule table:
    input:
        runs_of_artefact,
        code_of("fp3o.statistics.tables"),
        PUBLISHED,
    output:
        csv=f"{ROOT}/tables/{{artefact}}.csv",
        md=report(f"{ROOT}/tables/{{artefact}}.md", caption="../report/table.rst", category="Tables"),
        tex=f"{ROOT}/tables/{{artefact}}.tex",
    log:
        f"{ROOT}/logs/table/{{artefact}}.log",
    wildcard_constraints:
        artefact="|".join(artefact_names("table")),
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_artefact,
    message:
        "table {wildcards.artefact}"
    shell:
        f"{PYTHON} -m fp3o.statistics.tables --suite {SUITE_ARGUMENT} --artefact {{wildcards.artefact}}"
        f" --out {quoted(ROOT)}/tables{LOGGED}"


# What the code says of itself beside what the paper says: no runs.
rule facts:
    input:
        code_of("fp3o.statistics.facts"),
        PUBLISHED,
    output:
        csv=f"{ROOT}/tables/{{artefact}}.csv",
        md=report(f"{ROOT}/tables/{{artefact}}.md", caption="../report/table.rst", category="Tables"),
        tex=f"{ROOT}/tables/{{artefact}}.tex",
    log:
        f"{ROOT}/logs/table/{{artefact}}.log",
    wildcard_constraints:
        artefact="|".join(artefact_names("facts")) or "(?!)",  # Nothing: not any name.
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_facts,
    message:
        "table {wildcards.artefact}"
    shell:
        f"{PYTHON} -m fp3o.statistics.facts --suite {SUITE_ARGUMENT} --artefact {{wildcards.artefact}}"
        f" --out {quoted(ROOT)}/tables{LOGGED}"


# Two algorithms under variants of their environment.
rule orders:
    input:
        runs_of_artefact,
        code_of("fp3o.statistics.orders"),
    output:
        csv=f"{ROOT}/tables/{{artefact}}.csv",
        md=report(f"{ROOT}/tables/{{artefact}}.md", caption="../report/table.rst", category="Tables"),
        tex=f"{ROOT}/tables/{{artefact}}.tex",
    log:
        f"{ROOT}/logs/table/{{artefact}}.log",
    wildcard_constraints:
        artefact="|".join(artefact_names("orders")) or "(?!)",  # Nothing: not any name.
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_artefact,
    message:
        "table {wildcards.artefact}"
    shell:
        f"{PYTHON} -m fp3o.statistics.orders --suite {SUITE_ARGUMENT} --artefact {{wildcards.artefact}}"
        f" --out {quoted(ROOT)}/tables{LOGGED}"


rule manifest:
    input:
        runs_of_suite,
        code_of("fp3o.workflow.manifest"),
    output:
        f"{ROOT}/manifest.json",
    log:
        f"{ROOT}/logs/manifest.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "manifest of the runs"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest manifest --suite {SUITE_ARGUMENT}{LOGGED}"


rule metrics:
    input:
        runs_of_suite,
        code_of("fp3o.workflow.manifest"),
    output:
        f"{ROOT}/metrics.json",
    log:
        f"{ROOT}/logs/metrics.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "metrics of the cells"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest metrics --suite {SUITE_ARGUMENT}{LOGGED}"


rule curves:
    input:
        runs_of_suite,
        code_of("fp3o.statistics.curves"),
    output:
        directory(f"{ROOT}/curves"),
    log:
        f"{ROOT}/logs/curves.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "learning curves of the cells"
    shell:
        f"{PYTHON} -m fp3o.statistics.curves --suite {SUITE_ARGUMENT} --out {{output:q}}{LOGGED}"


rule scorecard:
    input:
        runs_of_suite,
        runs_of_others,
        code_of("fp3o.statistics.scorecard"),
        PUBLISHED,
        cost=COST,
    output:
        f"{ROOT}/scorecard.json",
    log:
        f"{ROOT}/logs/scorecard.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "scorecard: verdicts and claims"
    shell:
        f"{PYTHON} -m fp3o.statistics.scorecard --suite {SUITE_ARGUMENT} --out {{output:q}}"
        f" {'--cost ' if COST else ''}{{input.cost:q}}{LOGGED}"


# Every verdict under other choices of the analysis. The report waits for this and the scorecard, which take longest: first.
rule robustness:
    input:
        runs_of_suite,
        runs_of_others,
        code_of("fp3o.statistics.robustness"),
        PUBLISHED,
    output:
        csv=f"{ROOT}/tables/robustness.csv",
        md=report(f"{ROOT}/tables/robustness.md", caption="../report/table.rst", category="Tables"),
    log:
        f"{ROOT}/logs/robustness.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "robustness of the verdicts"
    shell:
        f"{PYTHON} -m fp3o.statistics.robustness --suite {SUITE_ARGUMENT} --out {quoted(ROOT)}/tables{LOGGED}"


rule scores:
    input:
        runs_of_suite,
        code_of("fp3o.statistics.export"),
    output:
        f"{ROOT}/scores/scores.csv",
        f"{ROOT}/scores/marl_eval.json",
    log:
        f"{ROOT}/logs/scores.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "scores of the runs"
    shell:
        f"{PYTHON} -m fp3o.statistics.export --suite {SUITE_ARGUMENT} --out {quoted(ROOT)}/scores{LOGGED}"
