"""How algorithms and variants look in figures and in the report: a colour per algorithm (its declaration has it, see
`algorithm_colour`), a dash per variant."""

from __future__ import annotations

import zlib

# Lengths of strokes and gaps; a plain algorithm's line has none. The first of each list are easiest to tell apart.
DASHES = {
    "10-epochs": (6, 2),
    "30-epochs": (9, 2),
    "3-2": (3, 1.5),
    "8-7": (4, 1, 1, 1),
    "independent": (1.5, 1.5),
    "random-split": (6, 1.5, 1.5, 1.5),
    "double-clip": (4, 1.5, 1, 1.5, 1, 1.5),
    "clipping-only": (2, 1, 1, 1),
    "no-blocks": (5, 2, 2, 2),
    "head-lr-one": (7, 1.5, 3, 1.5),
    "head-lr-agents": (3, 3),
}
MORE = ((8, 1.5), (5, 1, 1, 1, 1, 1, 1, 1), (3, 1, 3, 3), (2, 2), (7, 3, 1, 3))
"""For variants that are not named above, a suite's own and those of sweeps."""


def dash(label: str) -> tuple[float, ...]:
    """Of a label's variant; empty for an algorithm itself. The same on every machine and in every picture."""
    variant = label.partition("-")[2]
    if not variant:
        return ()
    return DASHES.get(variant) or MORE[zlib.crc32(variant.encode()) % len(MORE)]
