# From runs to numbers. The code and the plan of an artefact are inputs, so that an edit rebuilds what it concerns.
localrules:
    cell,
    table,
    manifest,
    metrics,
    scorecard,
    scores,


rule cell:
    input:
        runs_of_cell,
    output:
        f"{ROOT}/cells/{{cell}}.json",
    log:
        f"{ROOT}/logs/cell/{{cell}}.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest cell {{wildcards.cell}} --suite {SUITE} > {{log}} 2>&1"


rule table:
    input:
        runs_of_artefact,
        STATISTICS_CODE,
        PUBLISHED,
        plan=f"{ROOT}/plan/{{artefact}}.json",
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
    shell:
        f"{PYTHON} -m fp3o.statistics.tables --suite {SUITE} --artefact {{wildcards.artefact}}"
        f" --out {ROOT}/tables > {{log}} 2>&1"


rule manifest:
    input:
        runs_of_suite,
        ALL_PLANS,
    output:
        f"{ROOT}/manifest.json",
    log:
        f"{ROOT}/logs/manifest.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest manifest --suite {SUITE} > {{log}} 2>&1"


rule metrics:
    input:
        runs_of_suite,
        ALL_PLANS,
        STATISTICS_CODE,
    output:
        f"{ROOT}/metrics.json",
    log:
        f"{ROOT}/logs/metrics.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.workflow.manifest metrics --suite {SUITE} > {{log}} 2>&1"


rule scorecard:
    input:
        runs_of_suite,
        STATISTICS_CODE,
        PUBLISHED,
        ALL_PLANS,
        cost=COST,
    output:
        f"{ROOT}/scorecard.json",
    log:
        f"{ROOT}/logs/scorecard.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.statistics.scorecard --suite {SUITE} --out {{output}}"
        f" {'--cost ' if COST else ''}{{input.cost}} > {{log}} 2>&1"


rule scores:
    input:
        runs_of_suite,
        ALL_PLANS,
        STATISTICS_CODE,
    output:
        f"{ROOT}/scores/scores.csv",
        f"{ROOT}/scores/marl_eval.json",
    log:
        f"{ROOT}/logs/scores.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.statistics.export --suite {SUITE} --out {ROOT}/scores > {{log}} 2>&1"
