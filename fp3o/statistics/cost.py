"""The two cost tables: seconds and memory of one seed on an idle machine, compared with the paper as ratios to MAPPO.

    python -m fp3o.statistics.cost --cost results/paper/cost.csv --out results/paper/tables/table-cost

The hardware differs from the paper's, so minutes and MiB are shown but not compared.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fp3o.config import Cell
from fp3o.errors import UserError
from fp3o.statistics import published
from fp3o.statistics.claims import Claim, ClaimVerdict, Finding
from fp3o.statistics.suites import as_command, csv_text, write

COLUMNS = (
    *("cell", "iterations", "rollout_s", "update_s", "evaluation_s"),
    *("peak_gpu_mib", "memory_mib", "device"),
)
REFERENCE = "mappo"
# Relative difference up to which two costs count as equal. Those the paper calls ≈ differ by up to 3 % in its tables
# (memory of FP3O and MAPPO; minutes of MAPPO and IPPO).
ALIKE = 0.05


class Cost(NamedTuple):
    """One row of cost.csv: one seed of a cell trained alone, the warm-up subtracted."""

    cell: str
    iterations: int
    rollout: float
    """Seconds of all iterations; likewise the next two."""
    update: float
    evaluation: float
    peak_gpu_mib: float | None
    memory_mib: float
    device: str

    @property
    def seconds(self) -> float:
        """Seconds per iteration, without evaluation."""
        return (self.rollout + self.update) / self.iterations

    @property
    def memory(self) -> float:
        """Peak memory in MiB: of the GPU where one was used, else of the process."""
        return self.peak_gpu_mib if self.peak_gpu_mib else self.memory_mib


def read(path: Path) -> list[Cost]:
    """The rows of cost.csv, one per cell."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(f"{path} has the columns {reader.fieldnames}; expected: {','.join(COLUMNS)}")
        return [
            Cost(
                row["cell"],
                int(row["iterations"]),
                float(row["rollout_s"]),
                float(row["update_s"]),
                float(row["evaluation_s"]),
                float(row["peak_gpu_mib"]) if row["peak_gpu_mib"] else None,
                float(row["memory_mib"]),
                row["device"],
            )
            for row in reader
        ]


class Ratio(NamedTuple):
    """A cell's cost as a multiple of MAPPO's in the same row, ours and the paper's."""

    cell: str
    ours: float | None
    ours_ratio: float | None
    published: float | None
    published_ratio: float | None


def ratios(costs: Sequence[Cost], measure: Callable[[Cost], float], table: str) -> list[Ratio]:
    """The ratio of every measured cell to MAPPO in the same row; `table`: the published table to compare with."""
    ours = {cost.cell: measure(cost) for cost in costs}
    theirs = {entry.cell: entry.value for entry in published.table(table)}

    def ratio(values: dict[str, float], cell: str) -> float | None:
        reference = values.get(f"{cell.rpartition('/')[0]}/{REFERENCE}")
        return values[cell] / reference if cell in values and reference else None

    return [
        Ratio(cell, ours.get(cell), ratio(ours, cell), theirs.get(cell), ratio(theirs, cell))
        # Unmeasured cells of the paper get a line too, unless no cell of the paper was measured at all.
        for cell in dict.fromkeys((*ours, *(theirs if ours.keys() & theirs.keys() else ())))
    ]


# What the paper concludes from its tables (appendix, computational analysis): the first of each pair costs more.
ORDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "wallclock": (("happo", "fp3o"), ("fp3o", "mappo"), ("fp3o", "ippo")),
    "memory": (("fp3o", "happo"), ("mappo", "ippo"), ("ippo", "happo")),
}


def claim(costs: Sequence[Cost]) -> tuple[Claim, Finding]:
    """Claim C12: whether the paper's orders of cost hold under full and partial sharing, counted pair by pair."""
    holds = total = 0
    needed = 2 * 2 * sum(len(pairs) for pairs in ORDERS.values())
    measured = {
        "wallclock": {cost.cell: cost.seconds for cost in costs},
        "memory": {cost.cell: cost.memory for cost in costs},
    }
    for table, known in measured.items():
        rows = sorted({str(cell.row) for cell in map(Cell.of, known) if cell.sharing in ("full", "partial")})
        for row in rows:
            for above, below in ORDERS[table]:
                first, second = known.get(f"{row}/{above}"), known.get(f"{row}/{below}")
                if first is not None and second is not None:
                    total += 1
                    holds += first > second * (1 - ALIKE)
    verdict: ClaimVerdict = "not run" if not total else "supported" if holds == total == needed else "undecided"
    if total and holds < total / 2:
        verdict = "contradicted"
    text = "HAPPO takes longer than FP3O, FP3O longer than MAPPO; FP3O and MAPPO take more memory than HAPPO"
    evidence = f"{holds} of {total} orders hold (one seed each: no test)" if total else ""
    finding = Finding(verdict, evidence, total, needed)
    return Claim("C12", text, "table_appendix_computational1", lambda _: finding), finding


def to_csv(costs: Sequence[Cost]) -> str:
    """Both tables, one line per cell: seconds per iteration and MiB with their ratios to MAPPO."""
    time = {row.cell: row for row in ratios(costs, lambda cost: cost.seconds, "wallclock")}
    memory = {row.cell: row for row in ratios(costs, lambda cost: cost.memory, "memory")}
    header = (
        *("cell", "seconds_per_iteration", "ratio", "published_minutes", "published_ratio"),
        *("mib", "memory_ratio", "published_mib", "published_memory_ratio"),
    )
    return csv_text(
        header, ((cell, *(_text(value) for row in (time[cell], memory[cell]) for value in row[1:])) for cell in time)
    )


def table(costs: Sequence[Cost]) -> tuple[list[str], list[list[str]], str]:
    """Header, rows and note of a table for readers: our ratio and the paper's side by side."""
    time = ratios(costs, lambda cost: cost.seconds, "wallclock")
    memory = {row.cell: row for row in ratios(costs, lambda cost: cost.memory, "memory")}
    header = ["Cell", "s per iteration", "× MAPPO", "paper ×", "MiB", "× MAPPO", "paper ×"]
    rows = []
    for row in time:
        other = memory[row.cell]
        numbers = (row.ours, row.ours_ratio, row.published_ratio, other.ours, other.ours_ratio, other.published_ratio)
        rows.append([row.cell, *(_text(value) or "not run" for value in numbers)])
    devices = ", ".join(sorted({cost.device for cost in costs})) or "nothing yet"
    return header, rows, f"One seed by itself after warm-up, evaluation left out; measured on {devices}."


def to_markdown(costs: Sequence[Cost]) -> str:
    """The same as Markdown."""
    header, rows, note = table(costs)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", f"- {note}"]) + "\n"


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def main(argv: Sequence[str] | None = None) -> None:
    arguments = argparse.ArgumentParser(description="Cost tables.")
    arguments.add_argument("--cost", type=Path, required=True, help="cost.csv")
    arguments.add_argument("--out", type=Path, required=True, help="path without suffix; .csv and .md are written")
    chosen = arguments.parse_args(argv)
    costs = read(chosen.cost)
    write(chosen.out.with_suffix(".csv"), to_csv(costs))
    write(chosen.out.with_suffix(".md"), to_markdown(costs))


if __name__ == "__main__":
    as_command(main)
