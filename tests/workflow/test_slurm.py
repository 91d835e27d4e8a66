"""The same jobs on a Slurm cluster: nodes of our own with make-believe GPUs (local_slurm.py)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fake_trainer import ITERATIONS, load_state
from harness import Checkout
from local_slurm import DEVICE_CGROUPS, Cluster, can_constrain, local_slurm

pytestmark = pytest.mark.slurm

TEN_CELLS = """
title: Ten cells
seeds: 0-1
artefacts:
  table-mamujoco:
    kind: table
    paper: table_MAMuJoCo_results
    cells:
      - {domain: mamujoco, tasks: [ant-2x4, hopper-3x1], sharing: [full], algorithms: [fp3o, happo, mappo]}
      - {domain: mamujoco, tasks: [ant-2x4, hopper-3x1], sharing: [partial], algorithms: [fp3o, mappo]}
"""


@contextmanager
def sweep(
    checkout: Checkout, cluster: Cluster, tmp_path: Path, *options: str, **environment: str
) -> Iterator[tuple[Callable[[Callable[[], object]], None], Callable[[], None]]]:
    """Snakemake on the cluster: a function that waits until something holds, and one for the sweep's good end."""
    command = [
        *("timeout", "-s", "KILL", "600", "snakemake", "runs", "--workflow-profile", "profiles/slurm"),
        *("--slurm-no-account", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5", *options),
        *("--default-resources", "slurm_partition=gpu", "mem_mb=200", "runtime=10", "gpu=1"),
    ]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=checkout.path,
            env={
                **checkout.environment,
                "PATH": f"{cluster.folder}/bin:{checkout.environment['PATH']}:/usr/sbin",
                "SLURM_CONF": cluster.environment["SLURM_CONF"],
                "FAKE_JOURNAL": str(tmp_path / "journal"),
                **environment,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, to be ended as a whole
        )

        def until(holds: Callable[[], object]) -> None:
            deadline = time.monotonic() + 240
            while not holds():
                assert process.poll() is None, log.read_text()[-4000:]
                assert time.monotonic() < deadline, f"{cluster.ask('squeue')}\n{log.read_text()[-4000:]}"
                time.sleep(0.2)

        def completes() -> None:
            assert process.wait() == 0, log.read_text()[-4000:]
            assert cluster.ask("squeue", "-h").strip() == ""

        try:
            yield until, completes
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def saved_iterations(checkout: Checkout) -> list[int]:
    """How far each unfinished job has come."""
    found = []
    for path in checkout.path.glob("results/*/scratch/*/*/*/*/*/*/resume.safetensors"):
        with suppress(FileNotFoundError):  # its job has ended in between
            found.append(load_state(path)[0])
    return found


def test_a_sweep_with_a_cancelled_job(checkout: Checkout, tmp_path: Path) -> None:
    with (
        local_slurm(gpus=[2]) as cluster,
        sweep(checkout, cluster, tmp_path, FAKE_SECONDS="0.4") as (until, completes),
    ):
        until(lambda: any(iteration >= 3 for iteration in saved_iterations(checkout)))
        running = cluster.ask("squeue", "-h", "-t", "R", "-o", "%i").split()
        cluster.ask("scancel", "--signal=KILL", "--full", running[0])
        completes()
    found = checkout.documents()
    assert len(found) == 30
    assert [d["volatile"]["resumes"] for d in found.values()].count(1) == 5  # type: ignore[index]

    at_once: dict[str, set[str]] = {}
    used: set[str] = set()
    for line in (tmp_path / "journal").read_text().splitlines():
        _, device, event, cell, *_ = line.split()
        assert re.fullmatch(r"[01]", device)
        used.add(device)
        if event == "start":
            # The cancelled job never said that it ended: its next start replaces it.
            for cells in at_once.values():
                cells.discard(cell)
            at_once.setdefault(device, set()).add(cell)
        else:
            at_once[device].discard(cell)
        assert sum(len(cells) for cells in at_once.values()) <= 3
    assert used == {"0", "1"}


def test_ten_cells_on_two_nodes_of_which_one_is_killed(checkout: Checkout, tmp_path: Path) -> None:
    """No retry is allowed, so that only Slurm's requeueing can bring back the lost job.

    Each node has one GPU, constrained where control groups can be had. A job's device is named 0 on both nodes either
    way, and the nodes share a folder for locks, being on one machine.
    """
    (checkout.path / "benchmarks" / "suites" / "paper.yaml").write_text(TEN_CELLS)
    journal, hold = tmp_path / "journal", tmp_path / "hold"
    options = ("--config", "jobs_per_gpu=1", "--retries", "0")

    def events(kind: str) -> list[list[str]]:
        lines = journal.read_text().splitlines() if journal.exists() else []
        return [line.split() for line in lines if line.split()[2] == kind]

    with (
        local_slurm(gpus=[1, 1], constrain=can_constrain()) as cluster,
        sweep(checkout, cluster, tmp_path, *options, FAKE_SECONDS="0.1", FAKE_HOLD=str(hold)) as (until, completes),
    ):
        until(lambda: len(events("end")) >= 4)
        hold.touch()
        # Both nodes train at once, each job on a device named 0, one job per device: none waited for the other's lock.
        until(lambda: sorted(saved_iterations(checkout)) == [ITERATIONS - 1] * 2)
        dead, alive = cluster.nodes
        (lost,) = cluster.ask("squeue", "-h", "-t", "R", "-w", dead, "-o", "%i").split()
        cluster.kill(dead)
        cluster.ask("scontrol", "update", f"NodeName={dead}", "State=DOWN", "Reason=killed")
        hold.unlink()
        completes()
        job = cluster.ask("scontrol", "-o", "show", "job", lost)
        assert " Restarts=1 " in job
        assert f" NodeList={alive} " in job

    found = checkout.documents()
    assert len(found) == 20
    assert len({name.rpartition("/")[0] for name in found}) == 10
    ends, starts = (Counter(cell for _, _, _, cell, *_ in events(kind)) for kind in ("end", "start"))
    assert set(ends.values()) == {1}
    assert len(ends) == 10
    (again,) = starts - ends  # the lost job alone started twice, and went on where it was
    assert [line[-1] for line in events("start") if line[3] == again] == ["0", str(ITERATIONS - 1)]
    resumed = {name.rpartition("/")[0] for name, d in found.items() if d["volatile"]["resumes"]}  # type: ignore[index]
    assert resumed == {again}
    assert {line.split()[1] for line in journal.read_text().splitlines()} == {"0"}
    assert not list(tmp_path.glob("tmp/fp3o-gpu-slots-*"))  # no job ever asked for a lock


@pytest.mark.skipif(not can_constrain(), reason=f"needs {DEVICE_CGROUPS} to constrain devices")
def test_constrained_devices_are_all_named_0_and_nobody_waits(tmp_path: Path) -> None:
    """Two jobs at once on one node with two GPUs: each can open a device of its own, both call it 0."""
    with local_slurm(gpus=[2], constrain=True) as cluster:
        opening = " ".join(f"dd if={cluster.folder}/gpu{k} of=/dev/null 2>&1;" for k in (0, 1))
        jobs = []
        for name, other in (("a", "b"), ("b", "a")):
            # Ends only once the other has started as well.
            shell = (
                f"echo device $CUDA_VISIBLE_DEVICES; {opening} touch {name}; until test -e {other}; do sleep 0.1; done"
            )
            wrapper = (sys.executable, "-m", "fp3o.workflow.jobs", "--log", f"{name}.log", "--per-gpu", "1")
            command = ("timeout", "60", "srun", "--gres=gpu:1", "--mem=100", *wrapper, "--", "sh", "-c", shell)
            environment = {**cluster.environment, "TMPDIR": str(tmp_path)}
            jobs.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
        assert [job.wait() for job in jobs] == [0, 0]
        logs = [(tmp_path / f"{name}.log").read_text() for name in "ab"]
        assert all("\ndevice 0\n" in log for log in logs)
        opened = [re.findall(r"gpu(\d)': (No such device|Operation not permitted)", log) for log in logs]
        assert sorted(opened) == [
            [("0", "No such device"), ("1", "Operation not permitted")],
            [("0", "Operation not permitted"), ("1", "No such device")],
        ]
