"""The same jobs on a Slurm cluster: one node of our own with two make-believe GPUs, all state in one folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import Checkout

pytestmark = pytest.mark.slurm

DAEMONS = ("munged", "slurmctld", "slurmd")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=300
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 Gres=gpu:fake:2
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    environment: dict[str, str]

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=20, check=False)
        return done.stdout


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    missing = [name for name in DAEMONS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root and Debian's slurm-wlm ({', '.join(missing) or 'not root'})")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs snakemake-executor-plugin-slurm")
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # short: a socket's path has 108 bytes at most
    host = socket.gethostname()
    port, node_port = free_ports(2)
    for name in ("state", "spool", "bin", "logs"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(host=host, folder=folder, port=port, node_port=node_port).lstrip()
    )
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    for number in (0, 1):  # Copies of /dev/null: only for character devices is CUDA_VISIBLE_DEVICES set.
        subprocess.run(["mknod", str(folder / f"gpu{number}"), "c", "1", "3"], check=True)
    (folder / "gres.conf").write_text(
        f"NodeName={host} Name=gpu Type=fake Flags=nvidia_gpu_env File={folder}/gpu[0-1]\n"
    )
    # The job step plugin drops SLURM_CONF before it calls srun.
    shim = folder / "bin" / "srun"
    shim.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    shim.chmod(0o755)
    path = f"{folder}/bin:{os.environ['PATH']}:/usr/sbin"
    made = Cluster({**os.environ, "PATH": path, "SLURM_CONF": str(folder / "slurm.conf")})
    munge = [f"--{what}={folder}/munge.{what.split('-')[0]}" for what in ("key-file", "socket", "pid-file", "log-file")]
    try:
        subprocess.run(["/usr/sbin/munged", "--force", *munge, f"--seed-file={folder}/munge.seed"], check=True)
        for daemon in (["slurmctld", "-c"], ["slurmd", "-c", "-N", host]):
            subprocess.run([*daemon, "-f", str(folder / "slurm.conf")], env=made.environment, check=True)
        deadline = time.monotonic() + 60
        while made.ask("timeout", "2", "sinfo", "-h", "-o", "%t").strip() != "idle":
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.5)
        yield made
    finally:
        for name in ("slurmd", "slurmctld", "munge"):
            pid_file = folder / f"{name}.pid"
            if pid_file.exists():
                os.kill(int(pid_file.read_text()), signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_sweep_with_a_cancelled_job(checkout: Checkout, cluster: Cluster, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    environment = {
        **checkout.environment,
        "PATH": f"{cluster.environment['PATH'].split(':')[0]}:{checkout.environment['PATH']}:/usr/sbin",
        "SLURM_CONF": cluster.environment["SLURM_CONF"],
        "FAKE_JOURNAL": str(journal),
        "FAKE_SECONDS": "0.4",
    }
    command = [
        *("timeout", "-s", "KILL", "900", "snakemake", "runs", "--workflow-profile", "profiles/slurm"),
        *("--slurm-no-account", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5"),
        *("--default-resources", "slurm_partition=gpu", "mem_mb=200", "runtime=10", "gpu=1"),
    ]
    with (tmp_path / "log").open("wb") as log:
        sweep = subprocess.Popen(command, cwd=checkout.path, env=environment, stdout=log, stderr=subprocess.STDOUT)
        while not any(
            b'\\"iteration\\": 3' in p.read_bytes() for p in checkout.path.glob("results/*/scratch/**/resume.*")
        ):
            assert sweep.poll() is None, (tmp_path / "log").read_text()[-4000:]
            time.sleep(0.2)
        running = cluster.ask("squeue", "-h", "-t", "R", "-o", "%i").split()
        cluster.ask("scancel", "--signal=KILL", "--full", running[0])
        code = sweep.wait()
    assert code == 0, (tmp_path / "log").read_text()[-4000:]
    found = checkout.documents()
    assert len(found) == 30
    assert [d["volatile"]["resumes"] for d in found.values()].count(1) == 5  # type: ignore[index]
    assert cluster.ask("squeue", "-h").strip() == ""

    at_once: dict[str, set[str]] = {}
    used: set[str] = set()
    for line in journal.read_text().splitlines():
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
