"""Run one command as a job of the workflow: `python -m fp3o.workflow.jobs --log FILE [--gpus LIST] -- COMMAND…`.

It does two things that Snakemake does not:
- choose the GPU of a job: a GPU slot is a file lock, a device may have several slots, and a job may take several of one
  device (Snakemake decides how many jobs run at once);
- keep the logs of earlier attempts when a job is retried: Snakemake then deletes FILE, a hard link to FILE.all.

The process then replaces itself by the command (exec), so that signals reach the command directly. The command inherits
the locks, and the kernel frees them, however the command ends.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
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
# Environment variables that are set in a job of Slurm, PBS, LSF or Grid Engine.
ALLOCATIONS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


def devices(gpus: str) -> list[str]:
    """Device names for CUDA_VISIBLE_DEVICES, from a list such as `0,1`, from `none`, or from `auto` (all there are)."""
    if gpus == "none":
        return []
    if gpus != "auto":
        return [name.strip() for name in gpus.split(",") if name.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:  # Set by a cluster, or by a user who keeps some devices for others.
        return [name for name in visible.split(",") if name and name != "-1"]
    numbers = [m[1] for p in Path("/dev").glob("nvidia*") if (m := re.fullmatch(r"nvidia(\d+)", p.name))]
    return sorted(numbers, key=int)


def reach_commands() -> None:
    """Add this Python environment's commands (`fp3o`, `dvc` …) to PATH, for where it was not activated."""
    if shutil.which("fp3o") is None:
        os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def slot_folder() -> Path:
    """Where the GPU slots' lock files are: one folder per machine and user, so that two sweeps share the devices."""
    folder = Path(tempfile.gettempdir()) / f"fp3o-gpu-slots-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def allocation() -> str:
    """Identifies the cluster job this process is part of; "" outside of one."""
    return next((f"{name}-{os.environ[name]}-" for name in ALLOCATIONS if os.environ.get(name)), "")


def take_slot(names: Sequence[str], per_device: int, exclusive: bool, slots: int = 1) -> str | None:
    """Lock so many free slots of one GPU (exclusive: all of all) until this process ends, and return its device's name.

    None: there is nothing to choose, as there are no devices, or the cluster has given this job a single one. Snakemake
    starts no more jobs than there are slots, so that this waits only for another sweep of the same user, or while the
    free slots are spread over several devices; it holds none while it waits. Inside a cluster job the locks are the
    job's own: other jobs' devices may have the same numbers.
    """
    inside = allocation()
    if not names or (inside and len(devices("auto")) <= 1):
        return None
    paths = {
        name: [slot_folder() / f"{inside}{name}.{k}".replace("/", "_") for k in range(per_device)] for name in names
    }
    if exclusive:
        for path in itertools.chain.from_iterable(paths.values()):
            fcntl.flock(_inheritable(path), fcntl.LOCK_EX)
        return names[0]
    wanted = max(1, min(slots, per_device))
    while True:
        # In this order every device gets one job before any device gets two.
        for most in range(wanted, per_device + 1):
            for name in names:
                if _lock_free(paths[name][:most], wanted):
                    return name
        time.sleep(POLL_SECONDS)


def _lock_free(paths: Sequence[Path], wanted: int) -> bool:
    """Lock so many of the files, the first that are free; none if fewer are."""
    held: list[int] = []
    for path in paths:
        descriptor = _inheritable(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        held.append(descriptor)
        if len(held) == wanted:
            return True
    for descriptor in held:
        os.close(descriptor)
    return False


def _inheritable(path: Path) -> int:
    """A file descriptor that survives exec."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    return descriptor


HEADER = "--- attempt "


def history(log: Path) -> Path:
    """The file that keeps the logs of all attempts."""
    return log.with_name(f"{log.name}.all")


def lines(log: Path) -> list[str]:
    """The lines that all attempts wrote; empty if there was none."""
    try:
        return history(log).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def attempts(log: Path) -> int:
    """How often the job with this log was started."""
    return sum(line.startswith(HEADER) for line in lines(log))


def exec_with_log(
    command: Sequence[str], log: Path, gpus: str, per_device: int, exclusive: bool, slots: int
) -> NoReturn:
    """Take the slots of a GPU, then replace this process by the command, its output appended to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    device = "" if gpus == "none" else take_slot(devices(gpus), per_device, exclusive, slots)
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
    parser.add_argument("--slots", type=int, default=1, help="how many of a device's slots the command takes")
    parser.add_argument("--exclusive", action="store_true", help="hold every slot: nothing else runs on the devices")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    exec_with_log(command, arguments.log, arguments.gpus, arguments.per_gpu, arguments.exclusive, arguments.slots)


if __name__ == "__main__":
    main()
