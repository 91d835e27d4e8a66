"""Stands in for `fp3o train`, so that the orchestration is tested in seconds; other commands go to the real one.

Behaves like the trainer where the workflow can tell: resumes from scratch, saves on SIGTERM, publishes run.json last.
Environment: FAKE_SECONDS per iteration; FAKE_FAIL="<text in cell>:<iteration>" fails there once; FAKE_JOURNAL, a file
that gets one line per started and ended job; FAKE_ENDED, the time runs say they ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from fp3o import config
from fp3o.runs import layout, records
from fp3o.runs.atomic import write_atomically
from fp3o.runs.folder import now

ITERATIONS = 8


def journal(line: str) -> None:
    if "FAKE_JOURNAL" in os.environ:
        with open(os.environ["FAKE_JOURNAL"], "a") as file:
            file.write(f"{time.monotonic():.3f} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')} {line}\n")


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


def publish(folder: Path, resolved: config.Plan, seed: int, seeds: tuple[int, ...], resumes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [",".join(records.EVALUATION_COLUMNS)]
    for iteration in range(1, ITERATIONS + 1):
        value = 100 * number(resolved.cell.id, resolved.digest, seed, iteration)
        won = int(value > 50) if resolved.cell.domain == "smac" else ""
        tail = f"{value:.6g},{value:.6g},{won},10"
        rows += [f"{iteration * 100},{iteration},{k},{tail}" for k in range(resolved.settings.evaluation_episodes)]
    write_atomically(folder / "evaluations.csv", ("\n".join(rows) + "\n").encode())
    files = ["evaluations.csv", "iterations.csv", "checkpoint.safetensors"]
    if resolved.settings.final_episodes > resolved.settings.evaluation_episodes:
        last = [f"{episode},{value:.6g},{value:.6g},,10" for episode in range(resolved.settings.final_episodes)]
        write_atomically(folder / "final.csv", "\n".join([",".join(records.FINAL_COLUMNS), *last, ""]).encode())
        files.append("final.csv")
    write_atomically(folder / "iterations.csv", b"iteration,entropy\n1,0.5\n")
    write_atomically(folder / "checkpoint.safetensors", repr((resolved.digest, seed)).encode())
    records.write_run(
        folder / "run.json",
        {
            "schema": records.SCHEMA_VERSION,
            "cell": resolved.cell.id,
            "digest": resolved.digest,
            "seed": seed,
            "status": "finished",
            "settings": resolved.configuration()["settings"],
            "options": resolved.configuration()["options"],
            "protocol": resolved.protocol,
            "revision": resolved.revision,
            "deviations": [str(change) for change in resolved.deviations],
            "environment": {"engine": "fake"},
            "versions": {"torch": "none"},
            "git": None,
            "path": {"mode": "eager", "torch": "none", "threads": 1, "device": "cpu"},
            "exact_resume": True,
            "sha256": {name: records.sha256_of(folder / name) for name in files},
            "score": records.score_summary(folder / "evaluations.csv", folder / "final.csv"),
            "volatile": {
                "seconds": {"rollout": 1.0, "update": 1.0, "evaluation": 1.0, "total": 3.0},
                "resumes": resumes,
                "host": "here",
                "memory_mib": 1.0,
                "peak_gpu_mib": None,
                "started": "then",
                "ended": os.environ.get("FAKE_ENDED") or now(),
                "stacked_seeds": list(seeds),
            },
        },
    )


def train(cell: str, options: dict[str, str], settings: dict[str, str]) -> None:
    suite = config.load_suite(options["--suite"]) if "--suite" in options else None
    resolved = config.resolve(config.Cell.parse(cell), settings, suite)
    seeds = config.parse_seeds(options["--seeds"])
    root = layout.suite_root(suite.name) if suite else Path(options["--out"])
    runs = root / "runs" if suite else root
    state = layout.scratch_directory(root / "scratch", resolved, seeds) / "resume.safetensors"
    iteration, resumes = load_state(state)
    journal(f"start {cell} {os.getpid()} {iteration}")
    print(f"resume from iteration {iteration}" if iteration else "start afresh", flush=True)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda n, _: stop.append(n))
    signal.signal(signal.SIGINT, lambda n, _: stop.append(n))
    where, _, at = os.environ.get("FAKE_FAIL", "").partition(":")
    while iteration < ITERATIONS:
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
        iteration += 1
        save_state(state, iteration, resumes)
        if stop:
            journal(f"stopped {cell}")
            sys.exit(128 + stop[0])
        if where and where in cell and iteration == int(at) and not resumes:
            sys.exit("injected failure")
    for seed in seeds:
        publish(layout.run_directory(runs, resolved, seed), resolved, seed, seeds, resumes)
    state.unlink()
    journal(f"end {cell}")


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] != ["train"]:
        os.execv(sys.executable, [sys.executable, "-m", "fp3o.cli", *arguments])
    options: dict[str, str] = {}
    settings: dict[str, str] = {}
    rest = arguments[2:]
    while rest:
        key = rest.pop(0)
        if key == "--set":
            name, _, value = rest.pop(0).partition("=")
            settings[name] = value
        else:
            options[key] = rest.pop(0)
    train(arguments[1], options, settings)


if __name__ == "__main__":
    main()
