"""Run one command as a job of the workflow: `python -m fp3o.workflow.jobs --log FILE [--gpus LIST] -- COMMAND…`.

Two things Snakemake does not do: say *which* GPU a job gets (a slot held by a file lock, any number of jobs per
device; how many jobs run is Snakemake's to decide), and keep the log of a first attempt when a job is retried
(Snakemake deletes FILE then; it is a second name of FILE.all, which it does not know). The process then *becomes* the
command, so that signals reach it directly; the lock goes with it and is freed by the kernel, however it ends.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

POLL_SECONDS = 1.0
# Set in a job of Slurm, PBS, LSF or Grid Engine.
ALLOCATIONS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


def devices(gpus: str) -> list[str]:
    """Device names for CUDA_VISIBLE_DEVICES: a list such as `0,1`, `none`, or `auto` (what this machine shows)."""
    if gpus == "none":
        return []
    if gpus != "auto":
        return [name.strip() for name in gpus.split(",") if name.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # Set by a cluster, or by a user who keeps some devices for others.
        return [name for name in visible.split(",") if name and name != "-1"]
    found = [m[1] for p in Path("/dev").glob("nvidia*") if (m := re.fullmatch(r"nvidia(\d+)", p.name))]
    return sorted(found, key=int)


def reach_commands() -> None:
    """Make this environment's commands (`fp3o`, `dvc` …) callable even where it was not activated."""
    if shutil.which("fp3o") is None:
        os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def slot_folder() -> Path:
    """Locks are per machine and user: two sweeps of one user share the devices."""
    folder = Path(tempfile.gettempdir()) / f"fp3o-gpu-slots-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def allocation() -> str:
    """Which job of a cluster we are in; "" in none."""
    return next((f"{name}-{os.environ[name]}-" for name in ALLOCATIONS if os.environ.get(name)), "")


def take_slot(names: Sequence[str], per_device: int, exclusive: bool) -> str | None:
    """Hold a free slot (exclusive: all of them) until this process ends; its device, None to leave things as they are.

    Snakemake starts no more jobs than there are slots, so that one waits here only for another sweep of the same user.
    In a job of a cluster the devices are ours alone, and their numbers may be those of other jobs' devices as well.
    """
    inside = allocation()
    if not names or (inside and len(devices("auto")) <= 1):
        return None
    # Device-minor order fills every device once before any device twice.
    slots = [
        (slot_folder() / f"{inside}{name}.{k}".replace("/", "_"), name) for k in range(per_device) for name in names
    ]
    if exclusive:
        for path, _ in slots:
            fcntl.flock(_inheritable(path), fcntl.LOCK_EX)
        return names[0]
    while True:
        for path, name in slots:
            descriptor = _inheritable(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return name
            except BlockingIOError:
                os.close(descriptor)
        time.sleep(POLL_SECONDS)


def _inheritable(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    return descriptor


HEADER = "--- attempt "


def history(log: Path) -> Path:
    """The file that keeps the logs of all attempts."""
    return log.with_name(f"{log.name}.all")


def lines(log: Path) -> list[str]:
    """What all attempts wrote; nothing if there was none."""
    try:
        return history(log).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def attempts(log: Path) -> int:
    """How often the job with this log was started."""
    return sum(line.startswith(HEADER) for line in lines(log))


def become(command: Sequence[str], log: Path, gpus: str, per_device: int, exclusive: bool) -> NoReturn:
    """Turn this process into the command, its output appended to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    device = "" if gpus == "none" else take_slot(devices(gpus), per_device, exclusive)
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    place = f" on GPU {device}" if device else ""
    header = f"{HEADER}{attempts(log) + 1}{place}: {shlex.join(command)}\n"
    output = os.open(history(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(output, header.encode())
    log.unlink(missing_ok=True)
    log.hardlink_to(history(log))
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.execvp(command[0], list(command))
    except FileNotFoundError:
        sys.exit(f"{command[0]}: command not found")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--gpus", default="auto")
    parser.add_argument("--per-gpu", type=int, default=1)
    parser.add_argument("--exclusive", action="store_true", help="hold every slot: nothing else runs on the devices")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    become(command, arguments.log, arguments.gpus, arguments.per_gpu, arguments.exclusive)


if __name__ == "__main__":
    main()
