"""Seeded, single-threaded, offline."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Arrays recorded from other people's running code; another folder of the same layout can be named.
GOLDEN = Path(os.environ.get("FP3O_GOLDEN", Path(__file__).parent / "data" / "golden"))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look through it again and again."""
    gc.freeze()


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments of others in one process, not one per core: each start imports NumPy and Gymnasium again."""
    monkeypatch.setattr("fp3o.envs.pettingzoo.engine.processors", lambda: 1)


@pytest.fixture
def learner_in_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever the learner would compute in float32 is float64."""
    import numpy as np  # not above: threads are counted at import, and most tests of the workflow need no torch
    import torch

    from_numpy = torch.from_numpy

    def widened(array: np.ndarray) -> torch.Tensor:
        return from_numpy(array.astype(np.float64) if array.dtype == np.float32 else array)

    monkeypatch.setattr(torch, "from_numpy", widened)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
