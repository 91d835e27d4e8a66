"""What a run takes and what happened to it: `volatile` of run.json, which may differ between repetitions of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from fp3o.envs.interface import BatchEnv
from fp3o.machine import peak_memory_mib
from fp3o.runs.folder import now
from fp3o.training.callbacks import PHASES

LOST = "episodes lost since the last resume:"
RESTARTED = "environments restarted since the last resume"


class RunStats:
    """Seconds by phase, memory, resumes and notes of a block; saved with its state, and carried on by a resume."""

    def __init__(self) -> None:
        self.volatile: dict[str, Any] = {
            "seconds": dict.fromkeys((*PHASES, "total"), 0.0),
            "resumes": 0,
            "memory_mib": 0.0,
            "peak_gpu_mib": None,
            "started": now(),
            "notes": [],
        }
        self.spent: dict[str, float] = {}
        """Seconds of this iteration by phase."""
        self._begun = 0.0
        self._lost_before = 0

    def note(self, text: str) -> None:
        self.volatile["notes"].append(text)

    def resume(self, before: dict[str, Any]) -> None:
        """Carry on what was saved; notes made until now are about this resume."""
        notes = [*before.get("notes", ()), *self.volatile["notes"]]
        self._lost_before = before.get("lost_episodes", 0)
        self.volatile |= before | {"resumes": before["resumes"] + 1, "notes": notes}

    def begin_iteration(self) -> None:
        self.spent = dict.fromkeys(PHASES, 0.0)

    def begin(self) -> None:
        """Training begins: from now on `count` adds to the total of seconds."""
        self._begun = time.monotonic() - self.volatile["seconds"]["total"]

    def count(self) -> None:
        self.volatile["seconds"]["total"] = time.monotonic() - self._begun

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        seconds = time.monotonic() - begun
        self.spent[phase] = self.spent.get(phase, 0.0) + seconds
        self.volatile["seconds"][phase] += seconds

    def measure(self, env: BatchEnv, lost: Mapping[str, int], device: str) -> None:
        """Update peak memory, and the notes on lost episodes and restarted environments."""
        self.volatile["memory_mib"] = max(self.volatile["memory_mib"], round(peak_memory_mib(), 1))
        if device == "cuda":
            gpu = round(torch.cuda.max_memory_allocated() / 2**20, 1)
            self.volatile["peak_gpu_mib"] = max(self.volatile["peak_gpu_mib"] or 0.0, gpu)
            # All that is taken of the GPU: of this process, context included, if it is alone there.
            free, total = torch.cuda.mem_get_info()
            taken = round((total - free) / 2**20, 1)
            self.volatile["process_gpu_mib"] = max(self.volatile.get("process_gpu_mib", 0.0), taken)
        if lost:
            self.volatile["lost_episodes"] = self._lost_before + sum(lost.values())
            others = [note for note in self.volatile["notes"] if not note.startswith(LOST)]
            self.volatile["notes"] = [*others, *(f"{LOST} {why} ({n})" for why, n in lost.items())]
        if env.restarts:
            others = [note for note in self.volatile["notes"] if not note.endswith(RESTARTED)]
            self.volatile["notes"] = [*others, f"{env.restarts} {RESTARTED}"]
