"""How fast do cells train side by side on one machine? One JSON line.

    nvidia-cuda-mps-control -d        # once, with a GPU: without MPS processes take turns on it
    python benchmarks/speed/beside.py [CELL=PROCESSES[xTHREADS] ...] [--seeds 5] [--iterations 25] [--device cpu]

So many processes train each cell through the real training loop, with the paper's values, records and evaluations; by
default smac/3s5z/full/fp3o=12x2. Without xTHREADS all get the threads that Snakemake would give such jobs here.
Each is ready once its first iteration, which compiles, is done, and trains on until all have been measured. What counts
is a window in which all of them train: it begins when the last one is ready and ends when every one has done
--iterations more. The default is the paper's interval between evaluations, so that the window has one evaluation of
every process. Rates are environment steps per second and seed, of the slowest, the median and the fastest process of a
cell, and the sum over its processes. To compare arrangements of a mix of cells, "work" is the sum over all of them of
steps per second times the processor time of a step by benchmarks/tasks.yaml, in seconds per second. For a machine that
does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import IO, Any, NamedTuple

import numpy as np

from fp3o.config import Cell, resolve, step_seconds
from fp3o.errors import UserError
from fp3o.execution.compute import Compute, Device
from fp3o.machine import processors
from fp3o.workflow.resources import threads_of_jobs, work_seconds

# Steps per second and seed of the slowest process, at least: of the default cells, on one H200 with 16 cores and MPS.
TARGETS = {"least": 4000}
ENDLESS = 10**12  # steps: the most that settings allow
PATIENCE = 30.0  # seconds for all processes to end by themselves, before they are killed


@dataclass(frozen=True)
class Group:
    """Processes that train the same cell."""

    cell: str = "smac/3s5z/full/fp3o"
    processes: int = 12
    threads: int = 2
    """Of the simulators of each process."""


@dataclass(frozen=True)
class Asked:
    """What to measure: the command line."""

    groups: tuple[Group, ...] = (Group(),)
    seeds: int = 5
    iterations: int = 25
    device: Device = "auto"


class Window(NamedTuple):
    """A time in which all processes train."""

    seconds: float
    iterations: list[float]
    """That every process did in it."""


class Line(NamedTuple):
    """What a process has printed; None: it has ended."""

    process: int
    text: str | None


# One process ----------------------------------------------------------------------------------------------------------


def train(asked: Asked, folder: Path) -> None:
    """Train the first group's cell until somebody ends this process. Prints how that is computed, and the clock after
    every iteration."""
    import torch

    from fp3o.execution.choice import choose
    from fp3o.machine import has_mps
    from fp3o.training import run
    from fp3o.training.run_stats import RunStats

    def tell(thing: object) -> None:
        print(json.dumps(thing), flush=True)

    (group, *_), count = asked.groups, RunStats.count
    cell = Cell.parse(group.cell)

    def counted(stats: RunStats) -> None:
        count(stats)
        tell(time.clock_gettime(time.CLOCK_MONOTONIC))  # the same clock in all processes

    try:
        chosen = choose(resolve(cell, {}), Compute(asked.device, threads=group.threads))
        told: dict[str, Any] = {"torch": torch.__version__, "mps": chosen.device == "cuda" and has_mps()}
        told["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        tell(told | {"path": chosen.record() | {"threads": chosen.threads}})
        # Called after every iteration. Callbacks learn of some later, while an evaluation runs in the background.
        setattr(RunStats, "count", counted)  # noqa: B010 (mypy takes no other method for it)
        # As the whole cell is computed: so many steps would repay compiling of any.
        compute = Compute(asked.device, "eager" if chosen.mode == "eager" else "compiled", group.threads)
        plan = resolve(cell, {"total_steps": ENDLESS})
        run.train(plan, range(asked.seeds), folder, folder / "scratch", compute)
    except UserError as error:
        sys.exit(str(error))
    except Exception as error:
        what, *_ = str(error).splitlines() or [""]  # CUDA's errors go on with advice
        sys.exit(f"{type(error).__name__}: {what}")


def command(asked: Asked, group: Group, folder: Path) -> list[str]:
    """Of one process."""
    options = ["--seeds", str(asked.seeds), "--device", asked.device, "--train", str(folder)]
    return [sys.executable, __file__, f"{group.cell}=1x{group.threads}", *options]


# All of them ----------------------------------------------------------------------------------------------------------


def done(moments: Sequence[float], moment: float) -> float:
    """Iterations after the first at this moment. moments: when they ended; in between a process advances evenly."""
    return float(np.interp(moment, moments, np.arange(len(moments))))


def window(clocks: Sequence[Sequence[float]], iterations: int) -> Window | None:
    """From the moment the last process was ready until every one has done so many iterations more; None: not yet over.

    clocks: when the iterations of every process ended.
    """
    if not all(clocks):
        return None
    begin = max(moments[0] for moments in clocks)
    wanted = [done(moments, begin) + iterations for moments in clocks]
    if any(len(moments) - 1 < most for moments, most in zip(clocks, wanted, strict=True)):
        return None
    end = max(np.interp(most, np.arange(len(m)), m) for m, most in zip(clocks, wanted, strict=True))
    if any(moments[-1] < end for moments in clocks):
        return None
    return Window(float(end - begin), [done(moments, end) - done(moments, begin) for moments in clocks])


def rates(found: Window, size: int) -> dict[str, int]:
    """Steps per second and seed of the processes of a cell. size: steps of an iteration."""
    each = [number * size / found.seconds for number in found.iterations]
    several = {"least": min(each), "median": np.median(each), "most": max(each), "all together": sum(each)}
    return {name: round(rate) for name, rate in several.items()}


def report_groups(asked: Asked, found: Window) -> tuple[list[dict[str, Any]], float]:
    """The rates of every cell, and the work done per second."""
    reports, work, first = [], 0.0, 0
    for group in asked.groups:
        last = first + group.processes
        cell, own = Cell.parse(group.cell), found._replace(iterations=found.iterations[first:last])
        settings, first = resolve(cell, {}).settings, last
        rate = rates(own, settings.rollout_length * settings.rollout_threads)
        work += rate["all together"] * asked.seeds * step_seconds(cell)
        reports.append(asdict(group) | {"steps_per_second_and_seed": rate})
    return reports, work


def listen(number: int, stream: IO[str], lines: SimpleQueue[Line]) -> None:
    """Pass on what a process prints, and that it has ended."""
    for text in stream:
        lines.put(Line(number, text))
    lines.put(Line(number, None))


def stop(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Let them stop after their iteration: a client of MPS that is killed may harm others. Then kill what is left."""

    def send(number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)  # with the processes that compile for it

    try:
        send(signal.SIGTERM)
        limit = time.monotonic() + PATIENCE
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, limit - time.monotonic()))
    finally:  # also after another Ctrl-C
        send(signal.SIGKILL)
        for process in processes:
            process.wait()


def observe(asked: Asked, folder: Path) -> tuple[dict[str, Any], Window]:
    """Start all processes, wait for the window to be over, and end them. How they compute, and the window."""
    processes: list[subprocess.Popen[str]] = []
    lines: SimpleQueue[Line] = SimpleQueue()
    members = [group for group in asked.groups for _ in range(group.processes)]
    clocks: list[list[float]] = [[] for _ in members]
    told: dict[str, Any] = {}
    found = None
    try:
        for number, group in enumerate(members):
            place = folder / str(number)
            place.mkdir()
            with (place / "errors").open("w") as errors:
                process = subprocess.Popen(
                    command(asked, group, place),
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
            processes.append(process)
            threading.Thread(target=listen, args=(number, process.stdout, lines), daemon=True).start()
        while found is None:
            number, text = lines.get()
            if text is None:
                raise UserError(epitaph(number, len(members), processes[number].wait(), folder))
            thing = json.loads(text)
            if isinstance(thing, dict):
                told = thing
            else:
                clocks[number].append(thing)
                found = window(clocks, asked.iterations)
    finally:
        stop(processes)
    return told, found


def epitaph(number: int, count: int, code: int, folder: Path) -> str:
    """A line about a process that has ended too soon."""
    said = (folder / str(number) / "errors").read_text().split("\n")
    why = next((line for line in reversed(said) if line.strip()), "it said nothing")
    return f"process {number + 1} of {count} ended too soon, with exit code {code}: {why}"


def measure(asked: Asked) -> dict[str, Any]:
    """The report, without the machine."""
    with tempfile.TemporaryDirectory() as folder:
        told, found = observe(asked, Path(folder))
    groups, work = report_groups(asked, found)
    usual = replace(asked, device=Asked.device) == Asked()
    targets = TARGETS if usual and told["path"]["device"] == "cuda" else {}
    missed = [name for name, target in targets.items() if groups[0]["steps_per_second_and_seed"][name] < target]
    report = {"groups": groups, "seeds": asked.seeds, "iterations": asked.iterations, "work": round(work, 3)}
    return report | {"seconds": round(found.seconds, 2)} | told | {"targets": targets, "missed": missed}


def arranged(wanted: Sequence[Group], cores: int) -> tuple[Group, ...]:
    """With the threads that Snakemake would give such jobs, if one group does not name its own (0)."""
    if all(group.threads for group in wanted):
        return tuple(wanted)
    plans = [resolve(Cell.parse(group.cell), {}) for group in wanted]
    work = {(i, j): work_seconds(plan, 5) for i, plan in enumerate(plans) for j in range(wanted[i].processes)}
    threads = threads_of_jobs(work, cores, at_once=cores)
    # Jobs of a cell may differ by a thread: every number of threads is a group of its own.
    counts = Counter((i, threads[i, j]) for i, j in work)
    return tuple(Group(wanted[i].cell, count, own) for (i, own), count in counts.items())


def group(text: str) -> Group:
    """CELL=PROCESSES[xTHREADS]; without threads they are 0."""
    found = re.fullmatch(r"(.+)=([1-9]\d*)(?:x([1-9]\d*))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: allowed: CELL=PROCESSES or CELL=PROCESSESxTHREADS, both 1 or more")
    cell, processes, threads = found.groups()
    try:
        resolve(Cell.parse(cell), {})
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Group(cell, int(processes), int(threads or 0))


def parsed() -> tuple[Asked, Path | None]:
    """The command line; with a folder it is one process's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", type=group, default=Asked.groups, metavar="CELL=PROCESSES[xTHREADS]")
    parser.add_argument("--seeds", type=int, default=Asked.seeds, help="of each")
    parser.add_argument("--iterations", type=int, default=Asked.iterations, help="of each that count, at least")
    parser.add_argument("--device", default=Asked.device, choices=("auto", "cpu", "cuda"))
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    found = parser.parse_args()
    for name in ("seeds", "iterations"):
        if getattr(found, name) < 1:
            parser.error(f"--{name} {getattr(found, name)}: allowed: 1 or more")
    return Asked(arranged(found.groups, processors()), found.seeds, found.iterations, found.device), found.train


def leave(number: int, frame: FrameType | None) -> None:
    """On Ctrl-C and SIGTERM: end the processes on the way out."""
    sys.exit(f"{Path(__file__).name}: stopped")


def main() -> None:
    asked, folder = parsed()
    if folder is not None:
        train(asked, folder)
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    machine = {
        "benchmark": "beside",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    try:
        print(json.dumps(machine | measure(asked)))
    except UserError as error:
        sys.exit(f"{Path(__file__).name}: {error}")


if __name__ == "__main__":
    main()
