"""What the paper says, from benchmarks/published: titles, claims, and numbers, which a test checks one by one."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fp3o.config import SHARINGS, Cell, Row, data_root
from fp3o.config.yaml_files import read_yaml
from fp3o.errors import UserError
from fp3o.statistics.intervals import Summary
from fp3o.statistics.suites import read_csv

# The paper states five seeds for its two main tables; five are assumed for the others.
SEEDS = 5
TABLES = ("mamujoco", "smac", "mpe", "approximation", "wallclock", "memory")
# Main tables come first: the approximation table repeats four of their cells, one of them wrongly (docs/deviations.md).
SCORE_TABLES = ("mamujoco", "smac", "mpe", "approximation")


class Published(NamedTuple):
    """One number of the paper and how its table prints it."""

    cell: str
    value: float
    spread: float | None
    """The number after ±; None where the table has none."""
    decimals: int
    """As printed."""
    bold: bool
    underline: bool
    title: str
    """Of the task, in the table; likewise the next two."""
    difficulty: str
    agents: str
    label: str
    """LaTeX label of the table."""
    latex_line: int
    """Line of the paper's source."""

    @property
    def summary(self) -> Summary:
        """For tests: five seeds, and the printed spread (ddof = 0 is assumed, the paper does not say) times √(5/4)."""
        return Summary(self.value, (self.spread or 0.0) * (SEEDS / (SEEDS - 1)) ** 0.5, SEEDS)

    @property
    def text(self) -> str:
        """As the paper prints it: 4128.3 ± 366.9."""
        value = f"{self.value:.{self.decimals}f}"
        return value if self.spread is None else f"{value} ± {self.spread:.{self.decimals}f}"


@cache
def paper() -> dict[str, Any]:
    """paper.yaml: tables and figures by label, remarks, claims."""
    return read_yaml(data_root() / "benchmarks" / "published" / "paper.yaml")


def item_title(label: str) -> str:
    """Of a table or figure; the label itself where it is none."""
    return str(paper()["items"].get(label, label))


@cache
def table(name: str) -> tuple[Published, ...]:
    """All numbers of one table, in the paper's order."""
    path = data_root() / "benchmarks" / "published" / f"{name}.csv"
    if name not in TABLES or not path.is_file():
        raise UserError(f"no published table {name!r} in {path.parent}; known: {', '.join(TABLES)}")
    return tuple(
        Published(
            cell=f"{row['domain']}/{row['task']}/{row['sharing']}/{row['algorithm']}",
            value=float(row["value"]),
            spread=float(row["spread"]) if row["spread"] else None,
            decimals=max(len(row[name].partition(".")[2]) for name in ("value", "spread")),
            bold=row["bold"] == "1",
            underline=row["underline"] == "1",
            title=row["title"],
            difficulty=row["difficulty"],
            agents=row["agents"],
            label=row["label"],
            latex_line=int(row["latex_line"]),
        )
        for row in read_csv(path)
    )


@cache
def facts(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table that holds no scores: hyperparameters, instability, units."""
    return tuple(read_csv(data_root() / "benchmarks" / "published" / f"{name}.csv"))


@cache
def scores() -> dict[str, Published]:
    """The published score of every cell that has one; where two tables disagree, that of the main table."""
    by_cell: dict[str, Published] = {}
    for name in SCORE_TABLES:
        for entry in table(name):
            by_cell.setdefault(entry.cell, entry)
    return by_cell


@cache
def tasks() -> dict[tuple[str, str], Published]:
    """By domain and task, an entry with its title, difficulty and agents."""
    # Main tables come first, and their entries win; the approximation table has no column for difficulty and agents.
    return {Cell.of(entry.cell).row[:2]: entry for entry in reversed(scores().values())}


def task_title(domain: str, task: str) -> str:
    """As the paper's tables write it; of tasks that it names in its text alone, after their pattern."""
    known = tasks().get((domain, task))
    return known.title if known else task.replace("_vs_", " vs. ").replace("_", " ")


def row_title(row: Row) -> str:
    """A task and its sharing: 6-Agent HalfCheetah [6×1], full sharing."""
    return f"{task_title(row.domain, row.task)}, {SHARINGS[row.sharing].name}"


def cell_title(cell: Cell) -> str:
    """6-Agent HalfCheetah [6×1], full sharing: MAPPO (10 epochs)."""
    return f"{row_title(cell.row)}: {cell.title}"


class Bound(NamedTuple):
    """Score on an MPE task of a team that is told every goal: an upper bound from our own benchmarks/mpe_bound.py."""

    task: str
    goal_known: str
    value: float
    spread: float


@cache
def bounds() -> tuple[Bound, ...]:
    """The rows of benchmarks/bounds.csv."""
    rows = read_csv(data_root() / "benchmarks" / "bounds.csv")
    return tuple(Bound(row["task"], row["goal_known"], float(row["value"]), float(row["spread"])) for row in rows)
