"""A Slurm of our own on this machine: nodes with make-believe GPUs, all state in one folder.

A node is a slurmd in a pid namespace of its own: when its first process is killed, the kernel kills every process of
the node with it, as when a machine loses power.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

DAEMONS = ("munged", "slurmctld", "slurmd")
DEVICE_CGROUPS = Path("/sys/fs/cgroup/devices")
"""Version 1 of control groups, where Slurm needs no systemd to constrain devices."""
UNUSED_MAJOR = 60
"""A device number for local use: opening it fails with ENXIO (nobody drives it), where it is denied with EPERM."""

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={task_plugin}
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2
JobRequeue=0
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=300
GresTypes=gpu
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """Daemons that run; a requeued job may start again after `cred_expire` seconds."""

    folder: Path
    environment: dict[str, str]
    nodes: dict[str, subprocess.Popen[bytes]]

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def log(self) -> str:
        """The end of the controller's log."""
        return (self.folder / "slurmctld.log").read_text()[-2000:]

    def kill(self, node: str) -> None:
        """End a node with all its processes, at once; returns when none is left. The controller is not told."""
        process = self.nodes.pop(node)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:  # slurmd; unshare waits for it, and the kernel ends it after all others of the node
            os.kill(int(child), signal.SIGKILL)
        process.wait(60)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for found in sockets:
        found.bind(("127.0.0.1", 0))
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def can_constrain() -> bool:
    """Whether Slurm can keep a job from the devices of others here."""
    return os.access(DEVICE_CGROUPS, os.W_OK)


def skip_unless_possible() -> None:
    missing = [name for name in DAEMONS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root and Debian's slurm-wlm ({', '.join(missing) or 'not root'})")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs snakemake-executor-plugin-slurm")


def configure(folder: Path, gpus: Sequence[int], constrain: bool) -> list[str]:
    """Write the configuration of a cluster with so many GPUs per node; the nodes' names."""
    port, *ports = free_ports(1 + len(gpus))
    host = socket.gethostname()
    names = [f"node{number}" for number in ports]  # unlike those of another cluster: control groups have these names
    nodes, devices, first = [], [], 0
    for name, number, count in zip(names, ports, gpus, strict=True):
        nodes.append(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={number}"
            f" CPUs=8 RealMemory=8000 Gres=gpu:fake:{count}"
        )
        for minor in range(first, first + count):
            # Only for character devices is CUDA_VISIBLE_DEVICES set.
            subprocess.run(["mknod", str(folder / f"gpu{minor}"), "c", str(UNUSED_MAJOR), str(minor)], check=True)
        files = f"{folder}/gpu[{first}-{first + count - 1}]"
        devices.append(f"NodeName={name} Name=gpu Type=fake Flags=nvidia_gpu_env File={files}\n")
        first += count
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=host,
            folder=folder,
            port=port,
            nodes="\n".join(nodes),
            task_plugin="task/cgroup" if constrain else "task/none",
        ).lstrip()
    )
    (folder / "gres.conf").write_text("".join(devices))
    constraint = f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={DEVICE_CGROUPS.parent}\nConstrainDevices=yes\n"
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n" + (constraint if constrain else ""))
    return names


def remove_control_groups(node: str) -> None:
    """What Slurm leaves behind of a node that was killed."""
    top = DEVICE_CGROUPS / f"slurm_{node}"
    for folder, _, _ in os.walk(top, topdown=False):
        os.rmdir(folder)


@contextmanager
def local_slurm(gpus: Sequence[int], constrain: bool = False) -> Iterator[Cluster]:
    """A cluster with so many GPUs per node; `constrain`: a job can open its own devices alone, numbered from 0."""
    skip_unless_possible()
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # short: a socket's path has 108 bytes at most
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    names = configure(folder, gpus, constrain)
    # The job step plugin drops SLURM_CONF before it calls srun.
    shim = folder / "bin" / "srun"
    shim.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    shim.chmod(0o755)
    path = f"{folder}/bin:{os.environ['PATH']}:/usr/sbin"
    made = Cluster(folder, {**os.environ, "PATH": path, "SLURM_CONF": str(folder / "slurm.conf")}, {})
    munge = [f"--{what}={folder}/munge.{what.split('-')[0]}" for what in ("key-file", "socket", "pid-file", "log-file")]
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        with (folder / "output").open("ab") as output:
            return subprocess.Popen(command, env=made.environment, stdout=output, stderr=output)

    try:
        started.append(start("munged", "--foreground", "--force", *munge, f"--seed-file={folder}/munge.seed"))
        deadline = time.monotonic() + 60
        while not (folder / "munge.socket").exists():
            assert time.monotonic() < deadline, (folder / "output").read_text()
            time.sleep(0.1)
        started.append(start("slurmctld", "-D", "-c"))
        for name in names:
            made.nodes[name] = start(
                *("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "slurmd", "-D", "-c", "-N", name)
            )
        while made.ask("timeout", "2", "sinfo", "-h", "-N", "-o", "%t").split() != ["idle"] * len(names):
            assert time.monotonic() < deadline, made.log() + (folder / "output").read_text()
            time.sleep(0.5)
        yield made
    finally:
        for name in list(made.nodes):
            made.kill(name)
        for process in reversed(started):
            process.kill()
            process.wait()
        for name in names:
            remove_control_groups(name)
        shutil.rmtree(folder, ignore_errors=True)
