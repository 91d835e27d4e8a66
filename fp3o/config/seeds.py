"""Lists of seeds as text, and the blocks they are trained in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fp3o.errors import UserError

SEED_BLOCK = 5  # Seeds trained in one process; a sixth seed is a block of its own and leaves the first five alone.


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-4`, `3`, `0-4,7`: sorted, without repetition."""
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"seeds {text!r} not understood; allowed: 3, 0-4 or 0-4,7")
        seeds.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(seeds))


def seeds_text(seeds: Sequence[int]) -> str:
    """The shortest text parse_seeds reads back."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def seed_blocks(seeds: Iterable[int], size: int = SEED_BLOCK) -> list[tuple[int, ...]]:
    """Seeds by fixed block (seed // size), so that adding a seed never changes a block that is complete."""
    blocks: dict[int, list[int]] = {}
    for seed in sorted(set(seeds)):
        blocks.setdefault(seed // size, []).append(seed)
    return [tuple(block) for block in blocks.values()]
