"""Stands in for `fp3o train`, so that the orchestration is tested in seconds; other commands go to the real one.

The real command with another training loop in it: its options, checks, locks and folders are the real ones. The loop
resumes from scratch, saves on SIGTERM, publishes run.json last.
Environment: FAKE_SECONDS per iteration; FAKE_FAIL="<text in cell>:<iteration>" fails there once; FAKE_JOURNAL, a file
that gets one line per started and ended job; FAKE_HOLD, a file that holds back the last iteration while it is there;
FAKE_ENDED, the time runs say they ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from run_files import run_document

from fp3o import cli, config
from fp3o.cli import train as command
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.runs import records
from fp3o.runs.atomic import write_atomically
from fp3o.runs.folder import RunFolder, now
from fp3o.runs.interrupt import Interrupt
from fp3o.training.callbacks import Callback

ITERATIONS = 8


def journal(line: str) -> None:
    if "FAKE_JOURNAL" in os.environ:
        with open(os.environ["FAKE_JOURNAL"], "a") as file:
            file.write(f"{time.monotonic():.3f} {os.environ.get('CUDA_VISIBLE_DEVICES') or '-'} {line}\n")


def number(*parts: object) -> float:
    """A number that depends on nothing but its arguments."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:6], 16) / 0xFFFFFF


def save_state(path: Path, iteration: int, resumes: int) -> None:
    header = json.dumps(
        {"__metadata__": {"fp3o": json.dumps({"metadata": {"iteration": iteration, "resumes": resumes}})}}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, len(header).to_bytes(8, "little") + header.encode())


def load_state(path: Path) -> tuple[int, int]:
    if not path.exists():
        return 0, 0
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    state = json.loads(header["__metadata__"]["fp3o"])["metadata"]
    return state["iteration"], state["resumes"] + 1


def write_files(folder: Path, plan: config.Plan, seed: int, seeds: Sequence[int], resumes: int) -> dict[str, Any]:
    """The files of a run but run.json; what that holds, but the files' checksums."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [",".join(records.EVALUATION_COLUMNS)]
    for iteration in range(1, ITERATIONS + 1):
        value = 100 * number(plan.cell.id, plan.digest, seed, iteration)
        won = int(value > 50) if plan.cell.domain == "smac" else ""
        tail = f"{value:.6g},{value:.6g},{won},10"
        rows += [f"{iteration * 100},{iteration},{k},{tail}" for k in range(plan.settings.evaluation_episodes)]
    write_atomically(folder / "evaluations.csv", ("\n".join(rows) + "\n").encode())
    if plan.settings.final_episodes > plan.settings.evaluation_episodes:
        last = [f"{episode},{value:.6g},{value:.6g},,10" for episode in range(plan.settings.final_episodes)]
        write_atomically(folder / "final.csv", "\n".join([",".join(records.FINAL_COLUMNS), *last, ""]).encode())
    write_atomically(folder / "iterations.csv", f"iteration,entropy,loss\n1,0.5,{number(plan.digest, seed)}\n".encode())
    write_atomically(folder / "checkpoint.safetensors", repr((plan.digest, seed)).encode())
    volatile = {"resumes": resumes, "ended": os.environ.get("FAKE_ENDED") or now(), "stacked_seeds": list(seeds)}
    return run_document(plan, seed, folder, environment={"engine": "fake"}, volatile=volatile)


def wait_while(held: str, interrupt: Interrupt) -> None:
    deadline = time.monotonic() + 300
    while held and Path(held).exists() and not interrupt and time.monotonic() < deadline:
        time.sleep(0.05)


def train(
    plan: config.Plan,
    seeds: Sequence[int],
    runs_root: Path,
    scratch_root: Path,
    compute: Compute,
    callbacks: Sequence[Callback] = (),
    origin: Path | None = None,
) -> None:
    del origin  # where `--start-from` would look
    cell = plan.cell.id
    where, _, at = os.environ.get("FAKE_FAIL", "").partition(":")
    with Interrupt() as interrupt, RunFolder(plan, seeds, runs_root, scratch_root) as folder:
        interrupt.hold()
        iteration, resumes = load_state(folder.resume_path)
        journal(f"start {cell} {os.getpid()} {iteration}")
        print(f"resume from iteration {iteration}" if iteration else "start afresh", flush=True)
        while iteration < ITERATIONS:
            time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
            iteration += 1
            if iteration == ITERATIONS:
                wait_while(os.environ.get("FAKE_HOLD", ""), interrupt)
            save_state(folder.resume_path, iteration, resumes)
            if interrupt:
                journal(f"stopped {cell}")
            interrupt.raise_if_set()
            if where and where in cell and iteration == int(at) and not resumes:
                raise UserError("injected failure")
        for seed in folder.seeds:
            folder.publish(seed, write_files(folder.scratch(seed), plan, seed, folder.seeds, resumes))
        folder.discard_scratch()
        for callback in callbacks:
            for k in range(plan.iterations):
                callback.timed(k, {"rollout": number(cell, k), "update": 0.5, "evaluation": 0.0})
            callback.end()
        journal(f"end {cell}")


def main() -> None:
    run = types.ModuleType("fp3o.training.run")  # In place of the one that imports torch.
    run.train = train  # type: ignore[attr-defined]
    sys.modules[run.__name__] = run
    command.print_results = lambda *_: None  # Needs SciPy, a second per job.
    cli.main()


if __name__ == "__main__":
    main()
