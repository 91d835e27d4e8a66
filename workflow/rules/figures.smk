# Figures: pdf, png and the plotted data as csv, each by the script of paper_figures/ that the suite names. Films, the report.
localrules:
    figure,
    film,
    html,


rule figure:
    input:
        runs_of_artefact,
        numbers_read,
        code_of_figure,
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
    message:
        "figure {wildcards.artefact}"
    shell:
        f"{PYTHON} -m paper_figures --suite {SUITE_ARGUMENT} --artefact {{wildcards.artefact}}"
        f" --out {quoted(ROOT)}/figures{LOGGED}"


rule film:
    input:
        runs_of_cell,
        code_of("fp3o.render"),
    output:
        f"{ROOT}/films/{{cell}}.webp",
    log:
        f"{ROOT}/logs/film/{{cell}}.log",
    wildcard_constraints:
        cell=CELLS,
    conda:
        "../../environment.yml"
    params:
        run=lambda wildcards: run_of_film(wildcards.cell),
    message:
        "film of {wildcards.cell}"
    shell:
        f"{PYTHON} -m fp3o render {{params.run:q}} --trust --out {{output:q}}{IMPORTS}{LOGGED}"


# HTML that works from disk without a network; curves of sweeps go beside it.
rule html:
    input:
        runs_of_suite,
        code_of("fp3o.report"),
        PUBLISHED,
        FIGURES,
        ROBUSTNESS[0],
        films,
        scorecard=f"{ROOT}/scorecard.json",
        cost=COST,
    output:
        f"{ROOT}/report/index.html",
    log:
        f"{ROOT}/logs/html.log",
    conda:
        "../../environment.yml"
    params:
        plan=plan_of_suite,
    message:
        "report"
    shell:
        f"{PYTHON} -m fp3o.report --suite {SUITE_ARGUMENT} --figures {ROOT}/figures --out {{output:q}}"
        f" --scorecard {{input.scorecard:q}}"
        f" {'--cost ' if COST else ''}{{input.cost:q}}{LOGGED}"
