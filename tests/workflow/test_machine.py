"""Shares of a machine that jobs ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from harness import ROOT

from fp3o import config
from fp3o.workflow import machine


@pytest.mark.parametrize(("devices", "per_device"), [(1, 4), (2, 1), (3, 4), (8, 16), (7, 9)])
def test_as_many_jobs_as_slots(devices: int, per_device: int) -> None:
    share = machine.device_share(devices, per_device)
    assert machine.WHOLE // share == devices * per_device


def test_without_devices_no_share() -> None:
    assert machine.device_share(0, 4) == 0


def test_as_many_jobs_as_memory_holds() -> None:
    assert machine.WHOLE // machine.memory_share(6500, 32_000) == 4
    assert machine.WHOLE // machine.memory_share(8000, 32_000) == 4
    assert machine.memory_share(6500, 4000) == machine.WHOLE  # larger than the machine: alone


def test_the_memory_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", (limit,))
    assert machine.total_mb() == whole
    limit.write_text("max\n")
    assert machine.total_mb() == whole
    limit.write_text(f"{100 << 20}\n")
    assert machine.total_mb() == 100


def test_every_planned_cell_says_what_it_needs_and_a_retry_needs_more() -> None:
    needed = {plan.cell.id: machine.needed_mb(plan.cell.id) for plan, _ in config.load_suite("paper").runs()}
    largest = "smac/bane_vs_bane/full/fp3o"
    assert needed[largest] >= 6500
    assert needed["mpe/simple-reference/full/fp3o"] == 2250  # 1800 MiB and a quarter more
    assert machine.needed_mb(largest, 2) == pytest.approx(1.5 * needed[largest], abs=1)
    assert machine.needed_mb(largest, 3) == pytest.approx(2 * needed[largest], abs=1)


def test_memory_is_no_part_of_a_digest() -> None:
    plan = config.resolve(config.Cell.parse("smac/bane_vs_bane/full/fp3o"))
    assert "memory" not in config.canonical_json(plan.configuration())


@pytest.mark.parametrize("name", ["default", "smoke"])
def test_profiles_of_one_machine_give_out_the_whole_and_no_more(name: str) -> None:
    profile = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
    assert profile["resources"] == [f"memory_share={machine.WHOLE}", f"device_share={machine.WHOLE}"]
