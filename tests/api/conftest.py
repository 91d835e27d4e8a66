"""Teams that all tests here play with."""

from __future__ import annotations

from typing import Any

import pytest

import fp3o

TINY = {"total_steps": 512, "evaluation_interval": 2, "evaluation_episodes": 4, "final_episodes": 4, "hidden_size": 16}
CELLS: dict[str, dict[str, Any]] = {
    "matrix/uneven/full/mappo": {},  # agents with observations and choices of different length
    "matrix/masked/partial/happo": {},
    "matrix/two-step/none/fp3o": {"recurrent": True, "chunk_length": 8},
    "matrix/continuous-uneven/none/mappo": {},
}


@pytest.fixture(scope="session")
def team_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fp3o.Run]:
    out = tmp_path_factory.mktemp("teams")
    found = {}
    for cell, more in CELLS.items():
        (found[cell],) = fp3o.train(cell, [1], {**TINY, **more}, out, device="cpu", path="eager", quiet=True)
    return found
