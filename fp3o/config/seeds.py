"""Lists of seeds as text, and seed blocks: seeds that one process trains side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fp3o.errors import UserError
from fp3o.grouping import grouped

SEED_BLOCK = 5  # Seeds per block: 0–4, 5–9, … So adding a sixth seed trains a new block and leaves the first alone.
MOST_SEEDS = 1000
LARGEST_SEED = 2**32 - 1  # What NumPy's and the simulators' generators take.


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that a text such as `0-4`, `3` or `0-4,7` names, sorted and each once."""
    shown = repr(text if len(text) <= 60 else f"{text[:60]}…")
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,20})(?:-([0-9]{1,20}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UserError(f"seeds {shown} not understood; allowed: 3, 0-4 or 0-4,7")
        if last > LARGEST_SEED:
            raise UserError(f"seeds {shown}: {last} is not allowed; allowed: 0 … {LARGEST_SEED}")
        if last - first < MOST_SEEDS:
            seeds.update(range(first, last + 1))
        if last - first >= MOST_SEEDS or len(seeds) > MOST_SEEDS:
            raise UserError(f"seeds {shown} are too many; allowed: at most {MOST_SEEDS}")
    return tuple(sorted(seeds))


def seeds_text(seeds: Sequence[int]) -> str:
    """The inverse of `parse_seeds`: the shortest such text."""
    ranges: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def seed_blocks(seeds: Iterable[int], size: int = SEED_BLOCK) -> list[tuple[int, ...]]:
    """The seeds grouped into blocks by seed // size, so that adding a seed never changes a complete block."""
    blocks = grouped((seed // size, seed) for seed in sorted(set(seeds)))
    return [tuple(block) for block in blocks.values()]
