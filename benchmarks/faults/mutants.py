"""Do the tests notice mistakes? Plants one fault at a time in a copy of the package and runs the nearest tests.

    python benchmarks/faults/mutants.py                 # every fault; a JSON line each, exit code 1 if one survives
    python benchmarks/faults/mutants.py --only learner  # those of one folder

A fault is an operator or a constant changed in one place. A text that is no longer in its file is an error: the fault
is then to be planted anew, not dropped. First the tests must pass without a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("fp3o", "tests", "benchmarks", "docs", "results", "workflow", "profiles", "paper_figures")
PATIENCE = 600.0  # seconds for the tests of one fault


class Fault(NamedTuple):
    """What is changed, where, and which tests must notice."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS = (
    Fault("algorithms/advantage.py", "goes_on - value", "goes_on + value", "tests/algorithms/test_advantage.py"),
    Fault(
        "algorithms/objective.py", "clamp(1 - epsilon", "clamp(1 - 2 * epsilon", "tests/algorithms/test_objective.py"
    ),
    Fault(
        "learner/step.py",
        "policy - coefficient * entropy",
        "policy + coefficient * entropy",
        "tests/reference",
    ),
    Fault("learner/step.py", "sample.returns - weights.mean", "sample.returns + weights.mean", "tests/reference"),
    Fault(
        "learner/step.py", "squared_norm(trunk) + of_heads", "squared_norm(trunk)", "tests/learner/test_optimiser.py"
    ),
    Fault("learner/step.py", "limit // (agents * length)", "limit // length", "tests/learner/test_update.py"),
    Fault(
        "learner/optimiser.py",
        "BETA1, BETA2 = 0.9, 0.999",
        "BETA1, BETA2 = 0.9, 0.99",
        "tests/learner/test_optimiser.py",
    ),
    Fault("learner/optimiser.py", "clamp(max=1.0)", "clamp(max=2.0)", "tests/learner/test_optimiser.py"),
    Fault(
        "learner/update.py",
        "turn.ordinal != previous.ordinal",
        "turn.ordinal == previous.ordinal",
        "tests/learner/test_update.py",
    ),
    Fault(
        "learner/samples.py",
        "slot, time = index // times, index % times",
        "time, slot = index // times, index % times",
        "tests/learner/test_update.py",
    ),
    Fault(
        "learner/state.py",
        "torch.where(replicas.view",
        "torch.where(~replicas.view",
        "tests/learner/test_update.py tests/algorithms/test_full_pipeline.py",
    ),
    Fault(
        "learner/randomness.py",
        "self.iteration, turn)",
        "self.iteration)",
        "tests/learner/test_randomness.py tests/training/test_pinned_numbers.py",
    ),
    Fault(
        "rollout/collector.py",
        "transition.truncated & ~transition.terminated",
        "transition.truncated",
        "tests/rollout/test_time_limit.py",
    ),
    Fault(
        "rollout/collector.py",
        'frames["continues"][:-1]',
        'frames["continues"][1:]',
        "tests/rollout/test_time_limit.py tests/training/test_pinned_numbers.py",
    ),
    Fault(
        "rollout/values.py",
        "stored[:, time + 1]",
        "stored[:, time]",
        "tests/rollout/test_time_limit.py tests/execution/test_gpu_policy.py",
    ),
    Fault("execution/steps.py", "captured.rows.copy_(rows)", "pass", "tests/execution/test_choice_and_steps.py"),
    Fault(
        "execution/steps.py", "_copy_into(rollout, turn.rollout)", "pass", "tests/execution/test_choice_and_steps.py"
    ),
    Fault("execution/compiler.py", "{conditions(signature.tensors)}", "", "tests/execution/test_compiler.py"),
    Fault(
        "execution/check_against_eager.py",
        "MOST_WRONG, LEAST_WRONG = 0.1",
        "MOST_WRONG, LEAST_WRONG = 10.0",
        "tests/execution/test_compiler.py",
    ),
    Fault("execution/call_signature.py", "x.shape, x.stride()", "x.shape", "tests/execution/test_compiler.py"),
    Fault("training/memory.py", "INDEX = 4, 8", "INDEX = 3, 6", "tests/training/test_edges.py"),
    Fault("training/loop.py", "if interrupt or stop or", "if stop or", "tests/training/test_interruption.py"),
    Fault(
        "training/block.py", 'f"environment.{k}": v', 'f"environment.{k}": 0 * v', "tests/training/test_every_cell.py"
    ),
    Fault("config/resolve.py", "hexdigest()[:10]", "hexdigest()[:9]", "tests/config/test_digests.py"),
    Fault("fields.py", "or v != later.value", "or True", "tests/config/test_digests.py"),
    Fault(
        "statistics/intervals.py",
        "return Student(centre, spread / math.sqrt(n), n - 1)",
        "return Student(centre, spread / math.sqrt(n), n)",
        "tests/statistics/test_intervals.py",
    ),
    Fault(
        "statistics/intervals.py",
        "self._beyond(margin - abs(self.value))",
        "2 * self._beyond(margin - abs(self.value))",
        "tests/statistics/test_intervals.py",
    ),
    Fault(
        "statistics/rank_tests.py",
        "ways[taken - 1, : ways.shape[1] - rank]",
        "ways[taken, : ways.shape[1] - rank]",
        "tests/statistics/test_rank_tests.py",
    ),
    Fault("statistics/intervals.py", "2 * self._beyond(abs", "self._beyond(abs", "tests/statistics/test_own_suite.py"),
    Fault("statistics/scores.py", "max(scores) <= floor", "max(scores) < floor", "tests/statistics/test_own_suite.py"),
    Fault("statistics/scores.py", "len(values) // 2", "len(values) // 3", "tests/statistics/test_scores.py"),
    Fault("workflow/resources.py", "work[job] / threads[job]", "work[job]", "tests/workflow/test_resources.py"),
    Fault("runs/verify.py", "if actual != checksum:", "if False:", "tests/statistics/test_altered_runs.py tests/runs"),
    Fault("runs/atomic.py", "partial.replace(path)", "path.write_bytes(content)", "tests/runs"),
)


def run_tests(copy: Path, tests: str) -> bool:
    """Whether the tests pass in the copy."""
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not workflow", *tests.split()]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults whose file begins with this")
    asked = parser.parse_args()
    faults = [fault for fault in FAULTS if fault.file.startswith(asked.only)]
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            left_out = ("runs", "scratch", "report", "films") if name == "results" else ("__pycache__",)
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*left_out))
        for name in ("pyproject.toml", "README.md", "Snakefile", "dvc.yaml", "dvc.lock", "Makefile"):
            shutil.copy(ROOT / name, copy / name)
        for tests in sorted({fault.tests for fault in faults}):
            if not run_tests(copy, tests):
                sys.exit(f"{tests}: the tests fail without a fault")
        for fault in faults:
            path = copy / "fp3o" / fault.file
            text = path.read_text()
            if fault.right not in text:
                sys.exit(f"fp3o/{fault.file} has no {fault.right!r}")
            path.write_text(text.replace(fault.right, fault.wrong, 1))
            begun = time.monotonic()
            noticed = not run_tests(copy, fault.tests)
            path.write_text(text)
            survived += not noticed
            seconds = round(time.monotonic() - begun, 1)
            print(json.dumps({**fault._asdict(), "noticed": noticed, "seconds": seconds}), flush=True)
    print(json.dumps({"faults": len(faults), "survived": survived}))
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
