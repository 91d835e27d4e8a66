"""The algorithms stay short, and what two of them share stands in one place."""

from __future__ import annotations

import itertools
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "fp3o"
ALGORITHMS = sorted((PACKAGE / "algorithms").glob("*.py"))
LEARNING = [*sorted((PACKAGE / "networks").glob("*.py"))]
LEARNING += [PACKAGE / "training" / name for name in ("optimiser.py", "step.py", "update.py")]
RUN = 6


def written(path: Path) -> list[str]:
    """Lines that are not blank."""
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def without_imports(path: Path) -> list[str]:
    """Lines that are neither blank nor part of an import, whether on one line or within brackets."""
    lines, bracket = [], False
    for line in written(path):
        if bracket or line.startswith(("import ", "from ")):
            bracket = (bracket or line.endswith("(")) and not line.endswith(")")
        else:
            lines.append(line)
    return lines


def runs(path: Path) -> set[tuple[str, ...]]:
    lines = without_imports(path)
    return {tuple(lines[i : i + RUN]) for i in range(len(lines) - RUN + 1)}


def test_algorithms_are_short() -> None:
    """All lines of fp3o/algorithms, blank ones too: under 700."""
    assert len(ALGORITHMS) >= 6
    assert sum(len(path.read_text().splitlines()) for path in ALGORITHMS) < 700


def test_networks_and_their_training_are_short() -> None:
    """Lines that are not blank (comments and docstrings count) of networks, optimiser, step and update: under 1,000."""
    assert all(path.is_file() for path in LEARNING)
    assert sum(len(written(path)) for path in LEARNING) < 1000


def test_no_two_algorithms_share_six_lines() -> None:
    for one, other in itertools.combinations(ALGORITHMS, 2):
        assert not runs(one) & runs(other), f"{one.name} and {other.name} repeat each other"
