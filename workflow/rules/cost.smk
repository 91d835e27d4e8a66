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
    resources:
        mem_mb=memory_mb,
        memory_share=resources.WHOLE,
        device_share=resources.WHOLE,
    shell:
        f"{JOB} --exclusive --log {{log:q}} -- {PYTHON} -m fp3o.workflow.cost measure {{wildcards.cell:q}}"
        f" --suite {SUITE_ARGUMENT} --digest {{wildcards.digest}}{OR_SHOW_LOG}"


rule cost:
    input:
        cost_runs,
        code_of("fp3o.workflow.cost"),
    output:
        f"{ROOT}/cost.csv",
    log:
        f"{ROOT}/logs/cost.log",
    priority: 1  # The scorecard waits for it.
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "costs of the cells"
    shell:
        f"{PYTHON} -m fp3o.workflow.cost table --suite {SUITE_ARGUMENT}{LOGGED}"


rule table_cost:
    input:
        code_of("fp3o.statistics.cost"),
        PUBLISHED,
        cost=f"{ROOT}/cost.csv",
    output:
        csv=f"{ROOT}/tables/table-cost.csv",
        md=report(f"{ROOT}/tables/table-cost.md", caption="../report/cost.rst", category="Tables"),
        tex=f"{ROOT}/tables/table-cost.tex",
    log:
        f"{ROOT}/logs/table/table-cost.log",
    conda:
        "../../environment.yml"
    message:
        "table table-cost"
    shell:
        f"{PYTHON} -m fp3o.statistics.cost --suite {SUITE_ARGUMENT} --cost {{input.cost:q}}"
        f" --out {quoted(ROOT)}/tables/table-cost{LOGGED}"
