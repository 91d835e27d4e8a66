# Cost: one seed by itself. A job takes every core and every GPU slot, so nothing else runs beside it.
localrules:
    cost,
    table_cost,


rule cost_run:
    output:
        f"{ROOT}/cost/{{cell}}/{{digest}}.json",
    log:
        f"{ROOT}/logs/cost/{{cell}}/{{digest}}.log",
    conda:
        "../../environment.yml"
    threads: os.cpu_count()
    shell:
        f"{JOB} --exclusive --log {{log}} -- {PYTHON} -m fp3o.workflow.cost measure {{wildcards.cell}} --suite {SUITE}"


rule cost:
    input:
        cost_runs,
        [plan_file(name) for name in artefact_names("cost")],
    output:
        f"{ROOT}/cost.csv",
    log:
        f"{ROOT}/logs/cost.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.workflow.cost table --suite {SUITE} > {{log}} 2>&1"


rule table_cost:
    input:
        STATISTICS_CODE,
        PUBLISHED,
        cost=f"{ROOT}/cost.csv",
    output:
        csv=f"{ROOT}/tables/table-cost.csv",
        md=report(f"{ROOT}/tables/table-cost.md", caption="../report/cost.rst", category="Tables"),
    log:
        f"{ROOT}/logs/table/table-cost.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.statistics.cost --cost {{input.cost}} --out {ROOT}/tables/table-cost > {{log}} 2>&1"
