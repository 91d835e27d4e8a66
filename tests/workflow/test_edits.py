"""Which edit trains what again. The expensive mistake is one cell too many, the silent one a cell too few."""

from __future__ import annotations

import os
import re

import pytest
from harness import Checkout, jobs_in

pytestmark = pytest.mark.workflow

ANT = {"mamujoco/ant-2x4/full/fp3o 0-4", "mamujoco/ant-2x4/full/mappo 0-4"}


def test_one_tasks_setting_trains_that_task_and_a_reverted_edit_finds_the_old_runs(trained: Checkout) -> None:
    old = "ant-2x4:\n        settings: {clip: 0.2"
    trained.edit("benchmarks/tasks.yaml", old, old.replace("0.2", "0.3"))
    cells, jobs = trained.plan()
    assert cells == ANT
    assert (jobs["train"], jobs["table"]) == (2, 1)
    trained.edit("benchmarks/tasks.yaml", old.replace("0.2", "0.3"), old)
    assert trained.planned_jobs() == {}


def test_swapped_values_are_noticed(trained: Checkout) -> None:
    # Snakemake's own comparison of parameters is a set of values without names.
    trained.edit("benchmarks/tasks.yaml", "gamma: 0.99 # Table mujoco1", "gamma: 0.95 # Table mujoco1")
    trained.edit("benchmarks/tasks.yaml", "gae_lambda: 0.95 # Table mujoco1", "gae_lambda: 0.99 # Table mujoco1")
    cells = trained.trainings()
    assert len(cells) == 4
    assert all(cell.startswith("mamujoco/") for cell in cells)


def test_cosmetic_edits_and_a_variants_setting_concern_no_cell(trained: Checkout) -> None:
    """Nor is anything to do without them."""
    assert len(trained.documents()) == 30
    trained.edit("benchmarks/tasks.yaml", "double_clip: true", "double_clip: true, clip_others: 0.3")
    trained.edit("workflow/rules/train.smk", " -- fp3o train ", "  --   fp3o train ")
    trained.edit("workflow/rules/train.smk", "threads: threads", "threads: 2")
    trained.edit("profiles/default/config.yaml", "retries: 1", "retries: 3")
    trained.edit("benchmarks/tasks.yaml", "# Hyper-parameters", "# The hyper-parameters")
    for path in trained.path.rglob("*"):
        if path.suffix in (".py", ".smk", ".yaml", ".yml") or path.name == "Snakefile":
            os.utime(path)
    assert trained.planned_jobs("--config", "gpus=0,1", "jobs_per_gpu=2") == {}


def test_an_edited_statistic_rebuilds_tables_and_trains_nothing(trained: Checkout) -> None:
    path = trained.path / "fp3o" / "statistics" / "intervals.py"
    text = path.read_text()
    path.write_text(text + "\n# edited\n")
    jobs = trained.planned_jobs()
    assert jobs["table"] == 3
    assert not any(rule.startswith(("train", "cost_run")) for rule in jobs)
    path.write_text(text)
    assert trained.planned_jobs() == {}


def test_a_new_seed_is_a_block_of_its_own(trained: Checkout) -> None:
    before = {p: p.stat().st_mtime_ns for p in trained.path.glob("results/paper/runs/**/run.json")}
    trained.edit("benchmarks/suites/paper.yaml", "seeds: 0-4", "seeds: 0-5")
    assert {cell.split()[1] for cell in trained.trainings()} == {"5"}
    trained.snakemake("runs")
    assert len(trained.documents()) == 36
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_one_cell_by_its_name_and_again_by_force(trained: Checkout) -> None:
    target = "results/paper/cells/smac/3s5z/full/fp3o.json"
    assert jobs_in(trained.snakemake(target).stdout)[1] == {"cell": 1}
    text = (trained.path / target).read_text()
    assert '"seeds_found": [' in text
    assert trained.planned_jobs(target) == {}
    shown = trained.run("fp3o", "rerun", "smac/3s5z/full/fp3o", "--dry-run").stdout
    mark = r"results/paper/marks/smac/3s5z/full/fp3o/\w{10}-s0-4\.retrain-2"
    assert re.search(rf"^snakemake {mark} --config suite=paper --dry-run$", shown, re.MULTILINE)
    assert re.search(r"^retrain\s+1$", shown, re.MULTILINE)


def test_available_builds_from_what_exists_and_trains_nothing(checkout: Checkout) -> None:
    checkout.snakemake("results/paper/cells/mamujoco/ant-2x4/full/fp3o.json")
    _, jobs = jobs_in(checkout.snakemake("available").stdout)
    assert "table" in jobs
    assert not any(rule.startswith(("train", "cost_run")) for rule in jobs)
    table = (checkout.path / "results/paper/tables/table-mamujoco.md").read_text()
    assert "not run" in table
    assert len(checkout.documents()) == 5
    assert checkout.planned_jobs("available") == {}
    assert checkout.planned_jobs()["train"] == 5


@pytest.mark.slow
def test_suites_do_not_touch_each_other(trained: Checkout) -> None:
    before = {p: p.read_bytes() for p in trained.path.glob("results/paper/**/*") if p.is_file()}
    suites = trained.path / "benchmarks/suites"
    (suites / "other.yaml").write_text((suites / "paper.yaml").read_text())
    made = [f"results/other/{name}" for name in ("manifest.json", "tables/table-smac.md")]
    trained.snakemake(*made, "--config", "suite=other")
    assert all((trained.path / name).exists() for name in made)
    assert {p: p.read_bytes() for p in before} == before
