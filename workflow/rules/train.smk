# Training: one rule per seed block. No input, no params, no script: nothing attached to these rules may start weeks of
# work again. What a run depends on is in its path, as a digest. A run that was interrupted or failed resumes from
# results/<suite>/scratch, which is no declared output, because Snakemake deletes those before a job starts.
BLOCKS = {}
for resolved, seeds in planned:
    for block in seed_blocks(seeds, suite.seed_block):
        BLOCKS.setdefault(block, []).append(resolved.cell.id)

for block, cells in BLOCKS.items():

    rule:
        name:
            f"train_s{block[0]}_{block[-1]}"
        output:
            [f"{ROOT}/runs/{{cell}}/{{digest}}/seed-{seed}/{file}" for seed in block for file in layout.RUN_FILES],
        log:
            f"{ROOT}/logs/train/{{cell}}/{{digest}}-s{block[0]}_{block[-1]}.log",
        wildcard_constraints:
            cell="|".join(cells),
        conda:
            "../../environment.yml"
        threads: 1
        shell:
            f"{JOB} --log {{log}} -- fp3o train {{wildcards.cell}} --suite {SUITE} --seeds {seeds_text(block)}"
            " --threads {threads}"
            ' || {{ code=$?; echo "--- exit code $code" >> {log}; exit $code; }}'
