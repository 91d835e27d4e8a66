"""run.json of finished runs that nobody trained: the one place in tests that knows all its entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fp3o.config import Plan
from fp3o.config.domains import DOMAINS
from fp3o.runs import records


def run_document(plan: Plan, seed: int, folder: Path, **changes: Any) -> dict[str, Any]:
    """A valid document but for the checksums, with the score of the files in `folder`.

    changes: entries with another value; those of `volatile` are merged into it.
    """
    configuration = plan.configuration()
    volatile = {
        "seconds": {"rollout": 60.0, "update": 30.0, "evaluation": 10.0, "total": 101.0},
        "resumes": 0,
        "host": "2 cores x86_64",
        "memory_mib": 512.0,
        "peak_gpu_mib": None,
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:01:41Z",
        "stacked_seeds": [seed],
    }
    document = {
        "schema": records.SCHEMA_VERSION,
        "cell": plan.cell.id,
        "digest": plan.digest,
        "seed": seed,
        "status": "finished",
        "settings": configuration["settings"],
        "options": configuration["options"],
        "protocol": plan.protocol,
        "revision": plan.revision,
        "deviations": [str(change) for change in plan.deviations],
        "environment": {"engine": "embedded" if DOMAINS[plan.cell.domain].real_backend else plan.cell.domain},
        "versions": {"python": "3.11.4", "mujoco": "3.17.0"},
        "git": {"commit": "a" * 40, "dirty": False},
        "path": {"mode": "eager", "torch": "2.13.0", "threads": 1, "device": "cpu"},
        "exact_resume": True,
        **changes,
        "volatile": {**volatile, **changes.get("volatile", {})},
    }
    if "score" not in document:
        document["score"] = records.score_summary(folder / records.EVALUATIONS, folder / records.FINAL)
    return document


def write_run(folder: Path, document: dict[str, Any]) -> None:
    """Write run.json with the checksums of the files that lie in the folder."""
    names = (records.EVALUATIONS, records.ITERATIONS, records.FINAL, records.CHECKPOINT)
    checksums = {name: records.sha256_of(folder / name) for name in names if (folder / name).exists()}
    records.write_run(folder / records.RUN, {**document, "sha256": checksums})
