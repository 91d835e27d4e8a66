"""A valid run.json to start from."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def run_document() -> dict[str, Any]:
    return {
        "schema": 1,
        "cell": "mpe/simple-reference/full/mappo",
        "digest": "0123456789",
        "seed": 3,
        "status": "finished",
        "settings": {"total_steps": 100},
        "options": {},
        "protocol": 1,
        "revision": 1,
        "deviations": ["epochs 5 → 10 (--set)"],
        "environment": {"engine": "mpe"},
        "versions": {"python": "3.11.2"},
        "git": None,
        "path": {"mode": "eager", "torch": "2.11.0", "threads": 1, "device": "cpu"},
        "exact_resume": True,
        "sha256": dict.fromkeys(("evaluations.csv", "iterations.csv", "checkpoint.safetensors"), "0" * 64),
        "score": {
            "source": "evaluations.csv",
            "env_steps": 100,
            "episodes": 2,
            "return": -1.5,
            "return_per_agent": -0.5,
            "win_rate": None,
            "length": 25.0,
        },
        "volatile": {
            "seconds": {"rollout": 1.5},
            "resumes": 0,
            "host": "somewhere",
            "memory_mib": 300.0,
            "peak_gpu_mib": None,
            "started": "2025-01-01T00:00:00Z",
            "ended": "2025-01-01T00:01:00Z",
            "stacked_seeds": [3],
        },
    }
