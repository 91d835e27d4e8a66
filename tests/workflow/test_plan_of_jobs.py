"""What Snakemake would do: clean files, the planned number of jobs, no surprises in the configuration."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from fake_gpus import ASKED, device, fake_nvidia_smi
from harness import ROOT, Checkout

from fp3o import config
from fp3o.workflow import resources


@pytest.fixture
def full(checkout: Checkout) -> Checkout:
    """A checkout with the paper's own suite."""
    shutil.copy(ROOT / "benchmarks/suites/paper.yaml", checkout.path / "benchmarks/suites/paper.yaml")
    return checkout


def test_lint_is_clean(checkout: Checkout) -> None:
    assert "good condition" in checkout.snakemake("--lint").stdout


@pytest.mark.parametrize(
    ("argument", "named"), [("siute=paper", "siute"), ("suite=papre", "allowed: paper"), ("gpus=0;1", "0;1")]
)
def test_a_wrong_configuration_is_named(checkout: Checkout, argument: str, named: str) -> None:
    done = checkout.snakemake("-n", "--config", argument, check=False)
    assert done.returncode == 1
    assert named in done.stdout


@pytest.mark.workflow
@pytest.mark.parametrize("cell", ["no/such/cell", "mpe/simple-reference/full/nobody"])
def test_a_cell_that_does_not_exist_is_a_line(checkout: Checkout, cell: str) -> None:
    done = checkout.snakemake("-n", f"results/paper/cells/{cell}.json", check=False)
    assert done.returncode != 0
    assert f"{cell} is not in suite paper; allowed: the cells of benchmarks/suites/paper.yaml" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.workflow
def test_a_film_of_no_cell_is_a_line(checkout: Checkout) -> None:
    """Snakemake finds no rule for it, instead of one that fails to say which runs it needs."""
    name = "results/paper/films/mpe/simple-reference/full/nobody.webp"
    done = checkout.snakemake("-n", name, check=False)
    assert done.returncode != 0
    assert f"No rule to produce {name}" in done.stdout
    assert 'File "' not in done.stdout


def test_the_paper_suite_is_exactly_the_planned_jobs(full: Checkout) -> None:
    suite = config.load_suite("paper")
    kinds = [artefact.kind for artefact in suite.artefacts]
    jobs = full.planned_jobs("-q", "rules")
    assert jobs["train"] == len(suite.runs()) >= 895 / 5
    assert jobs["table"] == kinds.count("table")
    assert jobs["figure"] == kinds.count("figure")
    assert jobs["cost_run"] == sum(len(a.cells) for a in suite.artefacts if a.kind == "cost")
    assert jobs["manifest"] == jobs["metrics"] == jobs["scorecard"] == 1


def test_the_real_game_has_all_of_the_papers_battles() -> None:
    embedded, real = (
        {
            artefact.name: [cell.id for cell in artefact.cells if cell.domain == "smac"]
            for artefact in config.load_suite(name).artefacts
            if any(cell.domain == "smac" for cell in artefact.cells)
        }
        for name in ("paper", "paper-sc2")
    )
    assert embedded == real


@pytest.mark.parametrize("name", config.suite_names())
def test_suites_with_battles_name_their_engine(name: str) -> None:
    suite = config.load_suite(name)
    for cell in {cell for artefact in suite.artefacts for cell in artefact.cells if cell.domain == "smac"}:
        assert any("backend" in values for values in suite.overrides_of(cell)), cell.id


def test_a_suite_may_not_leave_the_engine_to_the_machine(checkout: Checkout) -> None:
    checkout.edit("benchmarks/suites/smoke.yaml", "backend: embedded", "backend: auto")
    done = checkout.snakemake("-n", "--config", "suite=smoke", check=False)
    assert done.returncode == 1
    assert "suite smoke: backend auto is for runs by hand; allowed in a suite: embedded, starcraft2" in done.stdout


def test_a_table_alone_needs_its_cells_alone(full: Checkout) -> None:
    cells = {cell.id for cell in config.load_suite("paper").artefact("table-mpe").cells}
    assert full.trainings("results/paper/tables/table-mpe.csv") == {f"{cell} 0-4" for cell in cells}


def test_jobs_that_read_many_runs_are_a_line_each(trained: Checkout) -> None:
    """As `make paper` calls it; hundreds of runs' names for every job would hide what is done."""
    text = trained.snakemake("available", "-n", "--forceall", "--quiet", "reason").stdout
    told = set(re.findall(r"^Job \d+: (.*)$", text, re.MULTILINE))
    assert {"table table-mamujoco", "figure reproduction-forest", "report", "manifest of the runs"} <= told
    assert "run.json" not in text


def test_jobs_get_the_slots_that_hold_them(full: Checkout, tmp_path: Path) -> None:
    fake_nvidia_smi(tmp_path / "smi", [device(0, 143_771), device(1, 24_564)])
    path = os.pathsep.join([str(tmp_path / "smi"), full.environment["PATH"]])
    table = "results/paper/tables/table-smac.csv"
    cores = ("--cores", "16")
    text = full.snakemake("-n", "-p", table, "--config", "gpus=0,1", *cores, PATH=path).stdout
    given = re.findall(r"--per-gpu 4 --slots (\d) --log \S+ -- fp3o train smac/(\w+)/", text)
    assert {task: int(slots) for slots, task in given}.items() >= {"bane_vs_bane": 3, "3s5z": 1}.items()
    shares = {tuple(map(int, found)) for found in re.findall(r"device_slots=(\d), device_share=(\d+)", text)}
    assert shares == {(1, resources.WHOLE // 8), (3, 3 * resources.WHOLE // 8)}
    assert len((tmp_path / "smi" / ASKED).read_text().splitlines()) == 1
    assert set(re.findall(r" --threads (\d+)", text)) == {"2"}  # Of 16 cores, for eight jobs at once
    first, *_ = sorted(map(float, re.findall(r"priority: ([\d.]+)", text)), reverse=True)
    longest = config.load_suite("paper").run("smac/corridor/none/fp3o")[0]
    assert first == pytest.approx(resources.work_seconds(longest, 5))


def test_training_rules_have_nothing_attached_that_could_start_them_again() -> None:
    text = (ROOT / "workflow" / "rules" / "train.smk").read_text()
    rule = text[text.index("rule train:") :]
    assert not re.search(r"^\s+(input|params|script|run|notebook|retries):", rule, re.MULTILINE)
    assert "protected(" not in rule
    outputs = re.findall(r"output:\n((?: +f?\".*\n)+)", rule)
    # No rule owns a run's files: Snakemake deletes outputs.
    assert [output.strip().split("/")[1] for output in outputs] == ["marks", "marks"]


def test_rules_read_no_private_name_of_snakemake() -> None:
    """`workflow.basedir` and `.cores` are documented, `.local_exec` is what executors of others read; what else the
    object holds changes from version to version."""
    text = "".join(path.read_text() for path in [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").iterdir()])
    assert set(re.findall(r"(?<![\w./])workflow\.(\w+)", text)) == {"basedir", "cores", "local_exec"}


def test_available_by_other_means_than_the_command_line_is_refused(checkout: Checkout) -> None:
    """Its rules see the word there; without it they would train."""
    hidden = "import sys; from snakemake.cli import main; given, sys.argv = sys.argv[1:], ['snakemake']; main(given)"
    done = checkout.run(sys.executable, "-c", hidden, "available", "-n", check=False)
    assert done.returncode == 1
    assert "`available` works on the command line only" in done.stdout


def test_profiles_say_what_the_workflow_relies_on() -> None:
    default = yaml.safe_load((ROOT / "profiles" / "default" / "config.yaml").read_text())
    assert default["rerun-triggers"] == ["mtime", "input", "params"]
    assert default["keep-going"]
    assert default["rerun-incomplete"]
    assert default["scheduler"] == "greedy"
    assert default["retries"] >= 1
    for name in ("smoke", "slurm"):
        profile = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
        # A workflow profile replaces the default one, it does not add to it.
        assert {
            k: profile[k] for k in ("rerun-triggers", "keep-going", "rerun-incomplete", "scheduler", "retries")
        } == {k: default[k] for k in ("rerun-triggers", "keep-going", "rerun-incomplete", "scheduler", "retries")}


def test_the_slurm_profile_cannot_wait_for_ever() -> None:
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    assert profile["executor"] == "slurm"
    # sacct is missing on clusters without accounting, and never sees a cancelled job end.
    assert profile["slurm-status-command"] == "squeue"
    assert profile["slurm-init-seconds-before-status-checks"] * 3 < 120
    # A job that asks for no memory gets the whole node.
    assert any(str(entry).startswith("mem_mb=") for entry in profile["default-resources"])


@pytest.mark.workflow
def test_snakemake_looks_for_jobs_when_one_ends_and_at_no_other_time(checkout: Checkout) -> None:
    """Left alone it also looks once a second, for every job that has ended: here while the second cell waits."""
    cells = [f"results/paper/cells/smac/3s5z/full/{name}.json" for name in ("fp3o", "happo")]
    said = checkout.snakemake(*cells, "--cores", "1", "--verbose", FAKE_SECONDS="0.25").stdout
    assert said.count("Finished jobid") == 4
    assert said.count("Ready jobs: ") <= 4
