"""A valid run.json to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_files

from fp3o.config import Cell, resolve
from fp3o.runs import records


@pytest.fixture
def run_document() -> dict[str, Any]:
    plan = resolve(Cell.parse("mpe/simple-reference/full/mappo"), {"epochs": 12})
    score = records.summary_of({name: np.empty(0) for name in records.EVALUATION_COLUMNS})
    checksums = dict.fromkeys((records.EVALUATIONS, records.ITERATIONS, records.CHECKPOINT), "0" * 64)
    return run_files.run_document(plan, 3, Path(), score=score, sha256=checksums)
