"""Runs in DVC: somebody else's clone, the guard, saving beside a sweep, no deletion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness import Checkout, clone, jobs_in

pytestmark = pytest.mark.workflow

MANIFEST = "results/paper/manifest.json"


def test_a_clone_that_pulls_trains_nothing_and_gets_the_same_tables(saved: Checkout, tmp_path: Path) -> None:
    other = clone(saved, tmp_path / "clone")
    stopped = other.snakemake(check=False)
    assert stopped.returncode != 0
    assert "30 runs of suite paper are in DVC and not here: `fp3o pull`" in stopped.stdout
    assert not other.documents()
    assert other.planned_jobs()["train"] == 6  # a dry run may say so; it starts nothing

    other.run("fp3o", "pull")
    assert len(other.documents()) == 30
    _, jobs = jobs_in(other.snakemake().stdout)
    assert "table" in jobs
    assert not any(rule.startswith(("train", "cost_run")) for rule in jobs)
    other.run("git", "diff", "--exit-code")
    assert other.run("git", "status", "--short").stdout == ""
    assert "up to date" in other.run("dvc", "status").stdout
    assert other.planned_jobs() == {}

    # No memory of earlier calls, tables newer than the runs, and an edit: still exactly the edited cells.
    shutil.rmtree(other.path / ".snakemake")
    for path in other.path.glob("results/paper/tables/*"):
        os.utime(path)
    other.edit(
        "benchmarks/tasks.yaml",
        "hopper-3x1:\n        settings: {clip: 0.05",
        "hopper-3x1:\n        settings: {clip: 0.1",
    )
    cells, jobs = other.plan()
    assert cells == {f"mamujoco/hopper-3x1/full/{name} 0-4" for name in ("fp3o", "mappo")}
    assert jobs["table"] == 1


def test_the_guard_lets_through_who_asks_for_it(saved: Checkout, tmp_path: Path) -> None:
    other = clone(saved, tmp_path / "clone")
    other.snakemake("runs", MANIFEST, "--config", "retrain=True")
    assert len(other.documents()) == 30
    assert other.run("git", "status", "--short").stdout == ""


def test_tables_of_a_part_of_the_runs_leave_the_manifest_alone(saved: Checkout, tmp_path: Path) -> None:
    other = clone(saved, tmp_path / "clone")
    other.run("dvc", "pull", "--quiet", "results/paper/runs/smac")
    assert {run.split("/")[0] for run in other.documents()} == {"smac"}
    only = ("--until", "manifest", "table", "--forcerun", "manifest", "table")
    other.snakemake("available", *only, "--config", "retrain=True")
    changed = other.run("git", "diff", "--name-only").stdout.split()
    assert "results/paper/tables/table-mamujoco.csv" in changed
    assert "results/paper/manifest.json" not in changed
    assert "20 of these runs are not here" in other.run("fp3o", "save").stdout
    assert other.run("git", "diff", "--cached", "--name-only").stdout == ""


def test_repro_is_a_no_op_and_never_deletes_runs(saved: Checkout) -> None:
    assert "didn't change, skipping" in saved.run("dvc", "repro", "runs").stdout
    saved.edit("dvc.yaml", "cmd: snakemake runs", "cmd: 'false'")
    assert saved.run("dvc", "repro", "runs", check=False).returncode != 0
    assert len(saved.documents()) == 30


def test_plots_show_and_diff_have_one_curve_per_cell(saved: Checkout, tmp_path: Path) -> None:
    other = clone(saved, tmp_path / "clone")  # Nothing is pulled.
    shown = json.loads(other.run("dvc", "plots", "show", "--json").stdout)["data"]
    assert len(shown) == len({run.rsplit("/", 2)[0] for run in saved.documents()})
    (battle,) = shown["results/paper/curves/smac_3s5z_full.csv"]
    drawn = {point["algorithm"] for point in battle["content"]["data"]["values"]}
    assert drawn == {"fp3o", "happo"}
    assert battle["content"]["encoding"]["color"]["field"] == "algorithm"
    shown = json.loads(other.run("dvc", "plots", "diff", "HEAD", "--json").stdout)
    assert "errors" not in shown


def test_metrics_diff_shows_the_changed_cells_alone(saved: Checkout) -> None:
    saved.edit(
        "benchmarks/tasks.yaml", "ant-2x4:\n        settings: {clip: 0.2", "ant-2x4:\n        settings: {clip: 0.3"
    )
    saved.snakemake("results/paper/metrics.json", "--config", "retrain=True")
    shown = json.loads(saved.run("dvc", "metrics", "diff", "--json").stdout)
    (changes,) = shown.values()
    assert {name.split(".")[1] for name in changes} == {"ant-2x4"}


def test_a_tracked_cell_can_be_trained_again_without_rights_of_root(saved: Checkout) -> None:
    command = ["fp3o", "train", "smac/3s5z/full/fp3o", "--replace"]
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root sees no write protection, and setpriv is not here to drop that right")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner", *command]
    saved.run(*command)


@pytest.mark.slow
def test_saving_beside_a_sweep_and_beside_other_saves(saved: Checkout) -> None:
    saved.edit("benchmarks/suites/paper.yaml", "seeds: 0-4", "seeds: 0-9")
    sweep = subprocess.Popen(
        ["snakemake", "runs", "--cores", "4"],
        cwd=saved.path,
        env={**saved.environment, "FAKE_SECONDS": "0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    saves = [
        subprocess.Popen(
            ["fp3o", "save"],
            cwd=saved.path,
            env=saved.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(4)
    ]
    for process in [*saves, sweep]:
        text, _ = process.communicate(timeout=600)
        assert process.returncode == 0, text[-3000:]
        assert "Traceback" not in text
    saved.run("fp3o", "save")
    assert "up to date" in saved.run("dvc", "status", "runs").stdout
    assert len(saved.documents()) == 60


def test_save_waits_for_whoever_has_dvcs_lock(saved: Checkout) -> None:
    holder = subprocess.Popen(
        [
            *("python", "-c"),
            "import sys, time; from dvc.repo import Repo; r = Repo('.'); r.lock.lock(); print('held', flush=True);"
            " sys.stdin.readline(); r.lock.unlock()",
        ],
        cwd=saved.path,
        env=saved.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    save = subprocess.Popen(["fp3o", "save"], cwd=saved.path, env=saved.environment)
    time.sleep(6)  # longer than the 3 s after which DVC itself gives up
    assert save.poll() is None
    holder.communicate("\n")
    assert save.wait(timeout=300) == 0


@pytest.mark.slow
def test_prune_removes_what_is_replaced_and_a_clone_has_the_rest(saved: Checkout, tmp_path: Path) -> None:
    saved.edit(
        "benchmarks/tasks.yaml", "ant-2x4:\n        settings: {clip: 0.2", "ant-2x4:\n        settings: {clip: 0.3"
    )
    saved.run("fp3o", "save", "-m", "Before")
    told = saved.run("fp3o", "prune").stdout  # nothing has replaced them yet
    assert re.fullmatch(r"nothing to prune; artifacts/ holds [\d,]+ objects, \d+ MB, all in use\n", told)
    saved.snakemake("runs", MANIFEST, "--config", "retrain=True", FAKE_ENDED="2999-01-01T00:00:00Z")
    listed = saved.run("fp3o", "prune").stdout.splitlines()
    assert len(listed) == 10
    assert all("mamujoco/ant-2x4/full/" in line for line in listed)
    assert len(list(saved.path.glob("results/paper/runs/**/run.json"))) == 40
    saved.run("fp3o", "prune", "--delete")
    assert len(list(saved.path.glob("results/paper/runs/**/run.json"))) == 30
    assert saved.planned_jobs("runs", MANIFEST) == {}
    saved.run("fp3o", "save", "-m", "After")
    saved.run("git", "commit", "--quiet", "--allow-empty", "-m", "Next")  # the parent's objects stay
    saved.run("fp3o", "prune", "--delete")
    saved.run("git", "commit", "--quiet", "-m", "Pruned")
    assert saved.run("fp3o", "prune").stdout.startswith("nothing to prune; artifacts/ holds ")
    other = clone(saved, tmp_path / "clone")
    other.run("dvc", "pull", "--quiet")
    assert other.documents() == saved.documents()


def test_without_git(trained: Checkout) -> None:
    # A CI container or a tarball: DVC without version control still stores and restores.
    trained.run("dvc", "config", "core.no_scm", "true")
    trained.run("fp3o", "save")
    shutil.rmtree(trained.path / "results/paper/runs")
    shutil.rmtree(trained.path / ".dvc/cache")
    trained.run("dvc", "pull", "--quiet")
    assert len(trained.documents()) == 30
    assert not any(rule.startswith("train") for rule in trained.planned_jobs())


def test_analytics_are_off(checkout: Checkout) -> None:
    text = (checkout.path / ".dvc" / "config").read_text()
    assert "analytics = false" in text
    assert 'type = "reflink,copy"' in text
