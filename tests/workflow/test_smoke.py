"""The smoke suite with the real trainer, and what comes out of the workflow for readers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from harness import Checkout

SMOKE = ("--workflow-profile", "profiles/smoke")


@pytest.mark.slow  # `make smoke` in CI trains the same in the checkout itself, where kernels are compiled already
def test_every_domain_and_rule_with_the_real_trainer(checkout: Checkout) -> None:
    checkout.run("git", "init", "--quiet")
    checkout.commit("Start")
    fake = Path(checkout.environment["PATH"].split(":")[0]) / "fp3o"
    fake.unlink()  # What is left is the real one.
    checkout.snakemake(*SMOKE)
    found = checkout.documents("smoke")
    assert {run.split("/")[0] for run in found} == {"mamujoco", "smac", "mpe", "matrix", "pettingzoo"}
    assert {document["status"] for document in found.values()} == {"finished"}
    report = (checkout.path / "results/smoke/report/index.html").read_text()
    assert "data:image/webp;base64," in report  # the film of an episode
    assert 'id="figure-smac"' in report
    assert not (checkout.path / "results/smoke/failures.json").exists()
    status = checkout.run("fp3o", "status", "--suite", "smoke").stdout
    assert status.splitlines()[-1] == f"{len(found)} done"
    assert checkout.planned_jobs(*SMOKE) == {}
    assert checkout.run("git", "status", "--short").stdout == ""
    assert not (checkout.path / "results/paper/tables").exists()


@pytest.mark.workflow
def test_snakemakes_own_report_has_every_table(trained: Checkout) -> None:
    trained.snakemake("--report", "report.zip")
    with zipfile.ZipFile(trained.path / "report.zip") as archive:
        names = archive.namelist()
        text = "".join(archive.read(name).decode(errors="replace") for name in names if name.endswith((".html", ".js")))
    for table in ("table-mamujoco.md", "table-smac.md", "control-head-lr.md", "table-instability.md", "table-cost.md"):
        assert table in text
    assert "figure-mamujoco.png" in text


@pytest.mark.slow
@pytest.mark.workflow
def test_a_table_with_a_missing_seed_says_so(trained: Checkout) -> None:
    next(trained.path.glob("results/paper/runs/smac/3s5z/full/happo/*/seed-2/run.json")).unlink()
    # The manifest knows that run, so the guard would ask for a pull first.
    trained.snakemake("available", "--config", "retrain=True")
    table = (trained.path / "results/paper/tables/table-smac.md").read_text()
    assert "n = 4/5" in table
