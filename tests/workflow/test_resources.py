"""Shares of a machine that jobs ask for."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from fake_gpus import ASKED, device, fake_nvidia_smi
from harness import ROOT

from fp3o import config, machine
from fp3o.workflow import jobs, resources

LARGEST = "smac/bane_vs_bane/full/fp3o"
SMALL = "mamujoco/swimmer-8x2/full/fp3o"


@pytest.mark.parametrize(("devices", "per_device"), [(1, 4), (2, 1), (3, 4), (8, 16), (7, 9)])
def test_as_many_jobs_as_slots(devices: int, per_device: int) -> None:
    share = resources.device_share(1, devices, per_device)
    assert resources.WHOLE // share == devices * per_device
    assert resources.WHOLE // resources.device_share(per_device, devices, per_device) == devices


def test_without_devices_no_share() -> None:
    assert resources.device_share(1, 0, 4) == 0


def test_as_many_jobs_as_memory_holds() -> None:
    assert resources.WHOLE // resources.memory_share(6500, 32_000) == 4
    assert resources.WHOLE // resources.memory_share(8000, 32_000) == 4
    assert resources.memory_share(6500, 4000) == resources.WHOLE  # larger than the machine: alone


def test_the_memory_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_CGROUP_MEMORY", (limit,))
    assert machine.memory_bytes() >> 20 == whole
    limit.write_text("max\n")
    assert machine.memory_bytes() >> 20 == whole
    limit.write_text(f"{100 << 20}\n")
    assert machine.memory_bytes() >> 20 == 100


def test_the_limits_of_its_own_control_group_and_of_those_above_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm and systemd set them, outside a container."""
    (tmp_path / "slurm" / "job").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for folder, limit in (("slurm/job", "max"), ("slurm", str(300 << 20)), ("other", str(1 << 20))):
        (tmp_path / folder / "memory.max").write_text(f"{limit}\n")
    groups = tmp_path / "cgroup"
    groups.write_text("3:cpu:/other\n0::/slurm/job\n")
    monkeypatch.setattr(machine, "_CGROUP_MEMORY", (tmp_path / "memory.max",))
    monkeypatch.setattr(machine, "_OWN_GROUPS", groups)
    assert machine.memory_bytes() >> 20 == 300
    (tmp_path / "slurm" / "job" / "memory.max").write_text(f"{200 << 20}\n")
    assert machine.memory_bytes() >> 20 == 200


def test_every_planned_cell_says_what_it_needs_and_a_retry_needs_more() -> None:
    needed = {
        plan.cell.id: resources.needed_mb("memory_mib", plan.cell.id) for plan, _ in config.load_suite("paper").runs()
    }
    assert needed[LARGEST] >= 6500
    assert needed["mpe/simple-reference/full/fp3o"] == 2250  # 1800 MiB and a quarter more
    assert resources.needed_mb("memory_mib", LARGEST, 2) == pytest.approx(1.5 * needed[LARGEST], abs=1)
    assert resources.needed_mb("memory_mib", LARGEST, 3) == pytest.approx(2 * needed[LARGEST], abs=1)


def test_every_planned_cell_says_what_it_needs_of_a_gpu() -> None:
    needed = {
        plan.cell.id: resources.needed_mb("gpu_mib", plan.cell.id) for plan, _ in config.load_suite("paper").runs()
    }
    assert needed[LARGEST] == 17_375  # 13,900 MiB and a quarter more
    assert needed["smac/3s5z/full/fp3o"] == 5500
    assert max(needed.values()) == needed[LARGEST]
    assert resources.needed_mb("gpu_mib", LARGEST, 2) == pytest.approx(1.5 * needed[LARGEST], abs=1)


def test_a_domain_without_a_measurement_of_the_gpu_has_one_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = config.Cell.parse(SMALL)
    measured = config.measured(cell, "gpu_mib")
    monkeypatch.delitem(config.catalogue()["domains"]["mamujoco"], "gpu_mib")
    assert config.measured(cell, "gpu_mib") != measured
    assert config.measured(cell, "gpu_mib") > 0


# What nvidia-smi shows of cards of 24, 48, 80 and 141 GB, and of one too small.
@pytest.mark.parametrize(
    ("cell", "attempt", "total", "per_device", "slots"),
    [
        (LARGEST, 1, 24_564, 4, 3),
        (LARGEST, 1, 49_140, 4, 2),
        (LARGEST, 1, 81_559, 4, 1),
        (LARGEST, 1, 143_771, 4, 1),
        (LARGEST, 1, 143_771, 12, 2),  # twelve did not fit
        (LARGEST, 2, 24_564, 4, 4),
        (LARGEST, 2, 49_140, 4, 3),
        (LARGEST, 1, 8192, 4, 4),
        (LARGEST, 1, None, 4, 1),
        (SMALL, 1, 8192, 4, 1),
        (SMALL, 1, 24_564, 16, 2),
    ],
)
def test_slots_hold_what_a_job_needs(cell: str, attempt: int, total: int | None, per_device: int, slots: int) -> None:
    needed = resources.needed_mb("gpu_mib", cell, attempt)
    assert resources.device_slots(needed, total, per_device) == slots
    if total is not None:
        assert per_device // slots * needed <= total or slots == per_device  # larger than the device: alone


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder in which commands are found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["0"], 24_564),
        (["1"], 49_140),
        (["1", "2"], 49_140),
        (["0", "1", "2"], 24_564),
        ([device(2, 0)["uuid"]], 81_559),
        ([device(2, 0)["uuid"][:12], "1"], 49_140),  # CUDA takes the beginning of a uuid
        (["3"], None),
        (["1", "3"], None),
        (["MIG-0a1b2c3d-0000"], None),
        (["4"], None),  # parted
        (["5"], None),  # memory shared with the processor
    ],
)
def test_the_memory_of_the_devices_in_use(only_path: Path, names: list[str], known: int | None) -> None:
    parted, shared = device(4, 81_559, parted="Enabled"), device(5, "[N/A]", parted="[N/A]")
    fake_nvidia_smi(only_path, [device(0, 24_564), device(1, 49_140), device(2, 81_559), parted, shared])
    assert machine.gpu_memory_mib(names) == known


def test_devices_that_are_not_visible_do_not_count(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(only_path, [device(0, 24_564), device(1, 49_140)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.gpu_memory_mib(jobs.devices("auto")) == 49_140


def test_without_devices_nothing_is_asked(only_path: Path) -> None:
    fake_nvidia_smi(only_path, [device(0, 24_564)])
    assert machine.gpu_memory_mib([]) is None
    assert not (only_path / ASKED).exists()


def test_an_nvidia_smi_that_does_not_tell_leaves_the_memory_unknown(
    only_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.gpu_memory_mib(["0"]) is None  # there is none
    fake_nvidia_smi(only_path, [device(0, 24_564)], code=9)  # no driver
    assert machine.gpu_memory_mib(["0"]) is None
    fake_nvidia_smi(only_path, [{**device(0, 24_564), "uuid": "a, b"}])  # another number of columns
    assert machine.gpu_memory_mib(["0"]) is None
    fake_nvidia_smi(only_path, [])
    assert machine.gpu_memory_mib(["0"]) is None
    assert len((only_path / ASKED).read_text().splitlines()) == 3
    fake_nvidia_smi(only_path, [device(0, 24_564)], seconds=20)
    monkeypatch.setattr(machine, "_PATIENCE", 0.01)
    assert machine.gpu_memory_mib(["0"]) is None


def test_memory_is_no_part_of_a_digest() -> None:
    plan = config.resolve(config.Cell.parse(LARGEST))
    configuration = config.canonical_json(plan.configuration())
    assert not any(word in configuration for word in ("memory", "gpu", "mib"))


@pytest.mark.parametrize("name", ["default", "smoke"])
def test_profiles_of_one_machine_give_out_the_whole_and_no_more(name: str) -> None:
    profile = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
    assert profile["resources"] == [f"memory_share={resources.WHOLE}", f"device_share={resources.WHOLE}"]


def test_threads_follow_the_work_so_that_jobs_end_together() -> None:
    work = {"cheetah": 112.0, "random-split": 112.0, "reacher": 50.0}
    threads = resources.threads_of_jobs(work, cores=16, at_once=16)
    assert sum(threads.values()) == 16
    assert threads == {"cheetah": 7, "random-split": 6, "reacher": 3}
    nothing: dict[str, float] = {}
    assert resources.threads_of_jobs(nothing, cores=16, at_once=4) == {}
    alone = resources.threads_of_jobs({"one": 1.0}, cores=16, at_once=4)
    assert alone == {"one": 16}


@pytest.mark.parametrize(("jobs_left", "at_once", "each"), [(73, 16, 1), (16, 16, 1), (73, 4, 4), (4, 4, 4), (5, 5, 3)])
def test_many_jobs_share_the_cores_evenly(jobs_left: int, at_once: int, each: int) -> None:
    work = {str(number): float(number + 1) for number in range(jobs_left)}
    assert set(resources.threads_of_jobs(work, 16, at_once).values()) == {each}


def test_jobs_that_share_a_gpu() -> None:
    assert resources.jobs_per_gpu("auto", 16, mps=True) == 16
    assert resources.jobs_per_gpu("auto", 2, mps=True) == 4
    assert resources.jobs_per_gpu("auto", 16, mps=False) == 4
    assert resources.jobs_per_gpu(7, 16, mps=True) == 7


def test_the_work_of_a_job() -> None:
    suite = config.load_suite("preview")
    plan, seeds = suite.run("smac/corridor/full/fp3o")
    assert resources.work_seconds(plan, len(seeds)) == pytest.approx(151e-6 * 800_000 * 5)
    slow, _ = suite.run("mamujoco/ant-2x4/full/fp3o")
    assert resources.work_seconds(slow, 5) > 10 * resources.work_seconds(
        suite.run("mamujoco/reacher-2x1/full/fp3o")[0], 5
    )


def test_algorithms_that_take_longer_get_more_threads() -> None:
    """The arrangement of docs/evidence/h200.jsonl in which the slowest of these seven cells ended first."""
    threads = {
        "mamujoco/halfcheetah-6x1/partial/fp3o": 3,
        "mamujoco/halfcheetah-6x1/partial/mappo": 3,
        "smac/3s5z/full/a2po": 2,
        "smac/3s5z/full/a2po-no-blocks": 2,
        "smac/5m_vs_6m/full/fp3o": 2,
        "smac/5m_vs_6m/full/mappo-10-epochs": 2,
        "smac/5m_vs_6m/full/happo": 2,
    }
    work = {cell: resources.work_seconds(config.resolve(config.Cell.parse(cell), {}), 5) for cell in threads}
    assert resources.threads_of_jobs(work, 16, at_once=16) == threads


SWEEPS = {"3s5z": 16, "mix": 11, "twelve": 12, "2c_vs_64zg": 16, "6h_vs_8z": 17}


@pytest.mark.parametrize(("sweep", "jobs_in_it"), SWEEPS.items())
def test_the_page_on_speed_says_what_sweeps_printed(sweep: str, jobs_in_it: int) -> None:
    """Steps per second of all jobs of a view together."""
    printed = (ROOT / "docs" / "evidence" / f"snakemake-{sweep}.txt").read_text().partition("\n\nsmac/3s5z")[0]
    rates = [int(rate.replace(",", "")) for rate in re.findall(r" ([\d,]+) steps/s", printed)]
    assert len(rates) == jobs_in_it
    assert f"{sum(rates):,}" in (ROOT / "docs" / "speed.md").read_text()


@pytest.mark.parametrize("task", ["2c_vs_64zg", "6h_vs_8z"])
def test_the_cost_of_a_step_is_what_a_sweep_took(task: str) -> None:
    """Sixteen processors, all busy; the rates are of each of five seeds."""
    printed = (ROOT / "docs" / "evidence" / f"snakemake-{task}.txt").read_text()
    rates = [int(rate.replace(",", "")) for rate in re.findall(r" ([\d,]+) steps/s", printed)]
    took = round(16e6 / (5 * sum(rates)))
    assert took == config.measured(config.Cell.parse(f"smac/{task}/full/fp3o"), "step_us")
    assert f"{took} µs of a processor" in (ROOT / "docs" / "speed.md").read_text()


def ends(printed: str) -> list[int]:
    """When trainings ended, in seconds of the hour."""
    found = re.findall(r":(\d\d):(\d\d) 2026\]\nFinished jobid: \d+ \(Rule: train", printed)
    return [int(minute) * 60 + int(second) for minute, second in found]


def test_the_page_on_speed_says_when_sweeps_ended() -> None:
    first, last = ends((ROOT / "docs" / "evidence" / "snakemake-2c_vs_64zg.txt").read_text())
    assert f"ended within {last - first} seconds of each other" in (ROOT / "docs" / "speed.md").read_text()
    printed = (ROOT / "docs" / "evidence" / "snakemake-twelve.txt").read_text()
    first, last = ends(printed)
    minutes, seconds = re.findall(r"Elapsed time: 0:(\d+):(\d+)", printed)[0]
    page = " ".join((ROOT / "docs" / "speed.md").read_text().split())
    assert f"in {round(int(minutes) + int(seconds) / 60)} minutes, start and compiling included" in page
    assert f"the two longest ended {last - first} seconds apart" in page
