"""A table before it is written: its cells, rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fp3o.config import Change, algorithm_title
from fp3o.statistics.compare import Comparison
from fp3o.statistics.intervals import Interval, Summary
from fp3o.statistics.paired import Paired
from fp3o.statistics.published import Published
from fp3o.statistics.scores import CellRuns
from fp3o.statistics.tables.digits import fixed


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    cell: str
    summary: Summary | None = None
    """Scores of our runs, summarised over seeds; None if no seed has a score."""
    planned: int = 0
    """Number of seeds planned."""
    diverged: int = 0
    """Number of seeds that diverged."""
    interval: Interval | None = None
    """95 % interval of our mean or median."""
    published: Published | None = None
    comparison: Comparison | None = None
    """With the published score; None if either is missing or our settings deviate from the paper's."""
    deviations: tuple[Change, ...] = ()
    bold: bool = False
    underline: bool = False
    runs: CellRuns | None = None
    digits: int = 1
    """Number of decimals it is printed with; the same in the whole row."""
    paired: Paired | None = None
    """Compared with the table's baseline; None for the baseline itself, and if one of the two was not run."""

    @property
    def verdict(self) -> str:
        """`Comparison.words`, or why there is no comparison."""
        if self.summary is None:
            return "not run" if not self.diverged else "diverged"
        if self.published is None:
            return ""
        return "not compared" if self.comparison is None else self.comparison.words

    @property
    def category(self) -> str:
        """The verdict without details ("undecided, …" is "undecided"), by which cells are counted."""
        return "undecided" if self.verdict.startswith("undecided") else self.verdict

    @property
    def against(self) -> str:
        """The comparison with the baseline as text, such as `+0.12 [0.03, 0.21] better`; "" if there is none."""
        if self.paired is None:
            return ""
        if self.paired.difference == self.paired.low == self.paired.high == 0:  # in every seed
            return "floor" if self.paired.verdict == "floor" else "all equal"
        difference, low, high = (
            fixed(value, self.digits) for value in (self.paired.difference, self.paired.low, self.paired.high)
        )
        sign = "+" if self.paired.difference > 0 else ""
        return f"{sign}{difference}" + (f" [{low}, {high}]" if low and high else "") + f" {self.paired.verdict}"

    @property
    def count(self) -> str:
        """Number of seeds for readers: `n = 5`, `n = 4/5` (of those planned), `n = 5, 1 diverged`."""
        n = self.summary.n if self.summary else 0
        seeds = f"n = {n}" if n == self.planned else f"n = {n}/{self.planned}"
        return f"{seeds}, {self.diverged} diverged" if self.diverged else seeds


@dataclass(frozen=True)
class Row:
    """A task under one kind of sharing."""

    sharing: str
    title: str
    difficulty: str
    agents: str
    entries: tuple[Entry, ...]

    @property
    def started(self) -> bool:
        """Whether any of its cells was run."""
        return any(entry.runs is not None and entry.runs.runs for entry in self.entries)

    @property
    def floor(self) -> bool:
        """Whether it was run, and no seed of any of its cells scores above the floor."""
        run = [entry.runs for entry in self.entries if entry.runs is not None and entry.runs.runs]
        return bool(run) and all(cell.at_floor for cell in run)


@dataclass(frozen=True)
class Table:
    """A table before it is written as CSV, Markdown or LaTeX; rows in the paper's order."""

    name: str
    caption: str
    columns: tuple[str, ...]
    """Algorithm labels."""
    controls: tuple[str, ...]
    """Labels of the columns that the paper's table does not have."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    label: str = ""
    baseline: str = ""
    """The algorithm that the others are compared with, seed by seed; "": none."""

    @property
    def entries(self) -> list[Entry]:
        return [entry for row in self.rows for entry in row.entries]

    @property
    def started(self) -> bool:
        """Whether any of its cells was run."""
        return any(row.started for row in self.rows)

    @property
    def has_difficulty(self) -> bool:
        """Whether any task is rated: the paper rates its SMAC maps."""
        return any(row.difficulty for row in self.rows)

    @property
    def has_agents(self) -> bool:
        """Whether any task says if its agents are alike (HO, homogeneous) or not (HE, heterogeneous)."""
        return any(row.agents for row in self.rows)

    def column_title(self, label: str) -> str:
        """The algorithm's name; a control is marked as ours."""
        return algorithm_title(label) + (" — ours" if label in self.controls else "")

    def framed(self, first: Sequence[str], difficulty: str, middle: Iterable[str], agents: str) -> list[str]:
        """Fields of a line: `first`, difficulty if rated, `middle` (the algorithms), agents if the table has them."""
        rating, team = [difficulty] * self.has_difficulty, [agents] * self.has_agents
        return [*first, *rating, *middle, *team]

    @property
    def header(self) -> list[str]:
        """Titles of all columns but the first, which a writer may name its own way."""
        return self.framed(["Task"], "Difficulty", map(self.column_title, self.columns), "Agent")
