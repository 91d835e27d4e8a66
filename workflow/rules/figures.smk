# Figures: pdf, png and the plotted data as csv.
localrules:
    figure,
    figure_cost,
    figure_reproduction,
    html,


rule figure:
    input:
        runs_of_artefact,
        code_of("paper_figures"),
        PUBLISHED,
    output:
        pdf=f"{ROOT}/figures/{{artefact}}.pdf",
        png=report(f"{ROOT}/figures/{{artefact}}.png", caption="../report/figure.rst", category="Figures"),
        csv=f"{ROOT}/figures/{{artefact}}.csv",
    log:
        f"{ROOT}/logs/figure/{{artefact}}.log",
    wildcard_constraints:
        artefact="|".join(artefact_names("figure")),
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_artefact,
    shell:
        f"{PYTHON} -m paper_figures --suite {quoted(SUITE)} --artefact {{wildcards.artefact}}"
        f" --out {quoted(ROOT)}/figures > {{log:q}} 2>&1"


rule figure_cost:
    input:
        code_of("paper_figures.cost"),
        PUBLISHED,
        cost=f"{ROOT}/cost.csv",
    output:
        expand(f"{ROOT}/figures/cost.{{kind}}", kind=FIGURE_KINDS),
    log:
        f"{ROOT}/logs/figure/cost.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m paper_figures.cost --cost {{input.cost:q}} --out {quoted(ROOT)}/figures > {{log:q}} 2>&1"


rule figure_reproduction:
    input:
        runs_of_suite,
        code_of("paper_figures.reproduction"),
        PUBLISHED,
    output:
        expand(f"{ROOT}/figures/reproduction-{{view}}.{{kind}}", view=REPRODUCTION, kind=FIGURE_KINDS),
    log:
        f"{ROOT}/logs/figure/reproduction.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    shell:
        f"{PYTHON} -m paper_figures.reproduction --suite {quoted(SUITE)} --out {quoted(ROOT)}/figures > {{log:q}} 2>&1"


# One HTML file that works from disk without a network.
rule html:
    input:
        runs_of_suite,
        code_of("fp3o.report"),
        PUBLISHED,
        FIGURES,
        cost=COST,
    output:
        f"{ROOT}/report/index.html",
    log:
        f"{ROOT}/logs/html.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    shell:
        f"{PYTHON} -m fp3o.report --suite {quoted(SUITE)} --figures {ROOT}/figures --out {{output:q}}"
        f" {'--cost ' if COST else ''}{{input.cost:q}} > {{log:q}} 2>&1"
