"""Seeded, single-threaded, offline."""

from __future__ import annotations

import os
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Arrays recorded from other people's running code; another folder of the same layout can be named.
GOLDEN = Path(os.environ.get("FP3O_GOLDEN", Path(__file__).parent / "data" / "golden"))
