# Training: one job per seed block. Its only output is a mark (fp3o/workflow/blocks.py): Snakemake deletes outputs before
# a job starts and after it fails, and runs are not to be deleted. No input, no params, no script: nothing attached to
# these rules may start weeks of work again. What a run depends on is in its path, as a digest.
# Commands are made when a job starts, so they may use names of this file, but no variable of a loop.
CELLS = "|".join(re.escape(resolved.cell.id) for resolved, _ in planned)
TRAIN = (
    f"{JOB} --slots {{resources.device_slots}} --log {{log:q}} -- fp3o train {{wildcards.cell:q}}"
    f" --suite {SUITE_ARGUMENT} --seeds {{wildcards.seeds}} --digest {{wildcards.digest}} --threads {{threads}}"
    " --mark {output:q}"
)
# What fails leaves its exit code in the log.
OR_NOTE_CODE = f' || {{{{ code=$?; echo "--- exit code $code" >> {{log:q}}; {SHOW_LOG}; exit $code; }}}}'
RETRAIN_OPTION = " --retrain" if config["retrain"] else ""


rule train:
    output:
        f"{ROOT}/marks/{{cell}}/{{digest}}-s{{seeds}}.train-{{number}}",
    log:
        f"{ROOT}/logs/train/{{cell}}/{{digest}}-s{{seeds}}.train-{{number}}.log",
    wildcard_constraints:
        cell=CELLS,
    priority: work
    conda:
        "../../environment.yml"
    threads: threads
    resources:
        mem_mb=memory_mb,
        memory_share=memory_share,
        device_slots=device_slots,
        device_share=device_share,
    shell:
        f"{TRAIN}{RETRAIN_OPTION}{OR_NOTE_CODE}"


# Finished runs again: `fp3o rerun`.
rule retrain:
    output:
        f"{ROOT}/marks/{{cell}}/{{digest}}-s{{seeds}}.retrain-{{number}}",
    log:
        f"{ROOT}/logs/train/{{cell}}/{{digest}}-s{{seeds}}.retrain-{{number}}.log",
    wildcard_constraints:
        cell=CELLS,
    priority: work
    conda:
        "../../environment.yml"
    threads: threads
    resources:
        mem_mb=memory_mb,
        memory_share=memory_share,
        device_slots=device_slots,
        device_share=device_share,
    shell:
        f"{TRAIN} --replace{OR_NOTE_CODE}"
