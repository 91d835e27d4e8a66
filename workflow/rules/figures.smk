# Figures: pdf, png and the plotted data as csv.
localrules:
    figure,
    figure_cost,
    figure_reproduction,
    html,


rule figure:
    input:
        runs_of_artefact,
        STATISTICS_CODE,
        FIGURE_CODE,
        PUBLISHED,
        plan=f"{ROOT}/plan/{{artefact}}.json",
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
    shell:
        f"{PYTHON} -m paper_figures --suite {SUITE} --artefact {{wildcards.artefact}}"
        f" --out {ROOT}/figures > {{log}} 2>&1"


rule figure_cost:
    input:
        FIGURE_CODE,
        cost=f"{ROOT}/cost.csv",
    output:
        expand(f"{ROOT}/figures/cost.{{kind}}", kind=FIGURE_KINDS),
    log:
        f"{ROOT}/logs/figure/cost.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m paper_figures.cost --cost {{input.cost}} --out {ROOT}/figures > {{log}} 2>&1"


rule figure_reproduction:
    input:
        runs_of_suite,
        ALL_PLANS,
        STATISTICS_CODE,
        FIGURE_CODE,
        PUBLISHED,
    output:
        expand(f"{ROOT}/figures/reproduction-{{view}}.{{kind}}", view=REPRODUCTION, kind=FIGURE_KINDS),
    log:
        f"{ROOT}/logs/figure/reproduction.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m paper_figures.reproduction --suite {SUITE} --out {ROOT}/figures > {{log}} 2>&1"


# One HTML file that works from disk without a network.
rule html:
    input:
        runs_of_suite,
        ALL_PLANS,
        STATISTICS_CODE,
        REPORT_CODE,
        PUBLISHED,
        FIGURES,
        cost=COST,
    output:
        f"{ROOT}/report/index.html",
    log:
        f"{ROOT}/logs/html.log",
    conda:
        "../../environment.yml"
    shell:
        f"{PYTHON} -m fp3o.report --suite {SUITE} --figures {ROOT}/figures --out {{output}}"
        f" {'--cost ' if COST else ''}{{input.cost}} > {{log}} 2>&1"
